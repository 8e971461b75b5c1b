"""Tuning: a search on seeds of its own, and a contest with the defaults on others."""
