"""`imitbench report`: tables made from the results."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options


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
    ] = 50_000,
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    Example: imitbench report --out runs --format md --to report.md
    """
    from imitbench.cli.output import note
    from imitbench.errors import InputError
    from imitbench.report.csv_table import render_csv
    from imitbench.report.markdown import render_markdown
    from imitbench.report.tables import build_report
    from imitbench.store import database
    from imitbench.store.collector import collect
    from imitbench.util.files import atomic_write_text

    for message in collect(out).unreadable:
        note(f"left out: {message}")
    with database.reader(out) as connection:
        built = build_report(
            database.read_scores(connection),
            database.read_failures(connection),
            database.read_references(connection),
            database.read_measures(connection),
            replicates=replicates,
        )
    text = render_csv(built) if format is ReportFormat.csv else render_markdown(built)
    if to == "-":
        typer.echo(text, nl=False)
        return
    try:
        atomic_write_text(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")
