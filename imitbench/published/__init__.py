"""Reads, writes and checks folders of published results, which others can cite."""
