"""Serves the page and its data to browsers on this machine.

Only this machine can connect, and only who has the page's address, which has a secret. See
`imitbench.util.local_server` for what else is refused. All answers are read-only.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs

from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.files import OpenFile
from imitbench.dashboard.page import SECURITY_POLICY, dashboard_page
from imitbench.dashboard.published_runs import published_row, read_published_runs
from imitbench.dashboard.run_table import RunTable
from imitbench.dashboard.run_view import published_view, run_view
from imitbench.dashboard.videos import find_videos, open_video
from imitbench.published.opening import ResultsPlace
from imitbench.util.hub_errors import Notify
from imitbench.util.local_server import (
    LocalHandler,
    LocalServer,
    RefusedError,
    new_secret,
    split_secret,
)

ADDRESS = "127.0.0.1"
MOST_CURVES = 40
"""Runs whose curves one request may ask for."""
_Found = TypeVar("_Found")


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


def _read(read: Callable[[Query], _Found | None], query: str) -> _Found:
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
