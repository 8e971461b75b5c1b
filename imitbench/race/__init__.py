"""Races: comparisons that train batches of seeds until they are decided."""
