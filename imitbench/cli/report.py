"""`imitbench report`: writes tables, pages and figures of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options
from imitbench.report.formats import ReportFormat, is_plot, plot, render


def report(
    out: options.Out = options.DEFAULT_OUT,
    format: Annotated[
        ReportFormat,
        typer.Option(
            "--format",
            help="Format: tables (md, csv, latex, json), a page (html), plots (png, svg).",
        ),
    ] = "md",
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FILE", help="File to write; - for stdout. A folder for plots."
        ),
    ] = "-",
    figure: Annotated[
        list[str],
        typer.Option(
            "--figure",
            metavar="GLOB",
            help="Draw only these plots: intervals, profiles, improvement, curve-*; repeatable.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    failed_runs: options.FailedRuns = "exclude",
    external: Annotated[
        bool, typer.Option("--external", help="Show imported results in separate tables.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    Example: imitbench report --out runs --format html --to report.html
    """
    from imitbench.cli.output import note
    from imitbench.errors import InputError
    from imitbench.report.build import build
    from imitbench.report.plots import require_matplotlib
    from imitbench.util.files import write_output

    if json:
        format = "json"
    if is_plot(format):
        if to == "-":
            raise InputError(f"--format {format} needs a folder: --to DIR")
        require_matplotlib()
    elif figure:
        raise InputError(f"--figure {figure[0]}: works only with --format png or svg")
    built = build(
        out,
        notify=note,
        replicates=replicates,
        failed_runs=failed_runs,
        with_imported=external,
    )
    if is_plot(format):
        for path in plot(built, out, format, Path(to), figure):
            note(f"wrote {path}")
        return
    text = render(built, out, format)
    if to == "-":
        typer.echo(text, nl=False)
        return
    try:
        write_output(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")
