"""A hub of models on the loopback interface, for the hub's real client.

It answers what the client asks when it downloads: information on a repository, its files, and
their content.
"""

import hashlib
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

REVISION = r"(?P<revision>[^/]+)"
REPOSITORY = r"(?P<repository>[^/]+/[^/]+)"
INFO = re.compile(rf"/api/models/{REPOSITORY}(?:/revision/{REVISION})?")
TREE = re.compile(rf"/api/models/{REPOSITORY}/tree/{REVISION}")
FILE = re.compile(rf"/{REPOSITORY}/resolve/{REVISION}/(?P<path>.+)")


class Hub:
    """Repositories by name; each holds commits, and names of revisions."""

    def __init__(self):
        self.commits = {}
        self.revisions = {}
        self.requests = []
        self.url = ""

    def add_model(self, repository, files, revision="main"):
        """Adds a commit of `files`, contents by path, and points `revision` at it."""
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[repository, digest] = dict(files)
        self.revisions[repository, revision] = digest
        return digest

    def resolve(self, repository, revision):
        """The commit that a revision names; `None` where there is none."""
        if (repository, revision) in self.commits:
            return revision
        return self.revisions.get((repository, revision))

    def point_client_here(self, monkeypatch, cache):
        """Makes the client of this process talk to this hub; it reads its settings on import."""
        import huggingface_hub
        from huggingface_hub import constants

        huggingface_hub.close_session()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", self.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", self.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.requests.append(f"{self.command} {path}")
        for pattern, answer in ((TREE, self.tree), (INFO, self.info), (FILE, self.file)):
            if match := pattern.fullmatch(path):
                return self.answer(answer, match.groupdict())
        return self.refuse("EntryNotFound")

    def answer(self, answer, found):
        hub = self.server.hub
        if not any(name == found["repository"] for name, _ in hub.commits):
            return self.refuse("RepoNotFound")
        commit = hub.resolve(found["repository"], found["revision"] or "main")
        if commit is None:
            return self.refuse("RevisionNotFound")
        return answer(found, commit, hub.commits[found["repository"], commit])

    def info(self, found, commit, files):
        siblings = [{"rfilename": name} for name in files]
        self.reply_json({"id": found["repository"], "sha": commit, "siblings": siblings})

    def tree(self, found, commit, files):
        self.reply_json(
            [
                {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
                for name, content in files.items()
            ]
        )

    def file(self, found, commit, files):
        content = files.get(found["path"])
        if content is None:
            return self.refuse("EntryNotFound")
        return self.reply(content, {"ETag": f'"{etag(content)}"', "X-Repo-Commit": commit})

    def reply_json(self, document):
        self.reply(json.dumps(document).encode(), {"Content-Type": "application/json"})

    def refuse(self, code):
        self.reply(b"{}", {"X-Error-Code": code}, status=404)

    def reply(self, content, headers, status=200):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args):
        pass


def etag(content):
    return hashlib.sha1(content).hexdigest()


@contextmanager
def serve_hub():
    """A running hub; it has no repositories yet."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hub, server.daemon_threads = hub, True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
