"""Policies and their pickle-free storage."""
