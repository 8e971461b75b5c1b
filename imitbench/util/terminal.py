"""What the person at the keyboard is told beside the data: on stderr."""

from __future__ import annotations

import sys

from imitbench.util.text_line import printable


def note(message: str) -> None:
    """Says something to the person on stderr; what is in names cannot write on the terminal."""
    print(printable(message), file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()
