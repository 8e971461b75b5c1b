"""Prints data to stdout and everything else to stderr."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from imitbench.cli import options
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.quantities import rough_duration as duration
from imitbench.util.text_line import note, on_terminal

__all__ = [
    "command_for",
    "count",
    "duration",
    "note",
    "on_terminal",
    "print_json",
    "print_table",
]


def print_json(document: Any) -> None:
    """Prints one JSON document on stdout; numbers that JSON lacks become null."""
    typer.echo(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints aligned columns on stdout; numbers are right-aligned."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(header)
    ]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    for line in [list(header), ["-" * width for width in widths], *cells]:
        padded = [
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def command_for(out: Path, *words: str) -> str:
    """Returns a command for a results folder, for a shell: `imitbench resume --out other`."""
    place = [] if out == options.DEFAULT_OUT else ["--out", str(out)]
    return shlex.join(["imitbench", *words, *place])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def typed_command() -> str:
    """Returns the command line of this process, quoted for a shell."""
    return shlex.join(["imitbench", *sys.argv[1:]])


def make_notifier(*, quiet: bool = False) -> Notify:
    """Returns a function for messages about downloads: to stderr, with bars on terminals only.

    Args:
        quiet: Whether messages are discarded.
    """
    if quiet or not on_terminal():
        # The hub's client reads this when it is first imported.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return silent if quiet else note


def size_text(count: int) -> str:
    """Returns a number of bytes as kB or MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
