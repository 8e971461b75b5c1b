"""The page of the dashboard: its frame; scripts fill it with data from the server."""

from __future__ import annotations

from pathlib import Path

from imitbench.report.html_markup import Markup, html_document, join, tag, theme_picker
from imitbench.util.text_line import one_line
from imitbench.version import __version__

STYLES = ("report.css", "dashboard.css")
SCRIPTS = (
    "theme.js",
    "elements.js",
    "charts.js",
    "dashboard_data.js",
    "dashboard_tables.js",
    "dashboard_curves.js",
    "dashboard_runs.js",
    "dashboard.js",
)
VIEWS = {
    "overview": "Overview",
    "runs": "Runs",
    "curves": "Curves",
    "failures": "Failures",
    "videos": "Videos",
    "compare": "Compare",
}
SECURITY_POLICY = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
"""What a browser must know before it reads the page; the page itself says the rest."""


def dashboard_page(out: Path) -> bytes:
    """Returns the page for a results folder. It needs the server only for data and videos."""
    name = one_line(out, 120)
    links = [tag("a", title, href=f"#{view}") for view, title in VIEWS.items()]
    header = tag(
        "header",
        tag("div", tag("p", "imitbench", class_="brand"), theme_picker(), class_="bar"),
        tag("h1", name),
        tag("ul", class_="facts", id="facts"),
        tag("p", id="connection", role="status"),
        tag("nav", *links, aria_label="Views"),
        class_="top",
    )
    body = join(
        tag("a", "Skip to the results", href="#results", class_="skip"),
        header,
        tag("main", tag("noscript", "This page needs scripts."), *map(_view, VIEWS), id="results"),
        tag("footer", tag("p", f"Made by imitbench {__version__}. It only reads the folder.")),
        tag("dialog", id="run", aria_labelledby="run-title"),
    )
    title = f"{name} · imitbench"
    page = html_document(title, body, styles=STYLES, scripts=SCRIPTS, served=True)
    return page.encode(errors="replace")


def _view(name: str) -> Markup:
    heading = tag("h2", VIEWS[name], id=f"{name}-title")
    label = f"{name}-title"
    return tag(
        "section", heading, id=f"view-{name}", aria_labelledby=label, class_="block", hidden=True
    )
