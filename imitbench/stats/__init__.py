"""Computes statistics over normalized scores, from NumPy arrays to records."""
