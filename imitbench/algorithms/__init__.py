"""Imitation and reward learning algorithms."""
