"""Messages for the terminal, and text from other people's files made fit for one line of them."""

from __future__ import annotations

import sys


def one_line(text: object, limit: int | None = 160) -> str:
    """Shortens text to one printable line.

    Args:
        text: Anything, such as an error of another library or a name out of a file.
        limit: Most characters to keep; `None` for all.

    Returns:
        The text on one line: control characters, with which a file could write on the
        terminal, become spaces, and what is too long ends in `…`.
    """
    whole = str(text) if limit is None else str(text)[: 8 * limit]
    line = " ".join(printable(whole).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str) -> str:
    """Text with spaces for control characters, line breaks excepted."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it.

    Args:
        text: Anything; where it quotes the name of a file that is not UTF-8, Python has put lone
            surrogates, of which escapes are left.
    """
    return text.encode(errors="backslashreplace").decode()


def note(message: str) -> None:
    """Says something to the person on stderr; what is in names cannot write on the terminal."""
    print(printable(message), file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()
