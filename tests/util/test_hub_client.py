"""The hub's real client against a hub on the loopback interface: what arrives, and what is told."""

import os
import subprocess
import sys

import pytest
from support.hub import serve_hub

from imitbench.errors import InputError
from imitbench.util import hub_client
from imitbench.util.hub_errors import UnreachableError

REPO = "org/thing"
FILES = {"a.json": b"{}", "data/train.parquet": b"0123456789" * 1000, "replay.mp4": b"x" * 5000}
WANTED = ["a.json", "data/*"]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serve_hub() as hub:
        hub.point_client_here(monkeypatch, tmp_path / "cache")
        yield hub


@pytest.fixture
def pauses(monkeypatch):
    """Pauses take no time; they are noted."""
    noted = []
    monkeypatch.setattr("time.sleep", noted.append)
    return noted


def fetch(**options):
    return hub_client.fetch(REPO, files=WANTED, **options)


def content(snapshot):
    paths = [path for path in snapshot.folder.rglob("*") if path.is_file()]
    return {path.relative_to(snapshot.folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_only_what_is_wanted_is_fetched_and_whole(hub, kind):
    commit = hub.add(kind, REPO, FILES)
    told = []
    snapshot = fetch(kind=kind, notify=told.append)
    assert snapshot.commit == commit
    assert content(snapshot) == {k: v for k, v in FILES.items() if k != "replay.mp4"}
    name = REPO if kind == "model" else f"datasets/{REPO}"
    assert told == [f"{name}: fetching commit {commit[:12]}"]


def test_the_cache_is_where_the_client_has_it(hub):
    for kind in ("model", "dataset"):
        commit = hub.add(kind, REPO, FILES)
        expected = hub_client.cached_folder(hub_client.cache_directory(), kind, REPO, commit)
        assert fetch(kind=kind).folder == expected


def test_a_branch_follows_the_hub_and_a_commit_does_not(hub):
    old = hub.add_model(REPO, FILES)
    assert fetch().commit == old
    new = hub.add_model(REPO, {**FILES, "a.json": b"[]"})
    assert content(fetch())["a.json"] == b"[]"
    assert content(fetch(revision=old))["a.json"] == b"{}"
    assert hub_client.resolve_commit(REPO) == new
    assert hub_client.resolve_commit(REPO, revision=old) == old


def test_a_commit_in_the_cache_is_taken_without_asking(hub):
    commit = hub.add_model(REPO, FILES)
    first = fetch(revision=commit)
    hub.requests.clear()
    assert fetch(revision=commit) == first
    assert hub.requests == []


def test_a_commit_of_which_only_some_files_are_there_is_completed(hub):
    commit = hub.add_model(REPO, FILES)
    hub_client.fetch(REPO, files=["a.json"], revision=commit)
    assert "data/train.parquet" in content(fetch(revision=commit))


def test_with_the_hub_down_the_cache_is_used_and_that_is_said(hub, pauses):
    commit = hub.add_model(REPO, FILES)
    fetch()
    hub.stop()
    told = []
    assert fetch(notify=told.append).commit == commit
    assert "the hub cannot be reached" in told[0]
    assert f"using commit {commit[:12]} from the cache" in told[0]
    assert pauses == []


def test_offline_mode_asks_nobody(hub, monkeypatch):
    commit = hub.add_model(REPO, FILES)
    fetch()
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch().commit == commit
    with pytest.raises(UnreachableError, match="not in the cache, and offline mode"):
        hub_client.fetch("org/other", files=WANTED)
    with pytest.raises(UnreachableError, match="forbids contacting"):
        hub_client.resolve_commit(REPO)
    assert hub.requests == []


@pytest.mark.parametrize("where", [r"GET /api/models", r"HEAD .*/resolve/", r"GET .*/a\.json"])
def test_too_many_requests_are_waited_for_as_long_as_the_hub_asks(hub, pauses, where):
    hub.add_model(REPO, FILES)
    hub.fail(where, 429, times=2, Retry_After=7)
    assert content(fetch())["a.json"] == b"{}"
    assert any(7 <= pause <= 8 for pause in pauses)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("where", [r"GET /api/models", r"GET /store/"])
def test_errors_of_the_server_are_tried_again_with_growing_pauses(hub, pauses, status, where):
    hub.add_model(REPO, FILES)
    hub.fail(where, status, times=3)
    told = []
    assert len(content(fetch(notify=told.append))) == 2
    assert pauses == [1, 2, 4]
    assert f"the hub answered {status}; trying again in 1 s" in " ".join(told)


def test_a_server_that_stays_broken_is_told(hub, pauses):
    hub.add_model(REPO, FILES)
    hub.fail("/api/models", 500, times=1000)
    with pytest.raises(UnreachableError, match="the hub answered 500") as caught:
        fetch()
    assert "\n" not in str(caught.value)
    assert pauses == [1, 2, 4, 8]


def test_a_broken_server_does_not_hide_what_is_cached(hub, pauses):
    commit = hub.add_model(REPO, FILES)
    fetch()
    hub.fail("/api/models", 503, times=1000)
    assert fetch().commit == commit
    assert pauses == []


def test_a_body_cut_in_transit_is_completed_from_where_it_broke(hub, pauses):
    hub.add_model(REPO, FILES)
    hub.spoil("GET /store/", "cut")
    assert content(fetch())["data/train.parquet"] == FILES["data/train.parquet"]


def test_a_truncated_file_is_fetched_again(hub, pauses):
    hub.add_model(REPO, FILES)
    hub.spoil("GET /store/", "short")
    assert content(fetch())["data/train.parquet"] == FILES["data/train.parquet"]


def test_a_file_that_is_always_truncated_is_told(hub, pauses):
    commit = hub.add_model(REPO, FILES)
    hub.spoil("GET /store/", "short", times=1000)
    with pytest.raises(InputError, match="truncated") as caught:
        fetch()
    assert "\n" not in str(caught.value)
    hub.faults.clear()
    assert len(content(fetch(revision=commit))) == 2


def test_content_that_is_not_what_was_announced_is_fetched_again(hub, pauses):
    hub.add_model(REPO, FILES)
    hub.spoil("GET /store/", "altered")
    assert content(fetch())["data/train.parquet"] == FILES["data/train.parquet"]


def test_content_with_a_wrong_digest_is_refused_and_not_kept(hub, pauses):
    hub.add_model(REPO, FILES)
    hub.spoil("GET /store/", "altered", times=1000)
    with pytest.raises(InputError, match=r"train\.parquet arrived with SHA-256 .* as the hub says"):
        fetch()
    hub.faults.clear()
    assert content(fetch())["data/train.parquet"] == FILES["data/train.parquet"]


@pytest.mark.parametrize(
    ("prepare", "options", "message"),
    [
        (lambda _: None, {}, "no such repository"),
        (lambda hub: hub.add_model(REPO, FILES), {"revision": "absent"}, "no revision 'absent'"),
        (lambda hub: hub.add_model(REPO, FILES), {"revision": "0" * 40}, "no revision '000"),
        (lambda hub: hub.add_dataset(REPO, FILES), {}, "no such repository"),
        (lambda hub: hub.gated.add(REPO), {}, "gated; accept its terms"),
        (lambda hub: hub.private.update({REPO: "hf_secret"}), {}, "set HF_TOKEN if it is private"),
        (lambda hub: hub.fail("/api/models", 403, times=99), {}, "no access .403."),
        (lambda hub: hub.fail("/api/models", 418, times=99), {}, "refuses the request .status 418"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_asked_for_once(hub, pauses, prepare, options, message):
    prepare(hub)
    if hub.gated or hub.private:
        hub.add_model(REPO, FILES)
    with pytest.raises(InputError, match=message) as caught:
        fetch(**options)
    assert "\n" not in str(caught.value)
    assert REPO in str(caught.value)
    assert "hf_secret" not in str(caught.value)
    assert pauses == []


def test_a_repository_that_vanished_is_not_replaced_by_the_cache(hub):
    commit = hub.add_model(REPO, FILES)
    fetch()
    hub.commits.clear()
    with pytest.raises(InputError, match="no such repository"):
        fetch()
    assert fetch(revision=commit).commit == commit


def test_a_private_repository_is_read_with_the_token(hub, monkeypatch):
    hub.private[REPO] = "hf_secret"
    hub.add_model(REPO, FILES)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert len(content(fetch())) == 2


def test_something_else_than_a_hub_is_told(hub, monkeypatch):
    monkeypatch.setattr("support.hub_server.Handler.route", lambda self, *_: self.reply(b"<html>"))
    with pytest.raises(InputError, match="check HF_ENDPOINT") as caught:
        fetch()
    assert "\n" not in str(caught.value)


def test_processes_that_start_at_once_download_once(hub, tmp_path):
    commit = hub.add_dataset(REPO, FILES)
    script = (
        "import sys\n"
        "from imitbench.util import hub_client\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"print(hub_client.fetch('{REPO}', files=['data/*'], kind='dataset').commit)\n"
    )
    env = {**os.environ, **hub.environment(tmp_path / "home")}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert {worker.communicate()[0].strip() for worker in workers} == {commit}
    assert hub.count("GET /store/") == 1
