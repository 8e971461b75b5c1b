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

TextFormat = Literal["md", "markdown", "text", "html", "csv", "latex", "paper", "json"]
PlotFormat = Literal["png", "svg", "pdf"]
ReportFormat: TypeAlias = Literal[TextFormat, PlotFormat]
Renderer: TypeAlias = "Callable[[Report, Sequence[Path]], str]"


def is_plot(format: object) -> TypeIs[PlotFormat]:
    """Whether a format is a figure format, which needs a folder for its files."""
    return format in get_args(PlotFormat)


def render(
    report: Report, places: Sequence[Path], format: TextFormat, *, captions: bool = True
) -> str:
    """Renders a report as text.

    Args:
        report: The report to render.
        places: Folders that it was built from; the HTML page reads single runs from them.
        format: Format of the text.
        captions: Whether tables for papers have captions.

    Raises:
        InputError: Captions are left out of another format than `paper`.
    """
    if not captions:
        from imitbench.errors import InputError
        from imitbench.report.paper_table import render_paper_table

        if format != "paper":
            raise InputError(f"--no-captions: is for --format paper, not for {format}")
        return render_paper_table(report, captions=False)
    return _RENDERERS[format](report, places)


def plot(
    report: Report,
    places: Sequence[Path],
    format: PlotFormat,
    folder: Path,
    only: Sequence[str] = (),
) -> list[Path]:
    """Draws a report.

    Args:
        report: The report to draw.
        places: Folders that it was built from.
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
    return list(write_plots(report, _details(places), folder, format, only))


# Each renderer imports its own dependencies, so that the others stay fast.


def _markdown(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.markdown import render_markdown

    del places
    return render_markdown(report)


def _text(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.terminal import render_terminal

    del places
    return render_terminal(report)


def _html(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.html_page import render_html

    return render_html(report, _details(places))


def _csv(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.csv_table import render_csv

    del places
    return render_csv(report)


def _latex(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.latex import render_latex

    del places
    return render_latex(report)


def _paper(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.paper_table import render_paper_table

    del places
    return render_paper_table(report)


def _json(report: Report, places: Sequence[Path]) -> str:
    from imitbench.report.json_document import render_json

    del places
    return render_json(report)


_RENDERERS: dict[TextFormat, Renderer] = {
    "md": _markdown,
    "markdown": _markdown,
    "text": _text,
    "html": _html,
    "csv": _csv,
    "latex": _latex,
    "paper": _paper,
    "json": _json,
}


def _details(places: Sequence[Path]) -> ReportDetails:
    from imitbench.published.opening import open_results
    from imitbench.store.run_details import read_details
    from imitbench.util.hub_client import silent

    with open_results(places, notify=silent) as connection:  # building it has shown the messages
        return read_details(connection)
