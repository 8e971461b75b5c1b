"""A hub of models and data sets on the loopback interface, for the hub's real client.

Repositories have commits and branches; large files are redirected to a content store and named
by their SHA-256, as on the real hub. Faults can be injected: error responses, truncated bodies, and
content that differs from the announced one.
"""

import hashlib
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Event, Lock, Thread

from support.hub_server import Handler, is_large


@dataclass
class Fault:
    """A fault of requests whose `METHOD path` matches."""

    pattern: str
    times: int
    status: int | None = None
    headers: dict = field(default_factory=dict)
    spoil: str | None = None  # how the body is changed, see `Hub.spoil`


class Hub:
    """Repositories with commits and revisions.

    `commits` has the files of (kind, repository, commit); `revisions` the commit of (kind,
    repository, branch); `objects` large files by SHA-256; `requests` all requests.
    """

    def __init__(self):
        self.commits = {}
        self.revisions = {}
        self.objects = {}
        self.requests = []
        self.gated = set()
        self.private = {}
        self.writers = None  # owners that a token may write for, by token; None for all
        self.messages = []  # of uploaded commits
        self.faults = []
        self.stated_size = None  # of large files, in place of the true one
        self.url = self.store_url = ""
        self.lock = Lock()
        self.stalled = Event()
        self.stopped = Event()
        self._server = None

    def add_model(self, repository, files, revision="main"):
        """Adds a commit with `files`, contents by path, and sets `revision` to it."""
        return self.add("model", repository, files, revision)

    def add_dataset(self, repository, files, revision="main"):
        """Does what `add_model` does, for a data set."""
        return self.add("dataset", repository, files, revision)

    def add(self, kind, repository, files, revision="main"):
        listing = repr((kind, repository, sorted(files.items())))
        commit = hashlib.sha1(listing.encode()).hexdigest()
        self.commits[kind, repository, commit] = dict(files)
        self.revisions[kind, repository, revision] = commit
        self.objects |= {sha256(c): c for name, c in files.items() if is_large(name)}
        return commit

    def add_folder(self, kind, repository, folder):
        """Adds the files of a folder."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return self.add(
            kind, repository, {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
        )

    def files(self, kind, repository, revision="main"):
        """Returns the files of a revision; `None` if it does not exist."""
        commit = self.resolve(kind, repository, revision)
        return None if commit is None else self.commits.get((kind, repository, commit))

    def has(self, kind, repository):
        """Whether a repository exists."""
        return any(key[:2] == (kind, repository) for key in self.commits)

    def resolve(self, kind, repository, revision):
        """Returns the commit of a revision; `None` if it does not exist."""
        if (kind, repository, revision) in self.commits:
            return revision
        return self.revisions.get((kind, repository, revision))

    def fail(self, pattern, status, times=1, **headers):
        """Answers the next `times` matching requests with an error."""
        self.faults.append(Fault(pattern, times, status=status, headers=headers))

    def spoil(self, pattern, how, times=1):
        """Changes the next bodies: `cut` in transit, `short`, `altered`, or `stalled` midway."""
        self.faults.append(Fault(pattern, times, spoil=how))

    def fault_of(self, request):
        """Returns the fault for a request, if there is one."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, request):
                    fault.times -= 1
                    return fault
        return None

    def count(self, pattern):
        """Returns the number of matching requests."""
        return sum(bool(re.search(pattern, request)) for request in self.requests)

    def environment(self, home):
        """Returns variables with which the client in another process uses only this hub."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def point_client_here(self, monkeypatch, cache):
        """Makes the client in this process use this hub; it reads its settings on import."""
        import huggingface_hub
        from huggingface_hub import constants

        huggingface_hub.close_session()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", self.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", self.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)

    def start(self):
        server = _Server(("127.0.0.1", 0), Handler)
        server.hub, server.daemon_threads = self, True
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_port}"
        # Another host, as on the real hub.
        self.store_url = f"http://localhost:{server.server_port}"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Stops the server; later requests get no answer."""
        self.stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None


class _Server(ThreadingHTTPServer):
    """A server that can close the connections that clients keep open."""

    def __init__(self, *args):
        super().__init__(*args)
        self._connections = []

    def process_request(self, request, client_address):
        self._connections.append(request)
        super().process_request(request, client_address)

    def hang_up(self):
        for connection in self._connections:
            with suppress(OSError):  # it is closed already
                connection.shutdown(SHUT_RDWR)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@contextmanager
def serve_hub():
    """Yields a running hub without repositories."""
    hub = Hub()
    hub.start()
    try:
        yield hub
    finally:
        hub.stop()
