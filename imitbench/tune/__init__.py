"""Hyper-parameter tuning: a search, then a held-out comparison with the defaults on other seeds."""
