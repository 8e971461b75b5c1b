"""What the person at the keyboard is told beside the data: on stderr."""

from __future__ import annotations

import sys


def note(message: str) -> None:
    """Says something to the person on stderr; what is in names cannot write on the terminal."""
    print(printable(message), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Text with spaces for control characters, line breaks excepted."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def on_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()
