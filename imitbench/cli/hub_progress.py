"""What the person at the keyboard sees of downloads."""

from __future__ import annotations

import os

from imitbench.cli.output import note, on_terminal
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Tell


def make_notifier(*, quiet: bool = False) -> Tell:
    """Where messages about downloads go: to stderr, bars to terminals only.

    Args:
        quiet: Whether they go nowhere.
    """
    if quiet or not on_terminal():
        # Read by the hub's client when it is first imported.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return silent if quiet else note


def size_text(count: int) -> str:
    """Bytes as people say them."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
