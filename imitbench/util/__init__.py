"""Helpers that the public API names: logging, networks, environments, and atomic files."""
