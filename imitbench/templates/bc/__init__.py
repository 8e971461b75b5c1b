"""Template of a variant of behavioral cloning."""
