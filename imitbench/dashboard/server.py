"""Serves the page and its data to browsers on this machine.

Only this machine can connect. Requests must name this machine as their host: a page from elsewhere
whose name leads to this machine cannot read anything. All answers are read-only.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic_core import to_json

from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.files import OpenFile
from imitbench.dashboard.page import dashboard_page, security_policy
from imitbench.dashboard.published_runs import published_row, read_published_runs
from imitbench.dashboard.run_table import RunTable
from imitbench.dashboard.run_view import published_view, run_view
from imitbench.dashboard.videos import find_videos, open_video
from imitbench.errors import InputError
from imitbench.published.opening import ResultsPlace
from imitbench.util.hub_errors import Notify
from imitbench.util.text_line import note, one_line

ADDRESS = "127.0.0.1"
MOST_CURVES = 40
"""Runs whose curves one request may ask for."""
_HOSTS = ("127.0.0.1", "localhost")
_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Dashboard:
    """What is served: the page, and data on the runs of a folder.

    Args:
        place: Results folder, or folder of published results.
        notify: Called with messages about results that do not pass their checks.

    Raises:
        InputError: It has no results, or published results contradict themselves.
    """

    def __init__(self, place: ResultsPlace, notify: Notify) -> None:
        place.check_use()
        self._out = place.path
        self._published = read_published_runs(place, notify)
        self._curves = CurveReader()
        rows = [published_row(key, run) for key, run in self._published.items()]
        self._table = RunTable(place.path if place.has_runs else None, rows, self._curves)
        self.page = dashboard_page(place.path)

    def runs(self, query: Query) -> Any:
        """Returns the rows that have changed since an earlier answer."""
        version = query.one("version")
        return self._table.changes(query.one("session"), int(version) if version else 0)

    def run(self, query: Query) -> Any:
        """Returns everything on one run; `None` if there is none of this key."""
        key = query.one("key")
        if key in self._published:
            return published_view(self._published[key])
        directory = self._table.directory(key)
        return run_view(directory, self._out, key) if directory else None

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


class DashboardServer(ThreadingHTTPServer):
    """A server on this machine's own address.

    Args:
        dashboard: What is served.
        port: Port to listen on; 0 for any free one.

    Raises:
        InputError: The port is in use or may not be used.
    """

    daemon_threads = True

    def __init__(self, dashboard: Dashboard, port: int) -> None:
        self.dashboard = dashboard
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            used = error.errno == errno.EADDRINUSE
            reason = "in use by another program" if used else f"cannot be used ({error.strerror})"
            raise InputError(
                f"--port {port}: {reason}; choose another, or --port 0 for any free one"
            ) from error

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Names an error; a browser that closes a connection is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            note(one_line(f"a request failed: {type(error).__name__}: {error}"))


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: DashboardServer
    protocol_version = "HTTP/1.1"
    server_version = "imitbench"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Answers a request."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answers a request without the content."""
        self._answer()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Does nothing: requests every two seconds would fill the terminal."""

    def _answer(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")
        if (host[0] if host[1] and host[2].isdecimal() else host[2]) not in _HOSTS:
            reason = f"only requests to {' or '.join(_HOSTS)} are answered"
            self._send_json({"error": reason}, HTTPStatus.FORBIDDEN)
            return
        try:
            path, query = _parts(self.path)
        except ValueError:
            self._send_json({"error": "malformed address"}, HTTPStatus.BAD_REQUEST)
            return
        dashboard = self.server.dashboard
        data: dict[str, Callable[[Query], Any]] = {
            "/api/runs": dashboard.runs,
            "/api/run": dashboard.run,
            "/api/curves": dashboard.curves,
            "/api/videos": dashboard.videos,
        }
        if path == "/":
            self._send(dashboard.page, "text/html; charset=utf-8")
        elif path in data:
            self._send_data(data[path], query)
        elif path == "/video" and (video := dashboard.video(query)) is not None:
            with video:
                self._send_video(video)
        else:
            self._send_json({"error": "no such page"}, HTTPStatus.NOT_FOUND)

    def _send_data(self, read: Callable[[Query], Any], query: Query) -> None:
        try:
            answer = read(query)
        except ValueError:
            self._send_json({"error": "malformed parameter"}, HTTPStatus.BAD_REQUEST)
            return
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            self._send_json({"error": reason}, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if answer is None:
            self._send_json({"error": "no such run"}, HTTPStatus.NOT_FOUND)
        else:
            self._send_json(answer)

    def _send_json(self, answer: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = to_json(answer, inf_nan_mode="null")
        self._send(content, "application/json", status)

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._begin(status, kind, len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(
        self, status: HTTPStatus, kind: str, length: int, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        fields = {"Content-Type": kind, "Content-Length": str(length), **_HEADERS, **(more or {})}
        fields["Content-Security-Policy"] = security_policy()
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_video(self, video: OpenFile) -> None:
        """Sends a video, or the part that a browser needs to play from a position."""
        span = _span(self.headers.get("Range"), video.size)
        if span is None:
            unknown = {"Content-Range": f"bytes */{video.size}"}
            self._begin(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "video/mp4", 0, unknown)
            return
        start, end = span
        more = {"Accept-Ranges": "bytes"}
        status = HTTPStatus.OK
        if "Range" in self.headers:
            status = HTTPStatus.PARTIAL_CONTENT
            more["Content-Range"] = f"bytes {start}-{end - 1}/{video.size}"
        self._begin(status, "video/mp4", end - start, more)
        while start < end and self.command != "HEAD":
            part = video.read(start, min(_CHUNK, end - start))
            if not part:  # the file has become shorter: the browser must not wait for the rest
                self.close_connection = True
                return
            self.wfile.write(part)
            start += len(part)


def _parts(address: str) -> tuple[str, Query]:
    """Splits the address of a request; raises `ValueError` if it is malformed."""
    parts = urlsplit(address)
    return parts.path, Query.of(parts.query)


def _span(asked: str | None, size: int) -> tuple[int, int] | None:
    """Returns first byte and end of a range; `None` if there is no such range."""
    if asked is None:
        return 0, size
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        return None
    start, end = max(0, size - int(found[2] or 0)), size
    if found[1]:
        start = int(found[1])
        end = min(size, int(found[2]) + 1) if found[2] else size
    return (start, end) if start < end else None
