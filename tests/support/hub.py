"""A hub of models and datasets on the loopback interface, for the hub's real clients.

Repositories have commits and branches; large files are redirected to a content store and named
by their SHA-256, as on the real hub. Faults can be ordered: answers of an error, bodies cut short,
content that is not what was announced.
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
    """What goes wrong with requests whose `METHOD path` matches."""

    pattern: str
    times: int
    status: int | None = None
    headers: dict = field(default_factory=dict)
    spoil: str | None = None  # what happens to the body, see `Hub.spoil`


class Hub:
    """Repositories by name; each holds commits, and names of revisions.

    `commits` has the files of (kind, repository, commit); `revisions` the commit of (kind,
    repository, branch); `objects` large files by SHA-256; `requests` what was asked.
    """

    def __init__(self):
        self.commits = {}
        self.revisions = {}
        self.objects = {}
        self.requests = []
        self.gated = set()
        self.private = {}
        self.writers = None  # by token, the owners that it may write for; None lets anybody
        self.messages = []  # of the commits that were uploaded
        self.faults = []
        self.url = self.store_url = ""
        self.lock = Lock()
        self.stalled = Event()
        self.stopped = Event()
        self._server = None

    def add_model(self, repository, files, revision="main"):
        """Adds a commit of `files`, contents by path, and points `revision` at it."""
        return self.add("model", repository, files, revision)

    def add_dataset(self, repository, files, revision="main"):
        """As `add_model`."""
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
        """The files of a revision; `None` where there is none."""
        commit = self.resolve(kind, repository, revision)
        return None if commit is None else self.commits.get((kind, repository, commit))

    def has(self, kind, repository):
        """Whether there is such a repository."""
        return any(key[:2] == (kind, repository) for key in self.commits)

    def resolve(self, kind, repository, revision):
        """The commit that a revision names; `None` where there is none."""
        if (kind, repository, revision) in self.commits:
            return revision
        return self.revisions.get((kind, repository, revision))

    def fail(self, pattern, status, times=1, **headers):
        """Answers the next `times` requests that match by an error."""
        self.faults.append(Fault(pattern, times, status=status, headers=headers))

    def spoil(self, pattern, how, times=1):
        """Spoils the next bodies: `cut` in transit, `short`, `altered`, or `stalled` midway."""
        self.faults.append(Fault(pattern, times, spoil=how))

    def fault_of(self, request):
        """The fault that is due for a request, if any."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, request):
                    fault.times -= 1
                    return fault
        return None

    def count(self, pattern):
        """How many requests matched."""
        return sum(bool(re.search(pattern, request)) for request in self.requests)

    def environment(self, home):
        """Variables that make the clients of another process talk to this hub only."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def point_client_here(self, monkeypatch, cache):
        """Makes the client of this process talk to this hub; it reads its settings on import."""
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
        # Another host, as it is on the real hub.
        self.store_url = f"http://localhost:{server.server_port}"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Goes down; nobody answers from now on."""
        self.stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None


class _Server(ThreadingHTTPServer):
    """Can end the connections that clients keep open."""

    def __init__(self, *args):
        super().__init__(*args)
        self._connections = []

    def process_request(self, request, client_address):
        self._connections.append(request)
        super().process_request(request, client_address)

    def hang_up(self):
        for connection in self._connections:
            with suppress(OSError):  # it has ended already
                connection.shutdown(SHUT_RDWR)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@contextmanager
def serve_hub():
    """A running hub; it has no repositories yet."""
    hub = Hub()
    hub.start()
    try:
        yield hub
    finally:
        hub.stop()
