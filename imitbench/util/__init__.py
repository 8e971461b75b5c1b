"""Helpers for logging, networks, environments and atomic files."""
