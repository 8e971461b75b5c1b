"""Serves the page and its data to browsers on this machine.

Only this machine can connect, and only who has the page's address, which has a secret. See
`imitbench.util.local_server` for what else is refused. All answers are read-only.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.files import OpenFile, find_videos, open_file, open_video
from imitbench.dashboard.run_table import RunTable, published_row, read_published_runs
from imitbench.errors import InputError
from imitbench.published.opening import ResultsLocation
from imitbench.records.runs import RunFailure, RunResult, RunSpec
from imitbench.report.html_markup import Markup, html_document, join, tag, theme_picker
from imitbench.store.run_dir import RunDirectory
from imitbench.util.hub_errors import Notify
from imitbench.util.local_server import (
    LocalHandler,
    LocalServer,
    RefusedError,
    new_secret,
    split_secret,
)
from imitbench.util.text_line import one_line, printable
from imitbench.version import __version__

ADDRESS = "127.0.0.1"
MOST_CURVES = 40
"""Runs whose curves one request may ask for."""
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
_LOG_LINES, _LOG_BYTES = 100, 50_000
_Answer = TypeVar("_Answer")


class Dashboard:
    """What is served: the page, and data on the runs of a folder.

    Args:
        location: Results folder, or folder of published results.
        notify: Called with messages about results that do not pass their checks.

    Raises:
        InputError: It has no results, or published results contradict themselves.
    """

    def __init__(self, location: ResultsLocation, notify: Notify) -> None:
        location.check_use()
        self._out = location.path
        self._published = read_published_runs(location, notify)
        self._curves = CurveReader()
        rows = [published_row(key, run) for key, run in self._published.items()]
        self._table = RunTable(location.path if location.has_runs else None, rows, self._curves)
        self.page = dashboard_page(location.path)

    def runs(self, query: Query) -> Any:
        """Returns the rows that have changed since an earlier answer."""
        version = query.one("version")
        return self._table.changes(query.one("session"), int(version) if version else 0)

    def run(self, query: Query) -> Any:
        """Returns everything on one run; `None` if there is none of this key."""
        key = query.one("key")
        if key in self._published:
            run = self._published[key]
            return _document(run.spec, run.result, run.failure)
        directory = self._table.directory(key)
        return _run_document(directory, self._out, key) if directory else None

    def curves(self, query: Query) -> Any:
        """Returns new points of the curves of several runs, by key."""
        asked = list(zip(query.all("run"), query.all("token"), strict=True))[:MOST_CURVES]
        metric = query.one("metric")
        parts = {}
        for key, token in asked:
            directory = self._table.directory(key)
            parts[key] = directory and self._curves.part(directory, metric, token)
        return parts

    def videos(self, _: Query) -> Any:
        """Returns the list of videos."""
        return find_videos(self._out, sorted(self._table.keys))

    def video(self, query: Query) -> OpenFile | None:
        """Opens a video of the list."""
        return open_video(self._out, query.one("file"), self._table.keys)


@dataclass(frozen=True)
class Query:
    """Parameters of a request."""

    values: dict[str, list[str]]

    @classmethod
    def of(cls, text: str) -> Query:
        """Reads the part of an address behind the question mark."""
        return cls(parse_qs(text, keep_blank_values=True, max_num_fields=4 * MOST_CURVES))

    def one(self, name: str) -> str:
        """Returns a parameter; an empty text if it is missing."""
        return self.all(name)[0] if name in self.values else ""

    def all(self, name: str) -> list[str]:
        """Returns all values of a parameter, in order."""
        return self.values.get(name, [])


class DashboardServer(LocalServer):
    """A server on this machine's own address; a context in which it serves.

    Args:
        dashboard: What is served.
        port: Port to listen on; 0 for any free one.

    Attributes:
        dashboard: What is served.
        secret: Part of the address that every request must have.
        url: Address of the page.

    Raises:
        InputError: The port is in use or may not be used.
    """

    def __init__(self, dashboard: Dashboard, port: int) -> None:
        self.dashboard, self.secret = dashboard, new_secret()
        super().__init__(ADDRESS, port, _Handler, forwarded=True)
        self.url = self.link(self.secret)


class _Handler(LocalHandler):
    """Answers one connection."""

    server: DashboardServer
    policy = SECURITY_POLICY

    def get(self) -> None:
        """Answers a request."""
        secret, rest = split_secret(self.path) or ("", "")
        if not hmac.compare_digest(secret, self.server.secret):
            raise RefusedError(403, "Open the address that this dashboard printed when it began.")
        path, _, query = rest.partition("?")
        dashboard = self.server.dashboard
        data: dict[str, Callable[[Query], Any]] = {
            "api/runs": dashboard.runs,
            "api/run": dashboard.run,
            "api/curves": dashboard.curves,
            "api/videos": dashboard.videos,
        }
        if path == "":
            self.send_content(dashboard.page, "text/html; charset=utf-8")
        elif path in data:
            self.send_json(_read(data[path], query))
        elif path == "video":
            with _read(dashboard.video, query) as video:
                self.send_file(video.read, video.size, "video/mp4")
        else:
            raise RefusedError(404, "There is no such page.")


def _read(read: Callable[[Query], _Answer | None], query: str) -> _Answer:
    """Returns what a request asks for, or says why not."""
    try:
        found = read(Query.of(query))
    except ValueError as error:
        raise RefusedError(400, "The address has a malformed parameter.") from error
    except OSError as error:
        raise RefusedError(503, f"The folder cannot be read ({error.strerror}).") from error
    if found is None:
        raise RefusedError(404, "There is no such run or video.")
    return found


def _run_document(directory: RunDirectory, out: Path, key: str) -> dict[str, Any]:
    """Returns everything on a run of a results folder, as JSON data.

    Args:
        directory: Directory of the run; what cannot be read is left out, with the reason.
        out: Results folder.
        key: Path of the run below it.
    """
    problems = []
    spec = result = failure = None
    try:
        if directory.path.joinpath("spec.json").exists():
            spec = directory.read_spec()
        if directory.is_done:
            result = directory.read_result()
        elif directory.has_failed:
            failure = directory.read_failure()
    except InputError as error:
        problems.append(str(error))
    videos = [video for video in find_videos(out, [key]) if video.run == key]
    status = directory.last_status()
    return {
        **_document(spec, result, failure),
        "folder": str(directory.path),
        "problems": problems,
        "status": status.model_dump() if status else None,
        "log": _last_lines(directory.log),
        "videos": [vars(video) for video in videos],
    }


def _document(
    spec: RunSpec | None, result: RunResult | None, failure: RunFailure | None
) -> dict[str, Any]:
    score = deterministic = None
    if result is not None:
        score = result.score()
        deterministic = result.score("likely")
    return {
        "spec": spec.model_dump() if spec else None,
        "result": result.model_dump() if result else None,
        "failure": failure.model_dump() if failure else None,
        "score": score,
        "score_deterministic": deterministic,
        "folder": None,
        "problems": [],
        "status": None,
        "log": [],
        "videos": [],
    }


def _last_lines(path: Path) -> list[str]:
    opened = open_file(path)
    if opened is None:
        return []
    with opened:
        text = opened.read(-_LOG_BYTES, _LOG_BYTES).decode(errors="replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars overwrite their line
    return printable(lines).splitlines()[-_LOG_LINES:]


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
        tag(
            "main", tag("noscript", "This page needs scripts."), *map(_section, VIEWS), id="results"
        ),
        tag("footer", tag("p", f"Made by imitbench {__version__}. It only reads the folder.")),
        tag("dialog", id="run", aria_labelledby="run-title"),
    )
    title = f"{name} · imitbench"
    page = html_document(title, body, styles=STYLES, scripts=SCRIPTS, served=True)
    return page.encode(errors="replace")


def _section(name: str) -> Markup:
    heading = tag("h2", VIEWS[name], id=f"{name}-title")
    label = f"{name}-title"
    return tag(
        "section", heading, id=f"view-{name}", aria_labelledby=label, class_="block", hidden=True
    )
