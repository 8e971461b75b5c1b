"""`imitbench report`: writes tables, pages and figures of the results."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options
from imitbench.cli.options import option
from imitbench.cli.output import note, print_fitted
from imitbench.errors import InputError
from imitbench.records.selection import Selection
from imitbench.report.formats import ReportFormat, is_plot, plot, render
from imitbench.util.files import write_output

Figures = Annotated[
    list[str],
    option(
        "--figure",
        "Draw only these plots: intervals, profiles, improvement, curve-*, regimes-*, race-*; "
        "repeatable.",
        "GLOB",
    ),
]

Format = Annotated[
    ReportFormat | None,
    option(
        "--format",
        "Format: tables (text, md or markdown, csv, latex, json), a table of algorithms by "
        "environments for LaTeX (paper), a page (html), plots (png, svg, pdf) [text on a terminal, "
        "else md].",
    ),
]


def report(
    out: options.Results = options.DEFAULT_RESULTS,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    env: options.Envs = [],  # noqa: B006
    algo: options.Algos = [],  # noqa: B006
    format: Format = None,
    to: Annotated[
        str, option("--to", "File to write; - for stdout. A folder for plots.", "FILE")
    ] = "-",
    figure: Figures = [],  # noqa: B006
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    failed_runs: options.FailedRuns = "exclude",
    acting: options.Acting = None,
    external: Annotated[
        bool, option("--external", "Show imported results in separate tables.")
    ] = False,
    captions: Annotated[
        bool, option("--captions/--no-captions", "Whether tables of --format paper have one.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    A terminal shows aligned tables that fit it; a pipe or a file gets Markdown. Published results
    are only read. With several folders, one report shows the runs of all; the random and the
    expert policy are always among the algorithms.

    Example: imitbench report --out runs --format html --to report.html
    """
    from imitbench.published.opening import results_location
    from imitbench.report.build import build
    from imitbench.report.plots import check_figures, require_matplotlib
    from imitbench.report.terminal import render_terminal

    on_terminal = to == "-" and sys.stdout.isatty()
    format = options.chosen_format(format, json=json) or ("text" if on_terminal else "md")
    if is_plot(format):
        if to == "-":
            raise InputError(f"--format {format} needs a folder: --to DIR")
        require_matplotlib()
        check_figures(figure)
    elif figure:
        raise InputError(f"--figure {figure[0]}: works only with --format png, svg or pdf")
    paths = [results_location(name) for name in out]
    built = build(
        paths,
        notify=note,
        selection=Selection.of(suite, env, algo),
        replicates=replicates,
        failed_runs=failed_runs,
        with_imported=external,
        acting=acting,
    )
    if is_plot(format):
        for path in plot(built, paths, format, Path(to), figure):
            note(f"wrote {path}")
        return
    text = render(built, paths, format, captions=captions)
    if to != "-":
        _write(text, to)
    elif format == "text":
        print_fitted(partial(render_terminal, built))
    else:
        typer.echo(text, nl=False)


def _write(text: str, to: str) -> None:
    try:
        write_output(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")
