"""Messages and values from outside, made safe for terminals."""

from __future__ import annotations

MESSAGE_LENGTH = 500
"""Largest number of characters of an error line."""

_TAIL = 160  # the end of a message often says how to fix the problem


def visible_characters(text: str) -> str:
    """Shows control characters, line breaks and lone surrogates as escape sequences."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def error_line(message: str, length: int = MESSAGE_LENGTH) -> str:
    """Returns a message, or a value from outside, as one short line.

    Args:
        message: Any text. Control characters become escapes; of a long message the beginning and
            the end remain.
        length: Largest number of characters.
    """
    # Cut before the escapes are made too, which take time for megabytes.
    line = visible_characters(_cut(message.strip(), 4 * length))
    return _cut(line, length)


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    tail = min(_TAIL, length // 3)
    return f"{text[: length - tail - 3]} … {text[-tail:]}"
