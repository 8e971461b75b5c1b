"""The recording page in a real Chromium: PushT by a scripted mouse, as a person would."""

import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.browser import audit, keep_picture
from support.recording import STEPS, store_of, task_of
from support.recording_page import Training

from imitbench.algorithms.human_gated_dagger import RoundRequest
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.experts.lookup import find_environment
from imitbench.recording.server import RecordingServer
from imitbench.recording.session import Session
from imitbench.recording.simulation import Simulation
from imitbench.recording.task import controls_for, make_task

pytestmark = pytest.mark.browser
PUSHT = "gym_pusht/PushT-v0"


class Page:
    """The page of a recording, with what it logged and requested."""

    def __init__(self, chromium, url, *, width=1000, height=900, **options):
        self.context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        self.until("state && counts.drawn > 0")

    def until(self, expression):
        """Waits for an expression; the page's policy forbids what Playwright itself would do."""
        for _ in range(3000):  # a minute: busy machines are slow
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(expression)

    def state(self, name):
        return self.page.evaluate(f"state.{name}")

    def press(self, key, expression):
        self.page.keyboard.press(key)
        self.until(expression)

    def point(self, x, y):
        """Moves the mouse to a place of the picture, given as fractions."""
        box = self.page.locator("#picture").bounding_box()
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    def drag(self, steps, moves=0):
        """Drags in a circle for some moves and until the episode has some steps, or ends."""
        self.point(0.7, 0.5)
        self.page.mouse.down()
        turn = 0.0
        while (moves := moves - 1) >= 0 or self.page.evaluate(
            f"state.steps < {steps} && state.phase !== 'ended'"
        ):
            turn += 0.5
            self.point(0.5 + 0.2 * math.cos(turn), 0.5 + 0.2 * math.sin(turn))
            self.page.wait_for_timeout(10)
        self.page.mouse.up()


class Recording:
    """A recording of PushT that is served in this process."""

    def __init__(self, folder, task):
        self.folder, self.store = folder, store_of(folder, task)
        self.simulation = Simulation(lambda: Session(task, self.store), task.rate_hz)
        self.simulation.__enter__()
        self.server = RecordingServer(self.simulation, task.spec.id, task.controls, port=0)
        self.server.__enter__()

    def end(self):
        self.server.__exit__()
        self.simulation.__exit__()
        self.store.close()


def pusht_task(goal=None):
    pytest.importorskip("gym_pusht")
    # Episodes do not end by themselves, however slow the browser is.
    spec = find_environment(PUSHT).model_copy(update={"kwargs": {"max_episode_steps": 10_000}})
    return make_task(
        spec, controls_for(spec, None),
        rate_hz=10.0, goal=goal, undo_s=0.5, seed=0, success=None,
    )  # fmt: skip


@pytest.fixture
def recording(tmp_path):
    running = Recording(tmp_path / "to", pusht_task(goal=3))
    yield running
    running.end()


@pytest.fixture
def opened(chromium, recording):
    """Opens pages; they must log nothing, and request nothing elsewhere."""
    pages = []

    def open_page(**options):
        pages.append(Page(chromium, recording.server.url, **options))
        return pages[-1]

    yield open_page
    own = recording.server.url.partition("/a/")[0]
    for page in pages:
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith((own, "data:"))] == []
        page.context.close()


def test_a_mouse_records_an_episode_with_a_break_and_an_undo(opened, recording):
    page = opened()
    assert page.state("phase") == "ready"
    page.drag(10, moves=8)
    page.press("p", "state.phase === 'paused'")
    steps = page.state("steps")
    page.page.wait_for_timeout(300)
    assert page.state("steps") == steps
    page.press("p", "state.phase === 'running'")
    page.until(f"state.steps > {steps}")  # the last place is held
    page.press("z", "state.phase === 'ready'")
    assert page.state("steps") > 0
    assert page.page.inner_text("#hint") == "Press on the picture, or a key, to go on"
    page.drag(15, moves=8)
    page.press("Enter", "state.kept === 1")
    assert page.state("phase") == "ready"
    found = inspect_demonstrations(open_trajectories(recording.folder))
    assert (found.problems, found.rows) == ([], 1)
    [episode] = open_trajectories(recording.folder).read()
    turns = episode.acts / 512 - 0.5
    assert all(abs(math.hypot(x, y) - 0.2) < 0.02 for x, y in turns)
    assert len({round(math.atan2(y, x), 1) for x, y in turns}) > 3
    page.drag(5)
    page.press("Backspace", "state.steps === 0")
    assert page.state("kept") == 1


def test_the_task_pauses_while_the_help_is_read(opened):
    page = opened()
    page.drag(5)
    page.press("?", "state.phase === 'paused'")
    assert page.page.evaluate("document.getElementById('help').open")
    page.press("Escape", "!document.getElementById('help').open")
    page.press("p", "state.phase === 'running'")


def test_the_keyboard_moves_what_is_held(opened, recording):
    page = opened()
    page.page.keyboard.down("ArrowRight")
    page.until("state.steps > 10")
    page.page.keyboard.up("ArrowRight")
    page.press("Enter", "state.kept === 1")
    [episode] = open_trajectories(recording.folder).read()
    assert episode.acts[9, 0] > episode.acts[0, 0]
    assert set(episode.acts[:, 1]) == {256}


def test_a_stick_of_a_gamepad_moves_what_is_held(opened, recording):
    page = opened()

    def push(x, y):
        page.page.evaluate(
            f"navigator.getGamepads = () => [null, {{axes: [{x}, {y}], buttons: []}}]"
        )

    push(-0.5, 0.1)  # down a little, as sticks rest
    page.until("state.steps > 5")
    push(0.05, 0)
    page.until(f"state.steps > {page.state('steps') + 5}")
    page.press("Enter", "state.kept === 1")
    [episode] = open_trajectories(recording.folder).read()
    right = episode.acts[:, 0]
    assert (np.diff(right[:4]) < 0).all()
    assert right[-1] == right[-2]  # released
    assert set(episode.acts[:, 1]) == {256}


def test_a_tab_that_is_closed_pauses_the_task(opened):
    first = opened()
    first.drag(10)
    steps = first.state("steps")
    first.page.close()
    second = opened()
    second.until("state.yours && state.phase === 'paused'")
    assert steps <= second.state("steps")
    second.press("p", "state.phase === 'running'")


def test_a_reload_keeps_the_controls_and_the_episode(opened):
    page = opened()
    page.drag(10)
    page.page.reload()
    page.until("state && state.yours && state.steps >= 10")


def test_the_second_tab_is_told_and_can_take_over(opened):
    first, second = opened(), opened()
    assert second.page.locator("#alert").inner_text().startswith("Another tab has the controls.")
    assert second.page.locator("#keep").is_disabled()
    first.drag(5)
    second.until("state.steps >= 5")
    second.page.locator("#retry").click()
    second.until("state.yours")
    first.until("!state.yours")
    assert first.page.locator("#alert").is_visible()
    assert not second.page.locator("#alert").is_visible()
    second.page.locator("#discard").click()
    second.until("state.steps === 0")
    first.until("state.steps === 0")


def test_it_fits_a_phone_in_the_dark_and_answers_to_touch(opened):
    page = opened(width=360, height=740, color_scheme="dark", has_touch=True, is_mobile=True)
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.page.locator("#picture").tap()
    page.until("state.steps > 3")
    keep_picture(page.page, "record-phone-dark")
    page.page.locator("#keep").tap()
    page.until("state.kept === 1")


def test_all_buttons_are_in_the_window_and_have_names(opened):
    page = opened(width=1280, height=720, color_scheme="light")
    keep_picture(page.page, "record-1280")
    lowest = "Math.max(...[...document.querySelectorAll('main button')].map((button) =>"
    assert page.page.evaluate(f"{lowest} button.getBoundingClientRect().bottom))") <= 720
    page.press("?", "byId('help').open")
    assert "drag x" in page.page.locator("#controls").inner_text()
    page.page.keyboard.press("Escape")
    assert audit(page.page) == []


def test_a_person_corrects_a_policy(chromium, tmp_path):
    def to_a_corner(_):
        return np.array([30.0, 30.0], np.float32)

    rounds = [RoundRequest(number, to_a_corner if number else None, 1, 5) for number in range(3)]
    training = Training(tmp_path / "to", pusht_task(), rounds)
    assert training.told.wait(60)
    page = Page(chromium, training.url, width=360, height=740, has_touch=True, is_mobile=True)
    assert page.page.locator("#switch").is_disabled()
    page.drag(8)
    page.press("Enter", "state.phase === 'ready' && state.round.number === 1")
    page.press("c", "state.acting === 'policy' && state.steps > 3")
    assert "policy" in page.page.locator("#picture").get_attribute("class")
    assert page.page.locator("#hint").inner_text() == "The policy acts: take over where it fails"
    steps = page.state("steps")
    page.drag(steps + 6)
    page.until("state.acting === 'person'")
    page.point(0.5, 0.5)  # a mouse that moves without its button does not take over again
    page.press("c", "state.acting === 'policy'")
    page.point(0.6, 0.6)
    page.until(f"state.steps > {page.state('steps') + 3}")
    assert page.state("acting") == "policy"
    keep_picture(page.page, "coaching-phone")
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert audit(page.page) == []
    page.page.locator("#switch").tap()
    page.until("state.acting === 'person'")
    page.press("Enter", "state.phase === 'ready' && state.round.number === 2")
    page.page.locator("#finish").tap()
    page.until("byId('status').textContent.includes('Training goes on without you')")
    training.join()
    assert (training.error, [len(found) for found in training.found]) == (None, [1, 1, 0])
    [turns] = [episode.by_person.astype(int) for episode in training.found[1]]
    assert [turns[0], *turns[np.flatnonzero(np.diff(turns)) + 1]][:3] == [0, 1, 0]
    corner = training.found[1][0].trajectory.acts[~training.found[1][0].by_person]
    assert np.array_equal(corner, np.full_like(corner, 30.0))
    assert page.complaints == []
    page.context.close()


def test_the_page_says_when_the_server_is_gone(chromium, tmp_path):
    recording = Recording(tmp_path / "to", task_of(STEPS))
    page = Page(chromium, recording.server.url)
    recording.end()
    page.page.wait_for_selector("#alert:visible")
    assert "What you kept is stored." in page.page.locator("#alert").inner_text()
    assert page.page.locator("#keep").is_disabled()
    page.context.close()


def command(folder, episodes):
    """Starts the command; returns its process and the link."""
    process = subprocess.Popen(
        [sys.executable, "-m", "imitbench", "record", "--env", PUSHT, "--no-browser", "--rate",
         "30", "--port", "0", "--to", str(folder), "--episodes", str(episodes)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder.parent,
        env=dict(os.environ),
    )  # fmt: skip
    return process, process.stdout.readline().strip()


def test_the_command_ends_when_enough_episodes_are_kept(chromium, tmp_path):
    pytest.importorskip("gym_pusht")
    process, link = command(tmp_path / "to", 2)
    with process:
        page = Page(chromium, link)
        for kept in (1, 2):
            page.drag(8)
            page.press("Enter", f"state.kept === {kept}")
        page.until("document.getElementById('status').textContent.includes('may close')")
        assert process.wait(60) == 0
        # A last move of the mouse may be sent to a server that has just ended.
        assert all("ERR_CONNECTION" in complaint for complaint in page.complaints)
        page.context.close()
    found = inspect_demonstrations(open_trajectories(tmp_path / "to"))
    assert (found.problems, found.rows) == ([], 2)
    assert "| trajectories | 2 |" in Path(tmp_path / "to" / "README.md").read_text()


def test_nothing_that_was_kept_is_lost_by_a_kill(chromium, tmp_path):
    """Kills the command at 30 moments; whatever the page says is kept is there afterwards."""
    pytest.importorskip("gym_pusht")
    moments, kept = random.Random(0), 0
    for _ in range(30):
        process, link = command(tmp_path / "to", 1000)
        with process:
            page = Page(chromium, link)
            assert page.state("kept") >= kept
            kept = page.state("kept")
            wanted, until = kept + moments.randint(0, 2), math.inf
            while time.monotonic() < until:
                page.page.keyboard.press("ArrowRight")
                page.page.keyboard.press("Enter")
                if until == math.inf and page.state("kept") >= wanted:
                    until = time.monotonic() + moments.uniform(0, 0.3)
            process.kill()
            kept = max(kept, page.state("kept"))
            page.context.close()
        if kept:
            found = inspect_demonstrations(open_trajectories(tmp_path / "to"))
            assert found.problems == []
            assert found.rows >= kept
    assert kept > 5
