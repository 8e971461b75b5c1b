"""What the dashboard answers, and to whom."""

import json
import os
import select
import shutil
import socket
from pathlib import Path

import pytest
from support.runs import make_spec
from support.synthetic_runs import write_failed, write_finished

from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.run_table import RunTable
from imitbench.store.lease import LEASE_FILE
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepFile

RESULTS = Path(__file__).parents[2] / "results"
ODD = "<img src=x onerror=boom()>|\u202e&amp;"


@pytest.fixture
def out(tmp_path):
    """Two finished runs, a failed, an interrupted and a waiting one."""
    folder = tmp_path / "runs"
    specs = [make_spec(seed) for seed in range(5)]
    SweepFile.of(folder, specs, "imitbench run --algo bc").write(folder)
    write_finished(folder, specs[0], 50.0)
    write_finished(folder, specs[1], -100.0)
    write_failed(folder, specs[2], ODD)
    RunDirectory.of(folder, specs[3]).begin(specs[3])
    return folder


def spec_of(seed):
    return make_spec(seed)


def directory_of(out, seed=0):
    return RunDirectory.of(out, spec_of(seed))


def key_of(out, seed=0):
    return directory_of(out, seed).path.relative_to(out).as_posix()


def test_every_state_has_its_row(out, serve):
    rows = serve(out).rows()
    assert {rows[spec_of(seed).run_id]["state"] for seed in (0, 1)} == {"done"}
    done, failed, interrupted, waiting = (rows[spec_of(seed).run_id] for seed in (0, 2, 3, 4))
    assert (done["score"], done["raw"], done["seed"], done["total"]) == (0.75, 50.0, 0, 10)
    assert (failed["state"], failed["phase"]) == ("failed", "train")
    assert failed["error"] == f"RuntimeError: {ODD.replace(chr(0x202E), ' ')}"
    assert (interrupted["state"], interrupted["seed"]) == ("interrupted", 3)
    assert (waiting["state"], waiting["algo"], waiting["seed"]) == ("waiting", "bc", None)


def test_a_later_answer_has_only_what_changed(out, serve):
    client = serve(out)
    client.rows()
    first = client.get("/api/runs")
    since = {"session": first["session"], "version": first["version"]}
    again = client.get("/api/runs", **since)
    assert (again["rows"], again["gone"], again["whole"]) == ([], [], False)
    write_finished(out, spec_of(4), 100.0)
    shutil.rmtree(directory_of(out, 3).path)
    news = client.get("/api/runs", **since)
    changed = {row["run_id"]: row["state"] for row in news["rows"]}
    assert changed == {spec_of(4).run_id: "done", spec_of(3).run_id: "waiting"}
    (out / ".sweeps").rename(out / ".forgotten")
    gone = client.get("/api/runs", session=news["session"], version=news["version"])
    assert (gone["gone"], gone["rows"]) == ([key_of(out, 3)], [])
    other = client.get("/api/runs", session="of another server", version=10**9)
    assert (other["whole"], len(other["rows"])) == (True, 4)


def test_the_list_comes_before_the_files_are_read(out):
    table = RunTable(out, [], CurveReader())
    first = table.changes("", 0, reading_s=-1.0)
    assert (len(first.rows), first.complete) == (5, False)
    assert {row.seed for row in first.rows} == {None}
    later = table.changes(first.session, first.version)
    assert (len(later.rows), later.complete) == (4, True)  # nothing is known of the waiting one


def curve(client, out, token="", metric="loss", seed=0):
    key = key_of(out, seed)
    return client.get("/api/curves", ("metric", metric), ("run", key), ("token", token))[key]


def test_only_new_points_of_a_curve_are_sent(out, serve):
    client = serve(out)
    client.rows()
    file = directory_of(out).path / "metrics.jsonl"
    first = curve(client, out)
    assert (first["steps"], first["values"], first["whole"]) == ([1, 2], [2.0, 1.0], True)
    assert first["metrics"] == ["loss", "step"]
    assert curve(client, out, first["token"])["steps"] == []
    with file.open("a") as stream:  # a line and a half, and what JSON lacks
        stream.write('{"loss": NaN, "step": 3, "note": "odd", "big": 1e999}\n{"loss": 0.25, "st')
    second = curve(client, out, first["token"])
    assert (second["steps"], second["values"], second["whole"]) == ([3], [None], False)
    with file.open("a") as stream:
        stream.write('ep": 4}\n[[1]]\nno\n{"step": "x"}\n')
    assert curve(client, out, second["token"])["values"] == [0.25]


def test_a_curve_that_is_written_anew_is_sent_as_far_as_it_differs(out, serve):
    client = serve(out)
    client.rows()
    points = [{"step": step, "loss": 1.0 / step} for step in range(1, 4)]
    directory = directory_of(out)
    directory.write_curve(points)
    first = curve(client, out)
    directory.write_curve([*points, {"step": 4, "loss": 0.25}])
    second = curve(client, out, first["token"])
    assert (second["steps"], second["whole"]) == ([4], False)
    directory.write_curve(points[:2])  # the run starts again from a checkpoint
    third = curve(client, out, second["token"])
    assert (third["steps"], third["whole"]) == ([1, 2], True)
    (directory.path / "metrics.jsonl").unlink()
    assert (curve(client, out, third["token"])["steps"]) == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8042", "127.0.0.1.evil.example", ""]
)
def test_other_hosts_get_nothing(out, serve, host):
    client = serve(out)
    for path in ("/", "/api/runs", "/video?file=a.mp4"):
        status, _, content = client.fetch(path, Host=host)
        assert status == 403
        assert b"only requests to 127.0.0.1 or localhost" in content


@pytest.mark.parametrize("host", ["127.0.0.1:8042", "localhost", "localhost:9000"])
def test_forwarded_ports_are_served(out, serve, host):
    assert serve(out).fetch("/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize("secret", ["", "/a/", f"/a/{'x' * 24}"])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/video?file=a.mp4"])
def test_nothing_is_answered_without_the_secret(out, serve, secret, path):
    status, _, content = serve(out).fetch_from(secret + path)
    assert (status, json.loads(content)) == (
        403, {"error": "Open the address that this dashboard printed when it began."},
    )  # fmt: skip


def test_each_start_has_a_secret_of_its_own(out, serve):
    first, second = serve(out), serve(out)
    assert second.fetch_from(f"{first.base}/api/runs")[0] == 403
    assert second.fetch_from(f"{second.base}/api/runs")[0] == 200


def test_pages_from_elsewhere_get_nothing(out, serve):
    client = serve(out)
    for origin, expected in (
        (f"http://127.0.0.1:{client.port}", 200),
        ("http://evil.example", 403),
    ):
        assert client.fetch("/api/runs", Origin=origin)[0] == expected
    request = (
        f"GET {client.base}/api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        connection.sendall(request.encode())
        assert connection.recv(12) == b"HTTP/1.1 400"


def test_idle_connections_do_not_add_up(out, serve, monkeypatch):
    monkeypatch.setattr("imitbench.util.local_server.MOST_CONNECTIONS", 5)
    client = serve(out)
    idle = [socket.create_connection(("127.0.0.1", client.port), timeout=60) for _ in range(20)]
    assert client.fetch("/api/runs")[0] == 200
    ended = []
    while len(ended) < 16:  # of 21, five may stay
        ready = select.select([each for each in idle if each not in ended], [], [], 20)[0]
        assert ready
        assert {connection.recv(1) for connection in ready} == {b""}
        ended += ready
    assert len(ended) == 16
    for connection in idle:
        connection.close()


def test_the_page_may_load_nothing_from_elsewhere(out, serve):
    client = serve(out)
    assert client.url == f"http://127.0.0.1:{client.port}{client.base}/"
    status, headers, content = client.fetch("/")
    page = content.decode()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    policy = page.partition('http-equiv="Content-Security-Policy"')[2].partition(">")[0]
    for rule in ("default-src 'none'", "connect-src 'self'", "media-src 'self'", "sha256-"):
        assert rule in policy.replace("&#x27;", "'")
    assert "unsafe" not in policy
    assert page.replace("http://www.w3.org/2000/svg", "").count("http://") == 0
    assert "https://" not in page
    head = client.fetch("/", method="HEAD")
    assert (head[0], head[2], head[1]["Content-Length"]) == (200, b"", str(len(content)))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/run?key=classic/bc/Pendulum-v1/000000000000", 404),
        ("/api/run?key=../../etc", 404),
        ("/api/run", 404),
        ("/api/runs?version=x", 400),
        ("/api/curves?run=a&run=b&token=", 400),
        ("/api/curves?" + "&".join(["run=a"] * 1000), 400),
        ("/api/nothing", 404),
        ("/../secret", 404),
        ("//[x", 404),
        ("/video?file=../secret.mp4", 404),
        ("/video?file=/etc/secret.mp4", 404),
        ("/video?file=%00.mp4", 404),
        ("/video", 404),
    ],
)
def test_what_is_not_there_is_refused(out, serve, path, expected):
    (out.parent / "secret.mp4").write_bytes(b"secret")
    status, _, content = serve(out).fetch(path)
    assert status == expected
    assert set(json.loads(content)) == {"error"}


def test_only_reading_requests_are_answered(out, serve):
    client = serve(out)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert client.fetch("/api/runs", method=method)[0] == 501


def test_a_run_shows_all_that_is_known(out, serve):
    client = serve(out)
    client.rows()
    directory_of(out, 2).log.write_text("first\rsecond\n\x1b[2Jthird\n")
    done = client.get("/api/run", key=key_of(out, 0))
    assert done["spec"]["seed"] == 0
    assert (done["result"]["raw_return"], done["score"]) == (50.0, 0.75)
    failed = client.get("/api/run", key=key_of(out, 2))
    assert failed["failure"]["message"] == ODD
    assert failed["log"] == ["first", "second", " [2Jthird"]
    waiting = client.get("/api/run", key=key_of(out, 4))
    assert (waiting["spec"], waiting["log"], waiting["problems"]) == (None, [], [])


def test_damaged_and_odd_files_leave_the_others_readable(out, serve):
    (directory_of(out, 0).path / "result.json").write_text('{"run_id"')
    (directory_of(out, 1).path / "spec.json").write_text("[" * 100_000)
    odd = out / "classic" / ODD.replace("/", "-") / "env" / ("f" * 12)
    odd.mkdir(parents=True)
    os.mkfifo(odd / "metrics.jsonl")
    (odd / "log.txt").symlink_to(out.parent / "secret")
    (out.parent / "secret").write_text("secret\n")
    Path(os.fsdecode(os.fsencode(out) + b"/classic/\xff/env/" + b"e" * 12)).mkdir(parents=True)
    client = serve(out)
    rows = client.rows()
    assert "result.json" in rows[spec_of(0).run_id]["error"]
    assert rows[spec_of(0).run_id]["seed"] == 0
    assert "spec.json" in rows[spec_of(1).run_id]["error"]
    assert rows[spec_of(2).run_id]["state"] == "failed"
    assert rows["f" * 12]["algo"].startswith("<img src=x")
    assert rows["e" * 12]["algo"] == "\\udcff"
    key = rows["f" * 12]["key"]
    assert client.get("/api/run", key=key)["log"] == []
    parts = client.get("/api/curves", ("metric", "loss"), ("run", key), ("token", ""))
    assert parts[key]["steps"] == []


def files(folder):
    """Every path below a folder with its times, which change when something is written."""
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in (folder, *folder.rglob("*"))
    }


def test_nothing_is_written_into_the_folder(out, serve):
    lease = {
        "host": "elsewhere", "machine": "of a cluster", "pid": 1, "started": "",
        "nonce": "0" * 32, "heartbeat_s": 15.0,
    }  # fmt: skip
    (directory_of(out, 3).path / LEASE_FILE).write_text(json.dumps(lease))
    before = files(out)
    client = serve(out)
    rows = client.rows()
    assert rows[spec_of(3).run_id]["state"] == "running"
    for seed in range(5):
        client.get("/api/run", key=key_of(out, seed))
        curve(client, out, seed=seed)
    client.get("/api/videos")
    assert files(out) == before


def test_videos_of_runs_are_found_and_sent_in_parts(out, serve):
    content = bytes(range(256)) * 1000
    (out / "videos").mkdir()
    (out / "videos" / f"best-{spec_of(1).run_id}.mp4").write_bytes(content)
    (directory_of(out).path / "replay.mp4").write_bytes(b"short")
    (out / "other.MP4").write_bytes(b"other")
    (out / "out.mp4").symlink_to(out.parent / "secret.mp4")
    (out.parent / "secret.mp4").write_bytes(b"secret")
    elsewhere = out.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.mp4").write_bytes(b"secret")
    linked = directory_of(out).path.with_name("a" * 12)
    linked.symlink_to(elsewhere)
    (out / "videos" / "linked").symlink_to(elsewhere)
    client = serve(out)
    client.rows()
    found = {each["file"]: each["run"] for each in client.get("/api/videos")}
    named = f"videos/best-{spec_of(1).run_id}.mp4"
    own = f"{key_of(out)}/replay.mp4"
    assert found == {named: key_of(out, 1), own: key_of(out), "other.MP4": None}
    [replay] = client.get("/api/run", key=key_of(out))["videos"]
    assert (replay["file"], replay["size"]) == (own, 5)
    status, headers, whole = client.fetch(f"/video?file={named}")
    assert (status, headers["Content-Type"], whole) == (200, "video/mp4", content)
    for asked, start, end in (("0-99", 0, 100), ("255900-", 255_900, None), ("-7", -7, None)):
        status, headers, part = client.fetch(f"/video?file={named}", Range=f"bytes={asked}")
        assert (status, part) == (206, content[start:end])
        assert headers["Content-Range"].endswith("/256000")
    for asked in ("bytes=256000-", "bytes=5-2", "bytes=-", "bytes=-0", "lines=1-2"):
        assert client.fetch(f"/video?file={named}", Range=asked)[0] == 416
    several = client.fetch(f"/video?file={named}", Range="bytes=0-1,5-6")
    assert (several[0], several[2]) == (200, content)
    through = f"{linked.relative_to(out).as_posix()}/secret.mp4"
    up = f"{key_of(out)}/../{'a' * 12}/secret.mp4"
    for wrong in ("out.mp4", "videos/linked/secret.mp4", through, up, "missing.mp4"):
        assert client.fetch(f"/video?file={wrong}")[0] == 404


def test_published_results_are_shown_and_not_changed(serve):
    place = RESULTS / "imitbench-classic-controls"
    before = files(place)
    client = serve(place)
    rows = client.rows()
    assert {row["state"] for row in rows.values()} == {"done"}
    row = next(row for row in rows.values() if row["algo"] == "expert")
    details = client.get("/api/run", key=row["key"])
    assert details["spec"]["algo"] == "expert"
    assert details["score"] == pytest.approx(row["score"])
    parts = client.get("/api/curves", ("metric", "loss"), ("run", row["key"]), ("token", ""))
    assert parts == {row["key"]: None}
    assert client.get("/api/videos") == []
    assert files(place) == before


def test_a_folder_that_disappears_is_reported(out, serve):
    client = serve(out)
    client.rows()
    shutil.rmtree(out)
    news = client.get("/api/runs")
    assert (news["missing"], news["rows"]) == (True, [])
