"""Template of a variant of GAIL."""
