"""`imitbench report`: tables, pages and figures made from the results."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.report.model import Report
    from imitbench.report.plots import Kind
    from imitbench.store.records import ReferenceRow, RunRow
    from imitbench.store.run_details import Details

_Row = TypeVar("_Row", bound="RunRow | ReferenceRow")
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
    png = "png"
    svg = "svg"


_PLOTS = (ReportFormat.png, ReportFormat.svg)


def report(
    out: options.Out = options.DEFAULT_OUT,
    format: Annotated[
        ReportFormat,
        typer.Option("--format", help="Tables (md, csv, latex), a page (html), plots (png, svg)."),
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
) -> None:
    """Report raw returns, normalized scores, mean and IQM with 95% intervals.

    Example: imitbench report --out runs --format html --to report.html
    """
    from imitbench.cli.output import note
    from imitbench.errors import InputError
    from imitbench.util.files import atomic_write_text

    if format in _PLOTS:
        from imitbench.report.plots import require_matplotlib

        if to == "-":
            raise InputError(f"--format {format.value} needs a folder: --to DIR")
        require_matplotlib()
    built = build(out, replicates=replicates, failed_runs=failed_runs.value, with_imported=external)
    if format in _PLOTS:
        _plot(built, out, format, to)
        return
    text = _written(built, out, format)
    if to == "-":
        typer.echo(text, nl=False)
        return
    try:
        atomic_write_text(Path(to), text)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    note(f"wrote {to}")


def _written(built: Report, out: Path, format: ReportFormat) -> str:
    from imitbench.report.csv_table import render_csv
    from imitbench.report.html_page import render_html
    from imitbench.report.latex import render_latex
    from imitbench.report.markdown import render_markdown

    if format is ReportFormat.html:
        return render_html(built, _details(out))
    writers = {
        ReportFormat.md: render_markdown,
        ReportFormat.csv: render_csv,
        ReportFormat.latex: render_latex,
    }
    return writers[format](built)


def _plot(built: Report, out: Path, format: ReportFormat, to: str) -> None:
    from imitbench.cli.output import note
    from imitbench.report.plots import write_plots

    kind: Kind = "png" if format is ReportFormat.png else "svg"
    for path in write_plots(built, _details(out), Path(to), kind):
        note(f"wrote {path}")


def _details(out: Path) -> Details:
    from imitbench.store import database
    from imitbench.store.run_details import read_details

    with database.reader(out) as connection:
        return read_details(connection)


def build(
    out: Path,
    *,
    suite: str | None = None,
    replicates: int = REPLICATES,
    failed_runs: str = FailedRuns.exclude.value,
    with_imported: bool = False,
) -> Report:
    """Collects what is new in a results folder, and builds the report on all of it.

    Args:
        out: Results folder.
        suite: Only this suite.
        replicates: Bootstrap replicates.
        failed_runs: What failed runs count as, a `FailurePolicy`.
        with_imported: Whether results of other tools are shown.

    Raises:
        InputError: There are no results.
    """
    from imitbench.cli.output import note
    from imitbench.report.tables import build_report
    from imitbench.stats.cells import FailurePolicy
    from imitbench.store import database
    from imitbench.store.collector import collect
    from imitbench.store.run_details import read_episodes

    for left_out in collect(out).quarantined:
        note(f"left out: {left_out.path}: {left_out.reason}")
    with database.reader(out) as connection:
        scores = _of_suite(database.read_scores(connection), suite)
        failures = _of_suite(database.read_failures(connection), suite)
        references = _of_suite(database.read_references(connection), suite)
        measures = _of_suite(database.read_measures(connection), suite)
        imported = database.read_external_scores(connection) if with_imported else []
        episodes = read_episodes(connection, suite)
    return build_report(
        scores,
        failures,
        references,
        measures,
        imported=[row for row in imported if suite in (None, row.suite)],
        failed_runs=FailurePolicy(failed_runs),
        replicates=replicates,
        episodes=episodes,
    )


def _of_suite(rows: list[_Row], suite: str | None) -> list[_Row]:
    return [row for row in rows if suite in (None, row.suite)]
