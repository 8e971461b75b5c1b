"""A stopped worker loses no work, and the resumed run gives the same numbers."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from support.observer import Recorder

from imitbench.bench import worker
from imitbench.bench.job import Job
from imitbench.bench.learners.bc import BCLearner
from imitbench.bench.protocol import Evaluator
from imitbench.bench.stopping import RunStoppedError, catch_stop_signals
from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker
from imitbench.cards.catalog import suite_directory
from imitbench.executors.base import STOPPED
from imitbench.executors.local import LocalExecutor
from imitbench.executors.options import RunOptions
from imitbench.records.runs import Budget, ReferenceScores
from imitbench.store.lease import acquire
from imitbench.store.run_dir import RunDirectory

BATCHES = 2000  # a second or two


@pytest.fixture
def job_of(plan_of):
    def make(out, **changes):
        budget = Budget(name="quick", unit="batches", amount=BATCHES)
        runs = [run.model_copy(update={"budget": budget}) for run in plan_of(["bc"], seeds=[0])]
        fields = {
            "out": str(out),
            "source_root": str(suite_directory("classic")),
            "runs": runs,
            "references": ReferenceScores(random=-1000.0, expert=-150.0, version="1"),
            "command": "imitbench run",
            "checkpoint_s": 3600.0,
        }
        return Job(**fields | changes)

    return make


def directory_of(job):
    return RunDirectory.of(worker.Path(job.out), job.runs[0])


@pytest.fixture
def start():
    started = []

    def run(job):
        process = subprocess.Popen(
            [sys.executable, "-m", "imitbench.bench.worker", str(job.write())],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_until_it_trains(job, process):
    path = directory_of(job).path / "status.json"
    while process.poll() is None:
        if path.exists():
            status = json.loads(path.read_text())
            if (status["pid"], status["phase"]) == (process.pid, "train"):
                return
        time.sleep(0.01)


def outcome(job):
    """Everything that must not depend on interruptions."""
    directory = directory_of(job)
    result = directory.read_result()
    return {
        "numbers": (result.raw_return, result.return_std, result.deterministic_return),
        "curve": (directory.path / "metrics.jsonl").read_text(),
        "policy": {p.name: p.read_bytes() for p in directory.policy.iterdir() if p.is_file()},
    }


def stop(job, start, after_s, number):
    """Makes one attempt and requests a stop some time after training began."""
    process = start(job)
    wait_until_it_trains(job, process)
    time.sleep(after_s)
    process.send_signal(number)
    return process.wait()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Outcome, and seconds of training, of an uninterrupted worker, computed on demand."""
    found = {}

    def ask(job_of, start):
        if not found:
            job = job_of(tmp_path_factory.mktemp("uninterrupted"))
            assert start(job).wait() == 0
            found.update(outcome(job), train_s=directory_of(job).read_result().train_s)
        return {key: found[key] for key in ("numbers", "curve", "policy")}, found["train_s"]

    return ask


@pytest.mark.slow
def test_a_run_stopped_at_random_moments_gives_the_same_numbers_despite_a_damaged_checkpoint(
    tmp_path, job_of, start, uninterrupted
):
    expected, train_s = uninterrupted(job_of, start)
    job, rng = job_of(tmp_path), random.Random(0)
    directory = directory_of(job)
    for number in [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]:
        assert stop(job, start, rng.uniform(0.0, 0.2 * train_s), number) == STOPPED
        assert not directory.has_outcome
        assert not directory.is_claimed()
        assert list(directory.checkpoints.glob("*.state"))
        assert {p.name for p in directory.path.iterdir()} == {
            "spec.json", "status.json", "log.txt", "checkpoint", "metrics.jsonl",
        }  # fmt: skip
        assert json.loads((directory.path / "status.json").read_text())["state"] == "interrupted"
    *_, newest = sorted(directory.checkpoints.glob("*.state"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(content)
    assert start(job).wait() == 0
    log = directory.log.read_text()
    assert "checkpoint not used" in log
    assert "resumed after" in log[log.index("checkpoint not used") :]  # from the one before
    assert not directory.checkpoints.exists()
    assert outcome(job) == expected


@pytest.mark.slow
def test_a_forced_job_resumes_its_own_runs(tmp_path, job_of, start, uninterrupted):
    expected, train_s = uninterrupted(job_of, start)
    other = job_of(tmp_path)
    assert stop(other, start, 0.0, signal.SIGTERM) == STOPPED
    job = job_of(tmp_path, force=True)
    assert stop(job, start, 0.1 * train_s, signal.SIGTERM) == STOPPED
    assert "resumed" not in directory_of(job).log.read_text()  # the earlier checkpoint is not used
    assert start(job).wait() == 0
    assert "resumed" in directory_of(job).log.read_text()
    stamp = directory_of(job).outcome_stamp()
    assert start(job).wait() == 0
    assert directory_of(job).outcome_stamp() == stamp
    assert outcome(job) == expected


def test_a_worker_stopped_at_its_start_leaves_no_outcome(tmp_path, job_of, start):
    job = job_of(tmp_path)
    process = start(job)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait() in (STOPPED, -signal.SIGTERM)
    assert not directory_of(job).has_outcome
    assert not directory_of(job).is_claimed()


@pytest.mark.slow
def test_a_worker_that_lost_its_lease_writes_nothing(tmp_path, job_of, start, uninterrupted):
    expected, _ = uninterrupted(job_of, start)
    job = job_of(tmp_path)
    directory = directory_of(job)
    process = start(job)
    wait_until_it_trains(job, process)
    process.send_signal(signal.SIGSTOP)  # simulates a suspended machine
    (directory.path / ".lease").unlink()
    held = acquire(directory.path, wait=False)
    process.send_signal(signal.SIGCONT)
    assert "that process continues it" in process.stderr.readline()
    assert not directory.has_outcome
    assert not directory.policy.exists()
    held.confirm()
    held.release()  # without having done the run
    assert process.wait() == 0
    assert outcome(job) == expected


def test_a_stop_request_is_recorded_and_raises_when_checked():
    before = signal.getsignal(signal.SIGUSR1)
    with catch_stop_signals() as request:
        request.check()
        os.kill(os.getpid(), signal.SIGUSR1)
        request.check(grace_s=60)
        with pytest.raises(RunStoppedError):
            request.check()
        with pytest.raises(RunStoppedError), request.idle():
            raise AssertionError("it must not come here")
    assert signal.getsignal(signal.SIGUSR1) is before


def test_an_idle_process_stops_immediately():
    with catch_stop_signals() as request, pytest.raises(RunStoppedError), request.idle():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)


@pytest.mark.usefixtures("short_runs")
def test_a_stop_during_the_evaluation_ends_it_and_keeps_the_training(
    tmp_path, job_of, plan_of, monkeypatch
):
    evaluate, trained = Evaluator.evaluate_all, []

    def asked_meanwhile(self, asked):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, asked)

    def train(self, *arguments, original=BCLearner.train, **options):
        trained.append(self._batches)
        return original(self, *arguments, **options)

    monkeypatch.setattr(BCLearner, "train", train)
    runs = list(plan_of(["bc"], seeds=[0]))
    whole = job_of(tmp_path / "whole", runs=runs)
    assert worker.main([str(whole.write())]) == 0
    job = job_of(tmp_path / "stopped", runs=runs)
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "evaluate_all", asked_meanwhile)
        assert worker.main([str(job.write())]) == STOPPED
    status = json.loads((directory_of(job).path / "status.json").read_text())
    assert (status["state"], status["phase"]) == ("interrupted", "evaluate")
    assert not directory_of(job).has_outcome
    assert worker.main([str(job.write())]) == 0
    assert trained == [0, 0, runs[0].budget.amount]  # all of it was in the checkpoint
    one, other = (directory_of(each).read_result() for each in (whole, job))
    assert (one.raw_return, one.deterministic_return) == (
        other.raw_return, other.deterministic_return,
    )  # fmt: skip


@pytest.mark.usefixtures("short_runs")
def test_a_sweep_resumes_a_run_whose_worker_was_stopped_from_outside(
    tmp_path, plan_of, monkeypatch
):
    (tmp_path / "stopped_once.py").write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "from imitbench.bench import worker\n"
        "enter, mark = worker._RunAttempt.enter, Path(os.environ['MARK'])\n"
        "def stopped_once(self, phase):\n"
        "    if phase == 'train' and not mark.exists():\n"
        "        mark.touch()\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    enter(self, phase)\n"
        "worker._RunAttempt.enter = stopped_once\n"
        "raise SystemExit(worker.main())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    recorder = Recorder()
    result = run_sweeps(
        [plan_of()],
        LocalExecutor(JobWorker("stopped_once"), 1),
        out=tmp_path / "out",
        command="imitbench run",
        observer=recorder,
        options=RunOptions(),
    )
    assert (tmp_path / "mark").exists()
    assert (result.done, result.failed, result.left) == (2, [], 0)
    assert len([event for event in recorder.events if event[0] == "started"]) == 3


SWEEP = """
import sys, time
from pathlib import Path
from support.observer import Recorder
from support.plans import make_plan
from imitbench.bench.worker_death import JobWorker
from imitbench.bench.sweep import run_sweeps
from imitbench.executors.local import LocalExecutor
from imitbench.executors.options import RunOptions
class Announcer(Recorder):
    def started(self, runs):
        print("started", flush=True)
    def stopping(self):
        print("stopping", flush=True)
plan = make_plan(["random"], environment="Pendulum-v1", seeds=[0, 1], budget="quick")
outcome = run_sweeps([plan], LocalExecutor(JobWorker(sys.argv[1]), 1), out=Path(sys.argv[2]),
                    command="imitbench run", observer=Announcer(), options=RunOptions())
print("left", outcome.left)
"""


@pytest.fixture
def stubborn_sweep(tmp_path):
    """A sweep whose worker does nothing on a request to stop, and its output."""
    (tmp_path / "stubborn.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(os.environ['MARK'], 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    mark = tmp_path / "mark"
    paths = [str(tmp_path), str(worker.Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", SWEEP, "stubborn", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MARK": str(mark)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "started\n"
    while not mark.exists() or not mark.read_text():
        time.sleep(0.02)
    yield process, int(mark.read_text())
    process.kill()
    process.communicate()


def test_the_first_ctrl_c_waits_for_workers_and_the_second_does_not(
    stubborn_sweep,
):
    process, worker_pid = stubborn_sweep
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "left 2\n"
    deadline = time.monotonic() + 60
    while not has_ended(worker_pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_ended(pid):
    """Whether a process has ended, even if it has not been waited for."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
