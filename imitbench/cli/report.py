"""`imitbench report`: tables, pages and figures made from the results."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.report.build import PlotFormat, TextFormat

REPLICATES = 50_000


class FailedRuns(str, Enum):
    """What a failed run counts as."""

    exclude = "exclude"
    count_as_random = "count-as-random"


class ReportFormat(str, Enum):
    """Formats of the report."""

    md = "md"
    html = "html"
    csv = "csv"
    latex = "latex"
    json = "json"
    png = "png"
    svg = "svg"


_PLOTS = (ReportFormat.png, ReportFormat.svg)


def report(
    out: options.Out = options.DEFAULT_OUT,
    format: Annotated[
        ReportFormat,
        typer.Option(
            "--format", help="Tables (md, csv, latex, json), a page (html), plots (png, svg)."
        ),
    ] = ReportFormat.md,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FILE", help="Where to write it; - is stdout. Plots: a folder."
        ),
    ] = "-",
    replicates: Annotated[
        int, typer.Option("--replicates", min=100, help="Bootstrap replicates.")
    ] = REPLICATES,
    failed_runs: Annotated[
        FailedRuns, typer.Option("--failed-runs", help="What a failed run counts as.")
    ] = FailedRuns.exclude,
    external: Annotated[
        bool, typer.Option("--external", help="Show imported results, too, in tables of their own.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    Example: imitbench report --out runs --format html --to report.html
    """
    from imitbench.cli.output import note
    from imitbench.errors import InputError
    from imitbench.report.build import build, plot, render
    from imitbench.report.plots import require_matplotlib
    from imitbench.util.files import atomic_write_text

    if json:
        format = ReportFormat.json
    if format in _PLOTS:
        if to == "-":
            raise InputError(f"--format {format.value} needs a folder: --to DIR")
        require_matplotlib()
    built = build(
        out,
        tell=note,
        replicates=replicates,
        failed_runs=failed_runs.value,
        with_imported=external,
    )
    if format in _PLOTS:
        for path in plot(built, out, cast("PlotFormat", format.value), Path(to)):
            note(f"wrote {path}")
        return
    text = render(built, out, cast("TextFormat", format.value))
    if to == "-":
        typer.echo(text, nl=False)
        return
    try:
        atomic_write_text(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")
