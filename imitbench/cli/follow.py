"""Follows a run for `imitbench logs RUN --follow`: its log, how far it is, and how it ends."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.live import Live

from imitbench.bench.live_display import LineRate, describe, make_console, run_table, success_text
from imitbench.cli.log_text import printable_log
from imitbench.cli.output import command_for, note, on_terminal
from imitbench.cli.status_table import queue_line
from imitbench.store.live_runs import LiveRun, find_live_run
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import is_active
from imitbench.untrusted.files import open_ordinary

_EVERY_S, _IDLE_S = 0.5, 2.0  # a scheduler is asked only while no process works on the run
_SURE_S = 3.0  # without a process, in which a sweep may start one
_Show = Callable[[LiveRun | None], None]


def follow_run(out: Path, directory: RunDirectory, tail: int | None) -> None:
    """Prints the log of a run as it grows, until the run ends or nothing is working on it.

    Args:
        out: Root of the results folder.
        directory: Directory of the run.
        tail: Number of present lines to print first; all if `None`.
    """
    log = GrowingLog(directory.log)
    lines = log.new_lines()
    for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
        typer.echo(line)
    try:
        with _shown() as show:
            _wait(out, directory, log, show)
    except KeyboardInterrupt:
        return
    _tell_end(out, directory)


def _wait(out: Path, directory: RunDirectory, log: GrowingLog, show: _Show) -> None:
    last_sign = time.monotonic()
    while True:
        ended = directory.has_outcome and not directory.is_claimed()
        for line in log.new_lines(whole=ended):
            typer.echo(line)
        if ended:
            return
        live = find_live_run(out, directory)
        show(live)
        if live is not None or is_active(out) or queue_line(out) is not None:
            last_sign = time.monotonic()
        elif time.monotonic() - last_sign > _SURE_S:
            return
        time.sleep(_IDLE_S if live is None else _EVERY_S)


def _tell_end(out: Path, directory: RunDirectory) -> None:
    if directory.is_done:
        note(f"done: {success_text(directory)}")
    elif directory.has_failed:
        failure = directory.read_failure()
        note(printable_log(f"failed ({failure.phase}): {failure.error_type}: {failure.message}"))
    else:
        note(f"no process is working on it: `{command_for(out, 'resume')}` continues")


class GrowingLog:
    """The lines of a log file that other processes append to, and may replace.

    Args:
        path: The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._position = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def new_lines(self, *, whole: bool = False) -> list[str]:
        """Returns printable lines that were completed since the last call.

        Args:
            whole: Whether to return the last line even if it is not complete.
        """
        text = self._rest + self._decoder.decode(self._new_bytes())
        end = len(text) if whole else text.rfind("\n") + 1
        self._rest = text[end:]
        return printable_log(text[:end]).splitlines()

    def _new_bytes(self) -> bytes:
        try:
            with open_ordinary(self._path) as stream:
                inode = self._path.stat().st_ino
                if inode != self._inode:
                    self._inode, self._position = inode, 0
                stream.seek(self._position)
                data = stream.read()
        except OSError:
            return b""
        self._position += len(data)
        return data


@contextmanager
def _shown() -> Iterator[_Show]:
    """Shows progress on stderr: a live line on a terminal, else now and then a line."""
    if not on_terminal():
        rate = LineRate()

        def show(run: LiveRun | None) -> None:
            if run is not None and rate.is_due(run):
                note(f"{run.label}: {describe(run)}")

        yield show
        return
    console = make_console()
    with Live(
        console=console,
        transient=True,
        auto_refresh=False,
        # Lines of the log are data: they stay on stdout if that is a file.
        redirect_stdout=sys.stdout.isatty(),
    ) as live:
        yield lambda run: live.update(
            run_table([] if run is None else [run], console.width), refresh=True
        )
