"""Messages for the terminal, what it can show, and text from untrusted files made printable."""

from __future__ import annotations

import os
import sys
from typing import TextIO

DEFAULT_WIDTH = 80
"""Columns of a terminal that does not tell its width."""
LEAST_WIDTH = 20


def one_line(text: object, limit: int | None = 160) -> str:
    """Shortens text to one printable line.

    Args:
        text: Any object, such as an error of another library or a name from a file.
        limit: Largest length; `None` for any.

    Returns:
        One line. Control characters, which could manipulate the terminal, are replaced by
        spaces; shortened text ends in `…`.
    """
    whole = str(text) if limit is None else str(text)[: 8 * limit]
    line = " ".join(printable(whole).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str) -> str:
    """Replaces control characters by spaces, except for line breaks."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def printable_log(text: str) -> str:
    """Returns text without control characters, as these could overwrite parts of a terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars overwrite their line
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in lines)


def encodable(text: str) -> str:
    """Makes text encodable as UTF-8.

    Args:
        text: Any text; lone surrogates, which Python uses in file names that are not UTF-8, are
            replaced by escapes.
    """
    return text.encode(errors="backslashreplace").decode()


def note(message: str) -> None:
    """Prints a message to stderr; control characters in it cannot manipulate the terminal."""
    print(printable(message), file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


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
    """Whether text on a stream may have color.

    `NO_COLOR` forbids it and `FORCE_COLOR` demands it, if they are not empty; `NO_COLOR` is the
    stronger one. Else a terminal gets color, unless `TERM` is `dumb`, and nothing else does.

    Args:
        stream: A text stream; stdout when `None`.

    Source: https://no-color.org, https://force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
