"""Writes demonstrations as JSON lines or CSV, for programs in other languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from imitbench.data.arrow_table import TableRow
from imitbench.data.csv_source import csv_header, csv_lines
from imitbench.data.demonstration_checks import row_problem
from imitbench.data.json_lines import json_line
from imitbench.data.trajectory_source import TrajectorySource
from imitbench.errors import InputError, did_you_mean
from imitbench.util.files import atomic_stream

FORMATS = (".jsonl", ".csv")
"""Endings of the files that `export_demonstrations` writes."""


@dataclass(frozen=True)
class ExportSummary:
    """Describes an exported data set.

    Attributes:
        rows: Number of trajectories.
        steps: Number of actions in them.
        bytes: Size of the file.
    """

    rows: int
    steps: int
    bytes: int


def export_demonstrations(
    source: TrajectorySource,
    target: Path,
    *,
    limit: int | None = None,
    replace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportSummary:
    """Writes a data set as text, with all digits of its numbers; infos are left out.

    The file is created atomically. See `imitbench.data.json_lines` and `imitbench.data.csv_source`
    for the formats, which `open_trajectories` reads back.

    Args:
        source: Data set to read.
        target: File to create, whose name ends in one of `FORMATS`.
        limit: Maximum number of trajectories; None for all.
        replace: Whether to replace an existing file.
        progress: Called with the numbers of trajectories done and in total.

    Raises:
        InputError: The name has another ending, the file exists, a row is invalid, or the format
            cannot hold it.
        OSError: The file cannot be written.
    """
    lines_of = _lines(target)
    if target.is_dir():
        raise InputError(f"{target}: is a folder: name a file")
    if target.exists() and not replace:
        raise InputError(f"{target}: exists already: name another file, or pass --force")
    total = len(source) if limit is None else min(limit, len(source))
    rows = steps = 0
    with atomic_stream(target) as stream:
        for chunk in source.chunks(with_infos=False, limit=limit):
            for number, row in enumerate(chunk.rows, chunk.first_row):
                where = f"{source.where}, row {number}"
                if problem := row_problem(row):
                    raise InputError(f"{where}: {problem}")
                try:
                    stream.writelines(line.encode() for line in lines_of(row, number))
                except InputError as error:
                    raise InputError(f"{where}: {error}") from error
                rows, steps = rows + 1, steps + len(row.acts)
            if progress is not None:
                progress(rows, total)
    return ExportSummary(rows, steps, target.stat().st_size)


def _lines(target: Path) -> Callable[[TableRow, int], Iterator[str]]:
    if target.suffix == ".jsonl":
        return lambda row, _: iter([json_line(row)])
    if target.suffix != ".csv":
        raise InputError(
            f"{target}: unknown format '{target.suffix}'; {did_you_mean(target.suffix, FORMATS)}"
        )
    header: list[str] = []

    def lines(row: TableRow, number: int) -> Iterator[str]:
        own = csv_header(row)
        if not header:
            header.append(own)
            yield own
        elif own != header[0]:
            raise InputError("its columns differ from those of the first row: export them apart")
        yield from csv_lines(row, number)

    return lines
