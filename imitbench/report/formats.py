"""The formats of a report, by name.

A new text format needs a module with a function that renders a `Report`, its name in
`TextFormat`, and a line in `_RENDERERS`. The options of the command line and of
`imitbench.report` use these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from imitbench.report.model import Report
    from imitbench.store.run_details import ReportDetails

TextFormat = Literal["md", "html", "csv", "latex", "json"]
PlotFormat = Literal["png", "svg"]
ReportFormat: TypeAlias = Literal[TextFormat, PlotFormat]
Renderer: TypeAlias = "Callable[[Report, Path], str]"


def is_plot(format: object) -> TypeIs[PlotFormat]:
    """Whether a format is a figure format, which needs a folder for its files."""
    return format in get_args(PlotFormat)


def render(report: Report, out: Path, format: TextFormat) -> str:
    """Renders a report as text.

    Args:
        report: The report to render.
        out: Results folder of the report; the HTML page reads single runs from it.
        format: Format of the text.
    """
    return _RENDERERS[format](report, out)


def plot(
    report: Report, out: Path, format: PlotFormat, folder: Path, only: Sequence[str] = ()
) -> list[Path]:
    """Draws a report.

    Args:
        report: The report to draw.
        out: The results folder that it was built from.
        format: Format of the files.
        folder: Folder of the files; created when missing.
        only: Patterns of the names of figures, see `imitbench.report.plots.write_plots`.

    Returns:
        Paths of the files.

    Raises:
        InputError: matplotlib is not installed, or a pattern matches no figure.
    """
    from imitbench.report.plots import require_matplotlib, write_plots

    require_matplotlib()
    return list(write_plots(report, _details(out), folder, format, only))


# Each renderer imports its own dependencies, so that the others stay fast.


def _markdown(report: Report, out: Path) -> str:
    from imitbench.report.markdown import render_markdown

    del out
    return render_markdown(report)


def _html(report: Report, out: Path) -> str:
    from imitbench.report.html_page import render_html

    return render_html(report, _details(out))


def _csv(report: Report, out: Path) -> str:
    from imitbench.report.csv_table import render_csv

    del out
    return render_csv(report)


def _latex(report: Report, out: Path) -> str:
    from imitbench.report.latex import render_latex

    del out
    return render_latex(report)


def _json(report: Report, out: Path) -> str:
    from imitbench.report.json_document import render_json

    del out
    return render_json(report)


_RENDERERS: dict[TextFormat, Renderer] = {
    "md": _markdown,
    "html": _html,
    "csv": _csv,
    "latex": _latex,
    "json": _json,
}


def _details(out: Path) -> ReportDetails:
    from imitbench.store import database
    from imitbench.store.run_details import read_details

    with database.reader(out) as connection:
        return read_details(connection)
