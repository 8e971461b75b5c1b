"""Messages for the terminal, and text from untrusted files as one printable line."""

from __future__ import annotations

import sys


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
