"""Environments stepped in batches, and wrappers that disturb them."""
