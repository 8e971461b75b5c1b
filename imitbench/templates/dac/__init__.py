"""Template of a variant of DAC."""
