"""Checks for tests and notebooks of users."""
