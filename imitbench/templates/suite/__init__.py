"""Template of a suite with a new environment."""
