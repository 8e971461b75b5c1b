"""`imitbench report`: tables made from the results."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.report.model import Report
    from imitbench.store.records import ReferenceRow, RunRow

_Row = TypeVar("_Row", bound="RunRow | ReferenceRow")
REPLICATES = 50_000


class ReportFormat(str, Enum):
    """Formats of the report."""

    md = "md"
    csv = "csv"


def report(
    out: options.Out = options.DEFAULT_OUT,
    format: Annotated[
        ReportFormat, typer.Option("--format", help="Format of the report.")
    ] = ReportFormat.md,
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="Where to write it; - is stdout.")
    ] = "-",
    replicates: Annotated[
        int, typer.Option("--replicates", min=100, help="Bootstrap replicates.")
    ] = REPLICATES,
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    Example: imitbench report --out runs --format md --to report.md
    """
    from imitbench.cli.output import note
    from imitbench.errors import InputError
    from imitbench.report.csv_table import render_csv
    from imitbench.report.markdown import render_markdown
    from imitbench.util.files import atomic_write_text

    built = build(out, replicates=replicates)
    text = render_csv(built) if format is ReportFormat.csv else render_markdown(built)
    if to == "-":
        typer.echo(text, nl=False)
        return
    try:
        atomic_write_text(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")


def build(out: Path, *, suite: str | None = None, replicates: int = REPLICATES) -> Report:
    """Collects what is new in a results folder, and builds the report on all of it.

    Args:
        out: Results folder.
        suite: Only this suite.
        replicates: Bootstrap replicates.

    Raises:
        InputError: There are no results.
    """
    from imitbench.cli.output import note
    from imitbench.report.tables import build_report
    from imitbench.store import database
    from imitbench.store.collector import collect

    for left_out in collect(out).quarantined:
        note(f"left out: {left_out.path}: {left_out.reason}")
    with database.reader(out) as connection:
        scores = _of_suite(database.read_scores(connection), suite)
        failures = _of_suite(database.read_failures(connection), suite)
        references = _of_suite(database.read_references(connection), suite)
        measures = _of_suite(database.read_measures(connection), suite)
    return build_report(scores, failures, references, measures, replicates=replicates)


def _of_suite(rows: list[_Row], suite: str | None) -> list[_Row]:
    return [row for row in rows if suite in (None, row.suite)]
