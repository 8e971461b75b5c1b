"""The HTTP responses of the loopback hub."""

import base64
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

REPOSITORY = r"(?P<repository>[^/]+/[^/]+)"
REVISION = r"(?P<revision>[^/]+)"
API = rf"/api/(?P<kind>model|dataset)s/{REPOSITORY}"
FILE = rf"/(?P<kind>datasets/)?{REPOSITORY}"

READS = (
    (re.compile(rf"{API}/tree/{REVISION}(?:/(?P<path>.*))?"), "tree"),
    (re.compile(rf"{API}/refs"), "refs"),
    (re.compile(rf"{API}(?:/revision/{REVISION})?"), "info"),
    (re.compile(rf"{FILE}/resolve/{REVISION}/(?P<path>.+)"), "file"),
)
WRITES = (
    (re.compile(rf"{API}/paths-info/{REVISION}"), "paths_info"),
    (re.compile(rf"{API}/preupload/{REVISION}"), "preupload"),
    (re.compile(rf"{API}/commit/{REVISION}"), "commit"),
    (re.compile(rf"{FILE}\.git/info/lfs/objects/batch"), "large_batch"),
)
STORE = "/store/"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self):
        return self.server.hub

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.begin()
        if path is None:
            return None
        if path.startswith(STORE):
            return self.reply_range(self.hub.objects[path.removeprefix(STORE)])
        if path == "/api/whoami-v2":
            return self.reply_json({"type": "user", "name": "tester", "orgs": [], "auth": {}})
        return self.route(READS, path)

    def do_POST(self):
        path = self.begin()
        if path is None:
            return None
        if path == "/api/repos/create":
            return self.create()
        if path == "/api/validate-yaml":
            return self.reply_json({"errors": [], "warnings": []})
        if path.endswith("/verify"):
            known = json.loads(self.body)["oid"] in self.hub.objects
            return self.reply_json({}, status=200 if known else 404)
        return self.route(WRITES, path)

    def do_PUT(self):
        path = self.begin()
        if path is None:
            return None
        digest = path.removeprefix(STORE)
        if hashlib.sha256(self.body).hexdigest() != digest:
            return self.reply_json({"error": "not the announced content"}, status=400)
        self.hub.objects[digest] = self.body
        return self.reply(b"")

    def begin(self):
        """Records the request and reads its body; `None` if it was answered by a fault."""
        url = urlsplit(self.path)
        path, self.query = unquote(url.path), parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {path}"
        self.hub.requests.append(request)
        fault = self.hub.fault_of(request)
        self.spoilt = fault.spoil if fault else None
        if fault is not None and fault.status is not None:
            headers = {name.replace("_", "-"): str(v) for name, v in fault.headers.items()}
            self.reply(b"{}", headers, status=fault.status)
            return None
        return path

    def route(self, routes, path):
        for pattern, name in routes:
            if match := pattern.fullmatch(path):
                return self.answer(getattr(self, name), match.groupdict())
        return self.refuse("EntryNotFound")

    def answer(self, answer, found):
        kind = (found["kind"] or "model").rstrip("s/")
        repository, revision = found["repository"], found.get("revision") or "main"
        if not self.may_see(repository):
            return self.refuse("RepoNotFound", status=401)
        if not self.hub.has(kind, repository):
            return self.refuse("RepoNotFound")
        commit = self.hub.resolve(kind, repository, revision)
        if commit is None:
            return self.refuse("RevisionNotFound")
        self.kind, self.repository, self.revision = kind, repository, revision
        self.commit_id = commit
        return answer(self.hub.commits[kind, repository, commit], found.get("path"))

    def may_see(self, repository):
        token = self.hub.private.get(repository)
        return token is None or self.headers.get("Authorization") == f"Bearer {token}"

    # Reading

    def info(self, files, _path):
        siblings = [{"rfilename": name} for name in files]
        repository = {"id": self.repository, "sha": self.commit_id, "siblings": siblings}
        private = self.repository in self.hub.private
        tags = card_tags(files.get("README.md", b""))
        self.reply_json({**repository, "private": private, "gated": False, "tags": tags})

    def refs(self, _files, _path):
        branches = [
            {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit}
            for (kind, repository, name), commit in self.hub.revisions.items()
            if (kind, repository) == (self.kind, self.repository)
        ]
        self.reply_json({"branches": branches, "converts": [], "tags": []})

    def tree(self, files, folder):
        inside = f"{folder}/" if folder else ""
        recursive = self.query.get("recursive", ["False"])[0].lower() == "true"
        entries = {}
        for name, content in files.items():
            if not name.startswith(inside):
                continue
            parts = name.removeprefix(inside).split("/")
            for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                path = inside + "/".join(parts[:depth])
                entries[path] = {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
            if recursive or len(parts) == 1:
                entries[name] = describe(name, content)
        if inside and not entries:
            return self.refuse("EntryNotFound")
        return self.reply_json(list(entries.values()))

    def paths_info(self, files, _path):
        if self.headers.get("Content-Type", "").startswith("application/json"):
            wanted = json.loads(self.body)["paths"]
        else:
            wanted = parse_qs(self.body.decode())["paths"]
        wanted = [wanted] if isinstance(wanted, str) else wanted
        found = [describe(name, files[name]) for name in wanted if name in files]
        found += [
            {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
            for name in wanted
            if any(each.startswith(f"{name}/") for each in files)
        ]
        self.reply_json(found)

    def file(self, files, path):
        if self.repository in self.hub.gated:
            return self.refuse("GatedRepo", status=403)
        content = files.get(path)
        if content is None:
            return self.refuse("EntryNotFound", headers={"X-Repo-Commit": self.commit_id})
        entry = describe(path, content)
        headers = {"X-Repo-Commit": self.commit_id}
        if "lfs" not in entry:
            return self.reply_range(content, {**headers, "ETag": f'"{entry["oid"]}"'})
        digest = entry["lfs"]["oid"]
        where = {
            "Location": f"{self.hub.store_url}{STORE}{digest}",
            "X-Linked-ETag": f'"{digest}"',
            "X-Linked-Size": str(self.hub.stated_size or len(content)),
        }
        return self.reply(b"", {**headers, **where}, status=302)

    # Writing

    def token(self):
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def is_refused(self, repository):
        """Sends an error if the token has no write permission; returns whether it did."""
        if self.hub.writers is None:
            return False
        owners = self.hub.writers.get(self.token())
        if owners is not None and repository.partition("/")[0] in owners:
            return False
        self.reply_json({"error": "no"}, status=401 if owners is None else 403)
        return True

    def create(self):
        asked = json.loads(self.body)
        owner = asked.get("organization") or "tester"
        name = asked["name"] if "/" in asked["name"] else f"{owner}/{asked['name']}"
        if self.is_refused(name):
            return None
        kind = asked.get("type") or "model"
        prefix = "" if kind == "model" else f"{kind}s/"
        answer = {"url": f"{self.hub.url}/{prefix}{name}", "name": name, "id": name}
        if self.hub.has(kind, name):
            return self.reply_json({"error": "exists", **answer}, status=409)
        self.hub.add(kind, name, {".gitattributes": b""})
        if asked.get("visibility") == "private" or asked.get("private"):
            self.hub.private[name] = self.token()
        return self.reply_json(answer)

    def preupload(self, files, _path):
        if self.is_refused(self.repository):
            return None
        modes = []
        for each in json.loads(self.body)["files"]:
            name = each["path"]
            mode = {"path": name, "shouldIgnore": False}
            mode["uploadMode"] = "lfs" if is_large(name) else "regular"
            if name in files:
                entry = describe(name, files[name])
                mode["oid"] = entry.get("lfs", entry)["oid"]
            modes.append(mode)
        return self.reply_json({"files": modes})

    def commit(self, files, _path):
        if self.is_refused(self.repository):
            return None
        files = dict(files)
        for line in self.body.splitlines():
            entry = json.loads(line)
            key, value = entry["key"], entry["value"]
            if key == "header":
                self.hub.messages.append(value["summary"])
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                if value["oid"] not in self.hub.objects:
                    return self.reply_json({"error": f"no object of {value['path']}"}, status=400)
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif key == "deletedFile":
                files.pop(value["path"], None)
        commit = self.hub.add(self.kind, self.repository, files, self.revision)
        prefix = "" if self.kind == "model" else f"{self.kind}s/"
        url = f"{self.hub.url}/{prefix}{self.repository}/commit/{commit}"
        return self.reply_json({"success": True, "commitOid": commit, "commitUrl": url})

    def large_batch(self, _files, _path):
        objects = []
        for each in json.loads(self.body)["objects"]:
            actions = {
                "upload": {"href": f"{self.hub.url}{STORE}{each['oid']}", "header": {}},
                "verify": {"href": f"{self.hub.url}/verify", "header": {}},
            }
            known = each["oid"] in self.hub.objects
            objects.append({**each, **({} if known else {"actions": actions})})
        self.reply_json({"transfer": "basic", "objects": objects}, kind="vnd.git-lfs+json")

    # Replies

    def reply_json(self, document, status=200, kind="json"):
        headers = {"Content-Type": f"application/{kind}"}
        self.reply(json.dumps(document).encode(), headers, status=status)

    def refuse(self, code, status=404, headers=None):
        self.reply(b"{}", {"X-Error-Code": code, **(headers or {})}, status=status)

    def reply_range(self, content, headers=None):
        """Sends the content, or the requested range of it."""
        headers = {"Accept-Ranges": "bytes", **(headers or {})}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return self.reply(content, headers)
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        part = content[first : last + 1]
        extent = {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}"}
        return self.reply(part, {**headers, **extent}, status=206)

    def reply(self, content, headers=None, status=200):
        announced = len(content)
        if self.spoilt == "short":
            content = content[: announced // 2]
            announced = len(content)
        elif self.spoilt == "altered":
            content = bytes(byte ^ 1 for byte in content)
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(announced)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.spoilt == "stalled":
            self.wfile.write(content[: announced // 2])
            self.wfile.flush()
            self.hub.stalled.set()
            self.hub.stopped.wait(600)
            self.close_connection = True
            return
        if self.spoilt == "cut":
            content = content[: announced // 2]
            self.close_connection = True
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def describe(name, content):
    """Returns the entry of a file in a listing."""
    entry = {"type": "file", "path": name, "size": len(content), "oid": git_blob(content)}
    if is_large(name):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return entry


def card_tags(card):
    """Returns the tags in the metadata of a README.md."""
    head = card.decode(errors="replace").partition("\n---\n")[0]
    metadata = yaml.safe_load(head.removeprefix("---\n")) if head.startswith("---\n") else {}
    return list((metadata or {}).get("tags") or [])


def git_blob(content):
    """Returns the git id of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(name):
    """Whether a file is stored by its SHA-256, as configured in .gitattributes."""
    return name.endswith((".parquet", ".zip", ".safetensors", ".pkl", ".pth", ".mp4"))
