"""Names, digests and JSON of imported files."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic_core import from_json

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

_MAX_NAME = 1000


def parse_json(content: bytes, where: str) -> Any:
    """Parses JSON into plain values; never creates objects of types that it names.

    Raises:
        InputError: The content is not JSON, or nested too deeply.
    """
    try:
        return from_json(content)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({one_line(error)})") from error


def content_digest(content: bytes) -> str:
    """Returns the SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def visible(name: str) -> str:
    """Returns a name as one line of at most 1000 characters; different names stay different."""
    line = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    if len(line) <= _MAX_NAME:
        return line
    return f"{line[: _MAX_NAME - 20]}…{content_digest(line.encode())[:12]}"
