"""A hub that states or sends too much, or leads elsewhere, is refused at once with one line."""

import pytest
from support import hub_server

from imitbench.errors import InputError
from imitbench.hub.pull import pull
from imitbench.untrusted.limits import variable
from imitbench.util.hub_errors import UnreachableError

REPO = "org/expert"
FILES = {"policy.json": b"{}" * 50, "policy.safetensors": b"w" * 1000, "README.md": b"---\n---\n"}
FILE = "GET /org/expert/resolve/"


@pytest.fixture
def refused(hub, client):
    """Pulls what must be refused without a pause; returns the line."""
    hub.add_model(REPO, FILES)

    def call():
        with pytest.raises(InputError) as caught:
            pull("model", REPO)
        assert not isinstance(caught.value, UnreachableError)
        assert client == []
        line = str(caught.value)
        assert line.startswith(REPO)
        assert "\n" not in line
        return line

    return call


def state(monkeypatch, size, name="policy.safetensors"):
    """Lets the hub's list state another size of a file than it has."""
    describe = hub_server.describe

    def other(file, content):
        entry = describe(file, content)
        return {**entry, "size": size} if file == name else entry

    monkeypatch.setattr(hub_server, "describe", other)


def test_a_file_beyond_the_limit_is_not_fetched(hub, refused, monkeypatch):
    state(monkeypatch, 40 * 10**9)
    line = refused()
    assert "policy.safetensors has 40,000,000,000 bytes" in line
    assert variable("hub_file_bytes") in line
    assert hub.count("/resolve/|/store/") == 0


def test_files_beyond_the_limit_together_are_not_fetched(hub, refused, monkeypatch):
    monkeypatch.setenv(variable("hub_pull_bytes"), "1050")
    assert variable("hub_pull_bytes") in refused()
    assert hub.count("/resolve/|/store/") == 0


def test_files_that_are_not_fetched_do_not_count(hub, client, monkeypatch):
    monkeypatch.setenv(variable("hub_file_bytes"), "1000")
    hub.add_model(REPO, {**FILES, "replay.mp4": bytes(5000)})
    assert pull("model", REPO).size == 1100


@pytest.mark.parametrize("size", [-1, "12", None, 1.5])
def test_a_size_that_is_none_is_refused(hub, refused, monkeypatch, size):
    state(monkeypatch, size)
    assert "the hub states the size" in refused()
    assert hub.count("/resolve/|/store/") == 0


@pytest.mark.parametrize(("name", "size"), [("policy.safetensors", 1000), ("policy.json", 100)])
def test_a_file_larger_than_stated_is_not_written(
    refused, client, monkeypatch, tmp_path, name, size
):
    state(monkeypatch, size - 1, name)
    line = refused()
    assert f"sends more of {name} than the {size - 1:,} bytes" in line
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size == size
    ]


@pytest.mark.parametrize("request_", [FILE, "HEAD /org/expert/resolve/", "GET /api/models/"])
@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher:"])
def test_a_redirect_to_another_protocol_is_refused(hub, refused, request_, where):
    about = {"Location": where, "X-Repo-Commit": hub.resolve("model", REPO, "main"), "ETag": '"a"'}
    hub.fail(request_, 302, times=50, **about)
    assert "the hub answers with a redirect that leads nowhere" in refused()


@pytest.mark.parametrize("where", ["http://[", "file:///etc/passwd"])
def test_a_file_without_description_is_refused(hub, refused, where):
    hub.fail("HEAD /org/expert/resolve/", 302, times=50, Location=where)
    assert "the hub's answer" in refused()


@pytest.mark.parametrize("request_", [FILE, "GET /api/models/"])
def test_redirects_in_a_circle_are_refused(hub, refused, request_):
    circle = f"{hub.url}/org/expert/resolve/main/a"
    for each in (request_, "/org/expert/resolve/main/a"):
        hub.fail(each, 302, times=100, Location=circle)
    assert "redirects in a circle" in refused()


@pytest.mark.parametrize("answer", [b"[1]", b'[{"type": "file"}]', b'{"a": 1}', b"null"])
def test_a_list_of_another_form_is_refused(refused, monkeypatch, answer):
    monkeypatch.setattr(hub_server.Handler, "tree", lambda self, *_: self.reply(answer))
    assert "the hub" in refused()


def test_a_list_without_end_is_refused(refused, monkeypatch):
    monkeypatch.setenv(variable("entries"), "2")
    assert variable("entries") in refused()
