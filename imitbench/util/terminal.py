"""What the terminal can show: its width, and whether it gets colour."""

from __future__ import annotations

import os
import sys
from typing import TextIO

DEFAULT_WIDTH = 80
"""Columns of a terminal that does not tell its width."""
LEAST_WIDTH = 20


def width_of(stream: TextIO | None = None) -> int | None:
    """Returns the number of columns that lines of a stream may have.

    `COLUMNS` states it for any stream; else a terminal is asked.

    Args:
        stream: A text stream; stdout when `None`.

    Returns:
        At least `LEAST_WIDTH`; `None` for a file or pipe, whose lines may have any length.
    """
    stream = stream or sys.stdout
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdecimal() and int(stated) > 0:
        return max(LEAST_WIDTH, int(stated))
    if not stream.isatty():
        return None
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(LEAST_WIDTH, columns or DEFAULT_WIDTH)


def uses_color(stream: TextIO | None = None) -> bool:
    """Whether text on a stream may have colour.

    `NO_COLOR` forbids it and `FORCE_COLOR` demands it, if they are not empty; `NO_COLOR` is the
    stronger one. Else a terminal gets colour, unless `TERM` is `dumb`, and nothing else does.

    Args:
        stream: A text stream; stdout when `None`.

    Source: https://no-color.org, https://force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
