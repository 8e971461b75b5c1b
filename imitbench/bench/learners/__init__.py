"""Adapters through which the harness trains each algorithm."""
