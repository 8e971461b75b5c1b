"""The page's server: what it serves, what it refuses, and clients that try to stall it."""

import http.client
import json
import socket
import threading
import time

import pytest
from support.labelling import PageClient, write_small_set

from imitbench.errors import InputError
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.server import LabellingServer
from imitbench.util import local_server


@pytest.fixture
def folder(tmp_path):
    return write_small_set(tmp_path / "set", pairs=30, obvious=2)


@pytest.fixture
def server(folder):
    with LabellingServer(LabelSet(folder), port=0) as running:
        yield running


@pytest.fixture
def page(server):
    return PageClient(server.link(server.store.annotator("Ada")))


def test_the_page_gets_pairs_ahead_and_their_clips(page, server):
    state = page.state()
    assert (state["done"], state["name"]) == (0, "Ada")
    assert [task["position"] for task in state["next"]] == [0, 1, 2, 3]
    status, clip, headers = page.request("GET", f"clips/{state['next'][0]['left']}.mp4")
    assert (status, headers["Content-Type"]) == (200, "video/mp4")
    assert clip == server.app.labels.clip_path(state["next"][0]["left"]).read_bytes()


def test_an_answer_is_stored_with_its_sides(page, server):
    task = page.state()["next"][0]
    status, state = page.answer(0, "left")
    assert (status, state["done"]) == (200, 1)
    [answer] = server.store.answers()
    pair = server.app.labels.pairs[answer.pair]
    assert (task["left"], task["right"]) == (
        (pair.second, pair.first) if answer.swapped else (pair.first, pair.second)
    )
    assert answer.preference == (0.0 if answer.swapped else 1.0)


def test_the_goal_is_not_above_the_number_of_questions(page, server):
    state = page.state()
    assert state["goal"] == 5 < state["total"]
    labels = server.app.labels
    labels.header = labels.header.model_copy(update={"goal": 1000})
    assert page.state()["goal"] == state["total"]


def test_the_page_is_not_told_why_a_pair_is_shown(page):
    page.answer(0)
    state = page.state()
    assert set(state["next"][0]) == {"position", "left", "right"}
    text = json.dumps(state)
    assert "obvious" not in text
    assert "repeat" not in text


def test_the_same_answer_twice_counts_once_and_another_is_refused(page, server):
    assert page.answer(0, "left", "the-same-key")[0] == 200
    assert page.answer(0, "left", "the-same-key")[0] == 200
    status, told = page.answer(0, "right")
    assert status == 409
    assert told["error"].startswith("Not stored: another answer")
    assert len(server.store.answers()) == 1


@pytest.mark.parametrize(("position", "choice"), [(0, "right"), (1, "left")])
def test_a_key_that_is_used_for_another_answer_is_refused(page, server, position, choice):
    page.answer(0, "left", "the-same-key")
    [before] = server.store.answers()
    assert page.answer(position, choice, "the-same-key") == (
        409, {"error": "Not stored: another answer with this key came first, and stays."},
    )  # fmt: skip
    assert server.store.answers() == [before]
    assert page.answer(0, "left", "the-same-key")[0] == 200
    assert page.answer(1, "left")[0] == 200


def test_undo_goes_back_one_pair(page):
    page.answer(0)
    status, state = page.post("undo", {"position": 0})
    assert (status, state["done"], state["next"][0]["position"]) == (200, 0, 0)


def test_answers_go_on_after_a_restart(folder):
    done = []
    for position in range(2):
        with LabellingServer(LabelSet(folder), port=0) as running:
            page = PageClient(running.link(running.store.annotator("Ada")))
            csrf = page.csrf
            done.append(page.state()["done"])
            page.answer(position)
    assert done == [0, 1]
    assert len(csrf) == 64


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-CSRF-Token": ""}, 403),
        ({"X-CSRF-Token": "0" * 64}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "5000"}, 413),
        ({"Content-Length": "-1"}, 411),
    ],
)
def test_changes_of_other_pages_and_odd_bodies_are_refused(page, server, headers, status):
    found, told = page.post(
        "answer", {"key": "k" * 32, "position": 0, "choice": "left", "response_ms": 1}, **headers
    )
    assert found == status
    assert told["error"].endswith(".")
    assert server.store.answers() == []


def test_the_own_origin_is_served(page, server):
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        body = {"key": host.replace(":", "-"), "position": page.state()["done"], "choice": "left"}
        status, _ = page.post(
            "answer", {**body, "key": "k" * 20 + host[:3], "response_ms": 1},
            Host=host, Origin=f"http://{host}",
        )  # fmt: skip
        assert status in (200, 400)


@pytest.mark.parametrize(
    "body",
    [
        {}, [], {"key": "k" * 32, "position": 0, "choice": "both", "response_ms": 1},
        {"key": "k" * 32, "position": -1, "choice": "left", "response_ms": 1},
        {"key": "<script>", "position": 0, "choice": "left", "response_ms": 1},
        {"key": "k" * 32, "position": 0, "choice": "left", "response_ms": 1, "annotator": 2},
    ],
)  # fmt: skip
def test_malformed_answers_are_refused(page, server, body):
    assert page.post("answer", body)[0] == 400
    assert server.store.answers() == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404), ("/a/", 404), ("/a/unknown-token-of-no-one/", 404), ("clips/999.mp4", 404),
        ("clips/../set.json", 404), ("/a/../../etc/passwd", 404), ("/assets/label.html", 404),
        ("/assets/../server.py", 404), ("answer", 405), ("clips/%30.mp4", 404),
    ],
)  # fmt: skip
def test_nothing_else_is_served(page, path, status):
    found, body, _ = page.request("GET", path)
    assert found == status
    assert set(json.loads(body)) == {"error"}


def test_the_policy_of_the_page_is_strict(page):
    for path in ("", "state", "/assets/label.js"):
        _, _, headers = page.request("GET", path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_the_page_refers_to_nothing_elsewhere(page):
    for path in ("", "/assets/label.js", "/assets/label.css"):
        _, body, _ = page.request("GET", path)
        assert b"http:" not in body
        assert b"https:" not in body


def test_an_annotator_cannot_answer_for_another(page, server):
    other = PageClient(server.link(server.store.annotator("Bob")))
    status, _ = page.post(
        f"{other.base}answer", {"key": "k" * 32, "position": 0, "choice": "left", "response_ms": 1}
    )
    assert status == 403  # the page's token is that of Ada
    assert server.store.answers() == []


def test_two_lengths_of_an_answer_are_refused(page, server):
    body = {"key": "k" * 32, "position": 0, "choice": "left", "response_ms": 1}
    content = json.dumps(body).encode()
    lines = [
        f"POST {page.base}answer HTTP/1.1", f"Host: {page.address}", f"X-CSRF-Token: {page.csrf}",
        "Content-Type: application/json", f"Content-Length: {len(content)}", "Content-Length: 1",
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        answer = client.makefile("rb").read()  # until the server ends the connection
    assert answer.startswith(b"HTTP/1.1 400")
    assert server.store.answers() == []


def test_malformed_requests_get_one_line(server):
    for request in (
        b"NONSENSE\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200,
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(request)
            assert b"Traceback" not in client.recv(4096)


def test_slow_and_idle_clients_neither_stall_the_server_nor_stay(server, page, monkeypatch):
    monkeypatch.setattr(local_server, "REQUEST_S", 0.3)
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(30)]
    for client in slow:
        client.sendall(b"POST /a/ HTTP/1.1\r\nContent-Le")
    assert page.answer(0)[0] == 200
    deadline = time.monotonic() + 60
    for client in slow:
        while time.monotonic() < deadline:
            try:
                client.sendall(b"n")  # a byte now and then does not extend the time
                client.settimeout(0.05)
                if client.recv(100) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("a slow client was not cut off")
        client.close()
    assert page.answer(1)[0] == 200


def test_too_many_connections_end_the_oldest_idle_ones(server, page, monkeypatch):
    monkeypatch.setattr(local_server, "MOST_CONNECTIONS", 10)
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(25)]
    fresh = PageClient(server.link(server.store.annotator("Ada")))
    assert fresh.answer(0)[0] == 200
    assert threading.active_count() < 25
    for client in idle:
        client.close()


def test_two_servers_of_one_set_are_refused(server, folder):
    with pytest.raises(InputError, match="another server shows this set"):
        LabellingServer(LabelSet(folder), port=0)


def test_a_port_in_use_is_told(server, tmp_path):
    other = write_small_set(tmp_path / "other", pairs=3)
    with pytest.raises(InputError, match=f"--port {server.port} on 127.0.0.1: cannot be used"):
        LabellingServer(LabelSet(other), port=server.port)
    with LabellingServer(LabelSet(other), port=0) as running:  # and the lock is free again
        assert running.port


def test_other_hosts_reach_it_by_address_but_not_by_a_foreign_name(tmp_path):
    folder = write_small_set(tmp_path / "open", pairs=3)
    with LabellingServer(LabelSet(folder), host="0.0.0.0", port=0) as running:
        token = running.store.annotator("Ada").token
        for host, status in (("192.0.2.7", 200), ("localhost", 200), ("rebinding.example", 403)):
            client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
            client.request("GET", f"/a/{token}/", headers={"Host": f"{host}:{running.port}"})
            assert client.getresponse().status == status, host
            client.close()
