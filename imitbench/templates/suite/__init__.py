"""A suite with an environment of its own."""
