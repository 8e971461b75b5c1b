"""Text of logs for the terminal."""

from __future__ import annotations


def printable_log(text: str) -> str:
    """Returns text without control characters, as these could overwrite parts of a terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars overwrite their line
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in lines)
