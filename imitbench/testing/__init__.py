"""Checks that tests and notebooks of users may call."""
