"""Prints data to stdout and everything else to stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import typer

from imitbench.cli import options
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.quantities import json_value
from imitbench.util.quantities import rough_duration as duration
from imitbench.util.text_line import note, on_terminal, uses_color, width_of
from imitbench.util.text_table import (
    TextColumn,
    by_word,
    format_table,
    format_text,
    nonzero,
    painted,
)

__all__ = [
    "TextColumn",
    "by_word",
    "command_for",
    "count",
    "duration",
    "nonzero",
    "note",
    "on_terminal",
    "print_fitted",
    "print_json",
    "print_table",
    "print_text",
    "progress_bar",
]


def print_json(document: Any) -> None:
    """Prints one JSON document on stdout; numbers that JSON lacks become null."""
    typer.echo(json.dumps(json_value(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(columns: Sequence[str | TextColumn], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table on stdout that fits the terminal; see `imitbench.util.text_table`."""
    print_fitted(partial(format_table, columns, rows))


class _Fitted(Protocol):
    def __call__(self, *, width: int | None, color: bool) -> str: ...


def print_fitted(render: _Fitted) -> None:
    """Prints on stdout what a function renders for the terminal's width and colors."""
    color = uses_color()
    typer.echo(render(width=width_of(), color=color), nl=False, color=color)


def print_text(text: str, *, indent: int = 0, color: str | None = None) -> None:
    """Prints text on stdout, broken at spaces where the terminal ends.

    Args:
        text: One line or more.
        indent: As for `imitbench.util.text_table.format_text`.
        color: Color of the first `indent` characters, on a terminal.
    """
    shown, colored = format_text(text, width=width_of(), indent=indent), uses_color()
    if colored:
        shown = painted(shown[:indent], color) + shown[indent:]
    typer.echo(shown, color=colored)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def command_for(out: Path, *words: str) -> str:
    """Returns a command for a results folder, for a shell: `imitbench resume --out other`."""
    out_option = [] if out == options.DEFAULT_OUT else ["--out", str(out)]
    return shlex.join(["imitbench", *words, *out_option])


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


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Context with a bar on stderr, on terminals only.

    Args:
        what: What is counted.
        quiet: Whether to show nothing.

    Yields:
        A function to call with the number that is done, and the total.
    """
    if quiet or not on_terminal():
        yield lambda _done, _total: None
        return
    from rich import progress

    from imitbench.bench.live_display import make_console

    columns = (
        "{task.description}",
        progress.BarColumn(bar_width=30),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=make_console(), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
