"""Suite cards with their experts and demonstrations; data only."""
