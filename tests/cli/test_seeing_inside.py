"""See inside a run: progress lines, `status`, `logs --follow` and curves while it trains."""

import contextlib
import json
import os
import signal
import time

import pytest
from support.command import Started, call_imitbench, on_terminal
from support.plugins import write_plugin
from support.short_suite import write_short_suite

from imitbench.cli.watching import GrowingLog

HALF, LAST, BUDGET = 100, 190, 200  # points of the curve, and batches
LABEL = "mine on Pendulum-v1, seed 0"
RUN = ("run", "--algo", "./mine", "--suite", "./short", "--seeds", 1, "--budget", "quick",
       "--checkpoint-minutes", 0, "--retries", 1)  # fmt: skip
# Behavioral cloning that stops at half of its budget until a file appears. It waits before it
# offers a checkpoint, so that the curve on disk is ahead of the checkpoint.
GATED = """
import os
import time
from pathlib import Path

from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def train(self, budget, callback, checkpoint=lambda: None):
        def record(step, metrics):
            print("at step", step, flush=True)
            callback(step, metrics)
            while step == budget.amount // 2 and not Path(os.environ["GATE"]).exists():
                time.sleep(0.02)

        return super().train(budget, record, checkpoint)
"""


def wait_for(find, process):
    """Returns the first true answer, while a process runs."""
    while not (found := find()):
        assert process.running(), "ended"
        time.sleep(0.05)
    return found


def read_json(path):
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return {}


class Held:
    """A run whose worker was killed at half of its budget, and whose next worker waits there."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def begin(self):
        write_short_suite(self.folder / "short", batches=BUDGET)
        write_plugin(self.folder / "mine", GATED)
        environment = {"GATE": str(self.folder / "gate")}
        sweep = Started(*RUN, "--jobs", 1, cwd=self.folder, env=environment)
        self.processes.append(sweep)
        first = wait_for(self.at_half, sweep)
        self.ahead = self.path.joinpath("metrics.jsonl").read_text()
        os.kill(first["pid"], signal.SIGKILL)
        wait_for(lambda: self.at_half().get("pid") not in (None, first["pid"]), sweep)
        assert self.path.joinpath("metrics.jsonl").read_text() == self.ahead
        follow = Started("logs", self.path.name, "--follow", cwd=self.folder)
        self.processes.append(follow)

    @property
    def path(self):
        return next(self.folder.glob("runs/short/mine/*/*"))

    def at_half(self):
        """Returns the status once its curve, and the status, have come to half of the budget."""
        for path in self.folder.glob("runs/short/mine/*/*/status.json"):
            status = read_json(path)
            if status.get("step") == HALF:
                return status
        return {}

    def end(self):
        """Lets the run end; returns what was printed by it, and by the process that follows it."""
        (self.folder / "gate").touch()
        sweep, follow = (process.end() for process in self.processes)
        assert (sweep.code, follow.code) == (0, 0)
        return sweep.err, follow.out, follow.err


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    held = Held(tmp_path_factory.mktemp("held"))
    try:
        held.begin()
        yield held
    finally:
        (held.folder / "gate").touch()  # its workers would wait for it, even when they are to end
        for process in held.processes:
            process.signal(signal.SIGTERM)
            process.wait()


@pytest.fixture(scope="module")
def finished(held):
    return held.end()


def test_status_shows_how_far_a_run_is(held):
    answer = call_imitbench("status", "--json", cwd=held.folder)
    [cell] = json.loads(answer.out)
    [run] = cell["live"]
    assert (cell["running"], run["run_id"], run["phase"]) == (1, held.path.name, "train")
    assert (run["step"], run["budget"], run["share"]) == (HALF, BUDGET, 0.5)
    last = json.loads(held.ahead.splitlines()[-1])
    assert (run["metric"], run["value"]) == ("bc/loss", last["bc/loss"])
    assert run["message"] == f"at step {HALF}"
    assert cell["eta_s"] == pytest.approx(run["left_s"], abs=0.1)
    table = call_imitbench("status", cwd=held.folder)
    assert f"{HALF} of {BUDGET}" in table.out
    assert held.path.name in table.out


def test_watching_on_a_terminal_shows_the_same(held):
    words = [LABEL, "50 %", "loss ", " left", f"at step {HALF}"]
    command = ("status", "--watch", "--every", 0.2)
    shown, code = on_terminal(*command, cwd=held.folder, until=words)
    assert code == 0
    assert all(word in shown for word in words), shown


def test_following_a_run_prints_its_log_and_how_it_ends(held, finished):
    _, log, progress = finished
    lines = log.splitlines()
    assert lines == held.path.joinpath("log.txt").read_text().splitlines()
    assert lines[-1] == f"at step {LAST}"
    assert "was killed by SIGKILL" in log
    assert progress.splitlines()[-1].startswith("done: score ")


def test_away_from_terminals_progress_is_plain_lines(finished):
    errors, _, _ = finished
    assert all(character.isprintable() or character == "\n" for character in errors)
    first, *lines = errors.splitlines()
    assert first.startswith("1 runs, 0 already there; about ")
    [end] = [line for line in lines if line.startswith("[1/1]")]
    assert end.startswith(f"[1/1] {LABEL}: score ")
    assert end.endswith((" s", " min"))


def test_the_curve_is_the_same_after_a_kill(held, finished, tmp_path):
    arguments = (*RUN, "--executor", "inline", "--quiet", "--out", tmp_path / "runs")
    answer = call_imitbench(*arguments, cwd=held.folder, env={"GATE": str(tmp_path)})
    assert answer.code == 0, answer.err
    [uninterrupted] = tmp_path.glob("runs/short/mine/*/*")
    assert uninterrupted.name == held.path.name
    whole = uninterrupted.joinpath("metrics.jsonl").read_text()
    assert held.path.joinpath("metrics.jsonl").read_text() == whole
    assert whole.startswith(held.ahead)
    assert whole != held.ahead


def test_on_a_terminal_finished_runs_have_score_and_time(tmp_path):
    write_short_suite(tmp_path / "short")
    command = ("run", "--algo", "random", "--suite", "./short", "--budget", "quick",
               "--seeds", 1, "--executor", "inline")  # fmt: skip
    shown, code = on_terminal(*command, cwd=tmp_path)
    assert code == 0
    assert "random on Pendulum-v1, seed 0" in shown
    assert "[1/1] random on Pendulum-v1, seed 0: score " in shown


def test_following_a_run_that_ended_ends_at_once(held, finished):
    answer = call_imitbench("logs", held.path.name, "-f", "--tail", 1, cwd=held.folder)
    assert (answer.code, answer.out) == (0, f"at step {LAST}\n")


def test_a_growing_log_gives_each_line_once_and_its_unfinished_end_last(tmp_path):
    path = tmp_path / "log.txt"
    log = GrowingLog(path)
    seen = []
    for text, whole in [("first\nsec", False), ("ond\n", False), ("third\n", True), ("four", True)]:
        with path.open("a") as stream:
            stream.write(text)
        seen.append(log.new_lines(whole=whole))
    assert seen == [["first"], ["second"], ["third"], ["four"]]


@pytest.mark.parametrize("option", ["--failed", "--json"])
def test_following_excludes_other_forms(refused, option):
    assert "choose one" in refused("logs", *(["abc"] if option == "--json" else []), "-f", option)
