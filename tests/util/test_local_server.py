"""The server of local pages: whom it answers, how much it sends, and how many it bears."""

import http.client
import json
import re
import socket
import threading
from pathlib import Path

import pytest

from imitbench.errors import InputError
from imitbench.util import local_server
from imitbench.util.local_server import LocalHandler, LocalServer, new_secret, split_secret

CONTENT = bytes(range(256))
SECURITY = (Path(__file__).parents[2] / "docs/security.md").read_text()


class Handler(LocalHandler):
    """Sends a file; waits for `gate` if the address says so."""

    policy = "default-src 'none'"
    gate = threading.Event()
    entered = threading.Semaphore(0)

    def get(self):
        if self.path == "/wait":
            self.entered.release()
            self.gate.wait(60)
        self.send_file(lambda start, most: CONTENT[start : start + most], len(CONTENT), "x/y")

    def do_POST(self):  # noqa: N802 (the base class asks for this name)
        self.answer(lambda: self.send_json({"read": self.read_body(100).decode()}))


@pytest.fixture
def server():
    with LocalServer("127.0.0.1", 0, Handler) as running:
        yield running


def say(server, *lines, method="GET", path="/", content=""):
    """Sends a request as it is; returns the status and the content of the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        client.sendall((head + content).encode())
        answer = http.client.HTTPResponse(client, method=method)
        answer.begin()
        body = answer.read()
        return answer, body, answer.will_close


def own(server):
    return f"Host: 127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Origin: http://127.0.0.1:{port}", 200),
        ("Origin: http://evil.example", 403),
        ("Origin: null", 403),
        ("Origin: http://127.0.0.1:1", 403),
        ("Origin: http://127.0.0.1:{port}|Origin: http://evil.example", 403),
        ("Sec-Fetch-Site: same-origin", 200),
        ("Sec-Fetch-Site: none|Sec-Fetch-Mode: navigate", 200),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: video", 403),
        ("Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe", 403),
        # A link that somebody follows, for example one that a terminal in the browser shows.
        ("Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", 200),
    ],
)
def test_requests_of_other_pages_are_refused(server, lines, status):
    answer, body, _ = say(server, own(server), *lines.format(port=server.port).split("|"))
    assert answer.status == status
    assert body == CONTENT or json.loads(body) == {
        "error": "Requests of other pages are not served."
    }
    assert answer.headers["Content-Security-Policy"] == Handler.policy
    assert answer.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("second", ["127.0.0.1:{port}", "evil.example", ""])
def test_a_second_host_is_refused(server, second):
    answer, body, closes = say(server, own(server), f"Host: {second.format(port=server.port)}")
    assert (answer.status, closes) == (400, True)
    assert json.loads(body) == {"error": "The request has several headers Host."}


@pytest.mark.parametrize(
    "host",
    ["evil.example:{port}", "localhost", "localhost:1", "a:b:{port}", "[::1", "127.0.0.1:{port}:1"],
)
def test_other_hosts_and_ports_are_refused(server, host):
    answer, body, _ = say(server, f"Host: {host.format(port=server.port)}")
    assert answer.status == 403
    assert b"only requests to 127.0.0.1 or localhost are answered" in body
    assert say(server, f"Host: LOCALHOST:{server.port}")[0].status == 200
    assert say(server)[0].status == 403


def test_a_forwarded_port_is_served_if_the_server_allows_it():
    with LocalServer("127.0.0.1", 0, Handler, forwarded=True) as running:
        for host, status in (("localhost:1", 200), ("localhost", 200), ("evil.example", 403)):
            assert say(running, f"Host: {host}")[0].status == status


@pytest.mark.parametrize("lengths", [("2", "2"), ("2", "40"), ("40", "2")])
def test_two_lengths_are_refused_and_end_the_connection(server, lengths):
    lines = [f"Content-Length: {length}" for length in lengths]
    answer, body, closes = say(server, own(server), *lines, method="POST", content="{}")
    assert (answer.status, closes) == (400, True)
    assert json.loads(body) == {"error": "The request has several headers Content-Length."}


def test_the_content_of_a_reading_request_is_no_second_request(server):
    answer, _, closes = say(
        server, own(server), "Content-Length: 18", content="GET / HTTP/1.1\r\n\r\n"
    )
    assert (answer.status, closes) == (200, True)
    answer, body, closes = say(
        server, own(server), "Content-Length: 2", method="POST", content="{}"
    )
    assert (answer.status, json.loads(body), closes) == (200, {"read": "{}"}, False)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Range: bytes=0-9"], (206, CONTENT[:10])),
        (["Range: bytes=-1"], (206, CONTENT[-1:])),
        (["Range: bytes=250-999"], (206, CONTENT[250:])),
        (["Range: bytes=0-1,5-6"], (200, CONTENT)),
        (["Range: bytes=0-0, -1"], (200, CONTENT)),
        (["Range: bytes=0-1", "Range: bytes=5-6"], (200, CONTENT)),
        (["Range: bytes=0-1", 'If-Range: "of another version"'], (200, CONTENT)),
    ],
)
def test_a_part_is_sent_and_of_several_parts_the_whole(server, lines, expected):
    answer, body, _ = say(server, own(server), *lines)
    assert (answer.status, body) == expected
    assert ("Content-Range" in answer.headers) == (answer.status == 206)


def test_a_part_beyond_the_end_is_refused(server):
    answer, _, _ = say(server, own(server), "Range: bytes=256-")
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */256")


def test_a_connection_beyond_the_limit_is_closed_if_all_others_are_answered(server, monkeypatch):
    monkeypatch.setattr(local_server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(Handler, "gate", threading.Event())
    request = f"GET /wait HTTP/1.1\r\n{own(server)}\r\n\r\n".encode()
    busy = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(3)]
    for client in busy:
        client.sendall(request)
        assert Handler.entered.acquire(timeout=60)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as fourth:
        assert fourth.recv(1) == b""
    Handler.gate.set()
    for client in busy:
        assert client.recv(12) == b"HTTP/1.1 200"
    assert say(server, own(server))[0].status == 200  # one that waits makes room
    for client in busy:
        client.close()


def test_its_end_closes_idle_connections():
    with LocalServer("127.0.0.1", 0, Handler) as running:
        idle = socket.create_connection(("127.0.0.1", running.port), timeout=60)
        assert say(running, own(running))[0].status == 200
    with idle:
        assert idle.recv(1) == b""


def test_a_port_that_cannot_be_had_is_one_line(server):
    with pytest.raises(InputError, match="in use by another program; choose another, or --port 0"):
        LocalServer("127.0.0.1", server.port, Handler)
    with pytest.raises(InputError, match=r"--port 0 on 192\.0\.2\.1: cannot be used: .*; choose"):
        LocalServer("192.0.2.1", 0, Handler)


def test_a_secret_is_split_from_the_rest():
    first, second = new_secret(), new_secret()
    assert first != second
    assert len(first) >= 24
    assert split_secret(f"/a/{first}/state?x=/") == (first, "state?x=/")
    for wrong in ("/", "/a//", "/a/short/", f"/a/{first}", f"/b/{first}/", f"//a/{first}/"):
        assert split_secret(wrong) is None


def test_the_limits_are_those_of_the_page_on_security():
    section = SECURITY.partition("## Local pages")[2]
    stated = {int(number) for number in re.findall(r"\d+", section)}
    numbers = (local_server.MOST_CONNECTIONS, local_server.REQUEST_S, local_server.IDLE_S)
    assert {int(number) for number in numbers} <= stated
