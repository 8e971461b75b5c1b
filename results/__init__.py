"""Published results of this project; data only."""
