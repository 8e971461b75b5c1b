"""The formats of a report, by name.

A new text format needs a module with a function from `Report` to text, and its name in `TextFormat`
and in `render`. The options of the command line and of `imitbench.report` use these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from imitbench.report.model import Report
    from imitbench.store.run_details import ReportDetails

TextFormat = Literal["md", "markdown", "text", "html", "csv", "latex", "paper", "json"]
PlotFormat = Literal["png", "svg", "pdf"]
ReportFormat: TypeAlias = Literal[TextFormat, PlotFormat]


def is_plot(format: object) -> TypeIs[PlotFormat]:
    """Whether a format is a figure format, which needs a folder for its files."""
    return format in get_args(PlotFormat)


def render(
    report: Report, paths: Sequence[Path], format: TextFormat, *, captions: bool = True
) -> str:
    """Renders a report as text.

    Args:
        report: The report to render.
        paths: Folders that it was built from; the HTML page reads single runs from them.
        format: Format of the text.
        captions: Whether tables for papers have captions.

    Raises:
        InputError: Captions are left out of another format than `paper`.
    """
    from imitbench.errors import InputError

    if not captions and format != "paper":
        raise InputError(f"--no-captions: is for --format paper, not for {format}")
    # Each format imports its own dependencies, so that the others stay fast.
    match format:
        case "md" | "markdown":
            from imitbench.report.markdown import render_markdown

            return render_markdown(report)
        case "text":
            from imitbench.report.terminal import render_terminal

            return render_terminal(report)
        case "html":
            from imitbench.report.html_page import render_html

            return render_html(report, _details(paths))
        case "csv":
            from imitbench.report.data_formats import render_csv

            return render_csv(report)
        case "json":
            from imitbench.report.data_formats import render_json

            return render_json(report)
        case "latex":
            from imitbench.report.latex import render_latex

            return render_latex(report)
        case "paper":
            from imitbench.report.paper_table import render_paper_table

            return render_paper_table(report, captions=captions)


def plot(
    report: Report,
    paths: Sequence[Path],
    format: PlotFormat,
    folder: Path,
    only: Sequence[str] = (),
) -> list[Path]:
    """Draws a report that was built from some folders, see `imitbench.report.plots.write_plots`."""
    from imitbench.report.plots import require_matplotlib, write_plots

    require_matplotlib()
    return list(write_plots(report, _details(paths), folder, format, only))


def _details(paths: Sequence[Path]) -> ReportDetails:
    from imitbench.published.opening import open_results
    from imitbench.store.run_details import read_details
    from imitbench.util.hub_client import silent

    with open_results(paths, notify=silent) as connection:  # building it has shown the messages
        return read_details(connection)
