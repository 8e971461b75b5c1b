"""Typed models of the suite and algorithm cards, and their loaders."""
