"""Experts, demonstrations and results on the Hugging Face hub: in and out, as data only."""

from pathlib import Path

DEFAULT_LOCK = Path("imitbench-hub.lock")
"""Where `imitbench prefetch` writes down what it fetched."""
