"""Template of a suite with demonstrations and no expert."""
