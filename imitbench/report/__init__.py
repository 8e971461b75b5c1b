"""Builds reports from the results database, and writes them in several formats."""
