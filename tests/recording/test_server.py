"""The page's server: the stream, who has the controls, and what is refused."""

import contextlib
import threading

import pytest
from support.labelling import PageClient
from support.recording import session_in, store_of, task_of
from support.recording_page import FIRST, NOTHING, RIGHT, SECOND, Tab

from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError
from imitbench.recording.server import RecordingServer
from imitbench.recording.session import NotNowError, Session
from imitbench.recording.simulation import Simulation


@contextlib.contextmanager
def serving(folder, task):
    store = store_of(folder, task)
    with (
        Simulation(lambda: Session(task, store), task.rate_hz) as simulation,
        RecordingServer(simulation, task.spec.id, task.controls, port=0) as server,
    ):
        yield server
    store.close()


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path / "to", task_of(rate_hz=60.0, goal=2)) as running:
        yield running


def test_an_episode_is_recorded_over_the_stream(server, tmp_path):
    tab = Tab(server.url, FIRST)
    state, picture = tab.next()
    assert (state["phase"], state["yours"], state["kept"]) == ("ready", True, 0)
    assert picture.startswith(b"\xff\xd8")
    assert tab.does(RIGHT) == (200, {})
    numbers = []
    while state["phase"] != "ended":
        state, picture = tab.next()
        numbers += [state["picture"]] if picture else []
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert state["success"] is True
    assert tab.asks("keep") == (200, {"said": "Episode 1 of 2 kept."})
    assert len(open_trajectories(tmp_path / "to")) == 1
    tab.does(RIGHT)
    tab.until(lambda state: state["phase"] == "running" and state["steps"] > 1)
    assert tab.asks("keep") == (200, {"said": "Kept. All 2 episodes are recorded."})
    assert tab.until(lambda state: state["phase"] == "complete")["kept"] == 2
    assert b"JFIF" not in tab.stream.read()  # it ends, without another picture
    server.wait()


def test_the_second_tab_watches_and_may_take_over(server):
    one, two = Tab(server.url, FIRST), Tab(server.url, SECOND)
    assert one.next()[0]["yours"]
    assert not two.next()[0]["yours"]
    assert two.does(RIGHT) == (409, {"error": "Another page has the controls."})
    assert two.asks("discard")[0] == 409
    one.does(RIGHT)
    assert two.until(lambda state: state["steps"] > 2)["phase"] == "running"
    assert two.asks("take over")[0] == 200
    assert two.until(lambda state: state["yours"] and state["phase"] != "running")
    assert not one.until(lambda state: not state["yours"])["yours"]
    assert one.does(RIGHT)[0] == 409


def test_a_tab_that_is_closed_pauses_and_gives_the_controls_to_another(server):
    one = Tab(server.url, FIRST)
    one.does(RIGHT)
    one.until(lambda state: state["steps"] > 1)
    one.does(NOTHING)
    one.leave()
    two = Tab(server.url, SECOND)  # perhaps before the end of the first is noticed
    steps = two.until(lambda state: state["yours"] and state["phase"] == "paused")["steps"]
    assert steps > 1
    assert two.asks("resume")[0] == 200
    two.until(lambda state: state["steps"] > steps)


def test_a_reload_keeps_the_controls(server):
    one = Tab(server.url, FIRST)
    watching = Tab(server.url, SECOND)
    again = Tab(server.url, FIRST)
    assert again.next()[0]["yours"]
    one.stream.read()  # its stream has ended
    assert again.does(RIGHT)[0] == 200
    assert not watching.until(lambda state: state["steps"] > 0)["yours"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-CSRF-Token": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_changes_of_others_are_refused(server, headers, status):
    page = PageClient(server.url)
    assert page.post("command", {"page": FIRST, "command": "discard"}, **headers)[0] == status


@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        ("command", {"page": FIRST, "command": "format"}, 400),
        ("command", {"page": "x", "command": "keep"}, 400),
        ("input", {"page": FIRST, "inputs": {**RIGHT, "pointer": [2, 0]}}, 400),
        ("input", {"page": FIRST, "inputs": {**RIGHT, "axes": ["nan"]}}, 400),
        ("input", {"page": FIRST, "inputs": {**RIGHT, "keys": ["x"] * 17}}, 400),
        ("about", {}, 405),
        ("elsewhere", {}, 404),
    ],
)
def test_what_is_malformed_is_refused(server, path, document, status):
    code, told = PageClient(server.url).post(path, document)
    assert code == status
    assert told["error"].endswith(".")


def test_without_the_secret_there_is_nothing(server):
    page = PageClient(server.url)
    for path in ("/", "/a/" + "x" * 24 + "/", "/a/" + "x" * 24 + f"/frames/{FIRST}"):
        assert page.request("GET", path)[0] == 404
    for path in ("", "about", "/assets/record.js", "/assets/page.css"):
        status, _, headers = page.request("GET", path)
        assert status == 200
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert page.request("GET", "/assets/label.js")[0] == 404
    assert page.request("HEAD", f"frames/{FIRST}")[1] == b""


def test_an_environment_that_fails_is_told_and_ends(tmp_path):
    task = task_of(rate_hz=60.0)
    with session_in(tmp_path / "other") as (session, _):
        fails = type(session._env.unwrapped)
    with serving(tmp_path / "to", task) as server, pytest.MonkeyPatch.context() as patched:
        tab = Tab(server.url, FIRST)
        patched.setattr(fails, "step", lambda *_: 1 / 0)
        tab.does(RIGHT)
        state = tab.until(lambda state: state["problem"])
        assert state["problem"] == "ZeroDivisionError: division by zero"
        with pytest.raises(InputError, match=r"failed while recording .ZeroDivisionError"):
            server.wait()


def test_who_waits_behind_a_command_that_fails_is_told(tmp_path):
    begun, go_on, told = threading.Event(), threading.Event(), threading.Event()
    refused = []

    def hold():
        begun.set()
        assert go_on.wait(60)
        return ""

    def fail():
        raise RuntimeError("the screen is gone")

    def call_last():
        try:
            simulation.call(lambda: "")
        except NotNowError as error:
            refused.append(str(error))
        told.set()

    def wait_for_orders(count):
        pause = threading.Event()
        for _ in range(6000):
            if len(simulation._orders) == count:
                return
            pause.wait(0.01)
        raise AssertionError("nobody asked")

    with session_in(tmp_path / "to") as (session, _), Simulation(lambda: session, 20) as simulation:
        calls = [lambda: simulation.call(hold), lambda: simulation.call(fail), call_last]
        for place, call in enumerate(calls):
            threading.Thread(target=call, daemon=True).start()
            if place == 0:
                assert begun.wait(60)
            else:
                wait_for_orders(place)
        go_on.set()
        assert told.wait(60)
        assert refused == ["The recording has ended."]
        assert simulation.problem == "RuntimeError: the screen is gone"
