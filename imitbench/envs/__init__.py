"""Environments stepped in batches by their simulator."""
