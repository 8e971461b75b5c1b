"""A dashboard in this process, and a client that reads its data."""

import http.client
import json
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest

from imitbench.dashboard.server import Dashboard, DashboardServer
from imitbench.published.opening import ResultsLocation


class Client:
    """Asks a dashboard.

    Attributes:
        url: Address of the page.
        notes: What the dashboard said on its start.
    """

    def __init__(self, server, notes):
        self.url, self.notes = server.url, notes
        self.port = server.port
        self.base = f"/a/{server.secret}"

    def fetch(self, path, method="GET", **headers):
        """Returns status, headers and content of an answer to a request that has the secret."""
        return self.fetch_from(self.base + path, method, **headers)

    def fetch_from(self, address, method="GET", **headers):
        """Returns the answer to a request for any address."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, address, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path, *pairs, **parameters):
        """Returns the data of an answer, which must be a good one."""
        query = urlencode([*pairs, *parameters.items()])
        status, _, content = self.fetch(f"{path}?{query}")
        assert status == 200, (status, content)
        return json.loads(content)

    def rows(self):
        """Returns all rows once all files are read, by run id."""
        news = self.get("/api/runs")
        while not news["complete"]:
            news = self.get("/api/runs")
        return {row["run_id"]: row for row in news["rows"]}


@contextmanager
def serving(place):
    notes = []
    with DashboardServer(Dashboard(ResultsLocation.of(place), notes.append), 0) as server:
        yield Client(server, notes)


@pytest.fixture
def serve(request, monkeypatch):
    """Opens the dashboard of a folder, which it looks at anew for every request."""
    monkeypatch.setattr("imitbench.dashboard.run_table.FRESH_S", 0.0)
    monkeypatch.setattr("imitbench.dashboard.run_table.RESTS", 0)

    def start(place):
        context = serving(place)
        client = context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))
        return client

    return start
