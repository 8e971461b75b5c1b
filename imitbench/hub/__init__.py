"""Pulls and pushes experts, demonstrations and results on the Hugging Face hub, without pickle."""

from pathlib import Path

DEFAULT_LOCK = Path("imitbench-hub.lock")
"""Lock file of `imitbench prefetch`."""
