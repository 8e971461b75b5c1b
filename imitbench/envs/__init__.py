"""Environments stepped in batches by their simulator, and wrappers that disturb them."""
