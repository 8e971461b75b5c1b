"""See inside a run: progress lines, `status`, `logs --follow` and curves while it trains."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from support.command import call_imitbench
from support.plugins import write_plugin

from imitbench.cli.watching import GrowingLog

HALF, LAST, BUDGET = 500, 950, 1000  # points of the curve, and batches
LABEL = "mine on Pendulum-v1, seed 0"
RUN = ("run", "--algo", "./mine", "--env", "Pendulum-v1", "--seeds", 1, "--budget", "quick",
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
        assert process.poll() is None, "ended"
        time.sleep(0.05)
    return found


def start(*arguments, cwd, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "imitbench", *map(str, arguments)], cwd=cwd, text=True,
        env={**os.environ, "GATE": str(cwd / "gate")}, **options,
    )  # fmt: skip


def read_json(path):
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return {}


def seen_on_terminal(words, *arguments, cwd, stop):
    """Runs a command on a terminal of 100 columns until it has shown some words."""
    master, slave = pty.openpty()
    environment = {"stdout": slave, "stderr": slave, "stdin": slave}
    shown = b""
    process = start(*arguments, cwd=cwd, **environment)
    os.close(slave)
    with process, contextlib.suppress(OSError):  # the other side was closed
        while piece := os.read(master, 65536):
            shown += piece
            if stop and all(word.encode() in shown for word in words):
                process.send_signal(signal.SIGINT)
                stop = False
    os.close(master)
    return shown.decode(), process.returncode


class Held:
    """A run whose worker was killed at half of its budget, and whose next worker waits there."""

    def __init__(self, folder):
        self.folder, self.errors = folder, folder / "stderr.txt"
        self.processes = []

    def begin(self):
        write_plugin(self.folder / "mine", GATED)
        with self.errors.open("w") as errors:
            sweep = start(
                *RUN, "--jobs", 1, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=errors
            )
        self.processes.append(sweep)
        first = wait_for(self.at_half, sweep)
        self.ahead = self.path.joinpath("metrics.jsonl").read_text()
        os.kill(first["pid"], signal.SIGKILL)
        wait_for(lambda: self.at_half().get("pid") not in (None, first["pid"]), sweep)
        assert self.path.joinpath("metrics.jsonl").read_text() == self.ahead
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        follow = start("logs", self.path.name, "--follow", cwd=self.folder, **pipes)
        self.processes.append(follow)

    @property
    def path(self):
        return next(self.folder.glob("runs/classic/mine/*/*"))

    def at_half(self):
        """Returns the status once its curve, and the status, have come to half of the budget."""
        for path in self.folder.glob("runs/classic/mine/*/*/status.json"):
            status = read_json(path)
            if status.get("step") == HALF:
                return status
        return {}

    def end(self):
        """Lets the run end; returns what was printed by it, and by the process that follows it."""
        sweep, follow = self.processes
        (self.folder / "gate").touch()
        assert sweep.wait() == 0
        log, progress = follow.communicate()
        assert follow.returncode == 0
        return self.errors.read_text(), log, progress


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    held = Held(tmp_path_factory.mktemp("held"))
    try:
        held.begin()
        yield held
    finally:
        for process in held.processes:
            process.terminate()  # workers end, too
            process.communicate()


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
    assert f"{HALF} of 1,000" in table.out
    assert held.path.name in table.out


def test_watching_on_a_terminal_shows_the_same(held):
    words = [LABEL, "50 %", "loss ", " left", f"at step {HALF}"]
    command = ("status", "--watch", "--every", 0.2)
    shown, code = seen_on_terminal(words, *command, cwd=held.folder, stop=True)
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
    write_plugin(tmp_path / "mine", GATED)
    arguments = (*RUN, "--executor", "inline", "--quiet")
    answer = call_imitbench(*arguments, cwd=tmp_path, env={"GATE": str(tmp_path)})
    assert answer.code == 0, answer.err
    [uninterrupted] = tmp_path.glob("runs/classic/mine/*/*")
    assert uninterrupted.name == held.path.name
    whole = uninterrupted.joinpath("metrics.jsonl").read_text()
    assert held.path.joinpath("metrics.jsonl").read_text() == whole
    assert whole.startswith(held.ahead)
    assert whole != held.ahead


def test_on_a_terminal_finished_runs_have_score_and_time(tmp_path):
    command = ("run", "--algo", "random", "--env", "Pendulum-v1", "--budget", "quick",
               "--seeds", 1, "--executor", "inline")  # fmt: skip
    shown, code = seen_on_terminal([], *command, cwd=tmp_path, stop=False)
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
