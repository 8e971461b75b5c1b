"""Algorithm cards; data only."""
