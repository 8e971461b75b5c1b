"""A crash affects only the current run, also in a pack, and its reason is recorded."""

import functools
import json
import textwrap
import threading
import time

import pytest
from support.evaluation import short_evaluation
from support.observer import Recorder

from imitbench.bench import training
from imitbench.bench.job import Job
from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker, is_settled
from imitbench.errors import InputError
from imitbench.executors.local import LocalExecutor
from imitbench.executors.options import RunOptions
from imitbench.records.runs import ReferenceScores
from imitbench.store.run_dir import RunDirectory

# The worker, with injected code that runs during training.
ENTRY = """
import ctypes, os, signal, sys, time
from imitbench.bench import stopping, training
from imitbench.bench.worker import main

train = training.train_learner

def act(budget, learner, checkpoints, run, directories):
    seed, attempt = run.spec.seed, run.attempt
    print("in training", flush=True)
    os.write(1, b"a library in C prints\\n")
    exec({program!r}, {{**globals(), **locals()}})
    return train(budget, learner, checkpoints, run, directories)

if __name__ == "__main__":
    stopping.HANG_S = 0.5
    training.train_learner = act
    sys.exit(main())
"""
KILL = "os.write(2, b'last words'); os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture(scope="module", autouse=True)
def _short_evaluation():
    with short_evaluation():
        yield


def sweep_by_worker(folder, plan, entry, *, max_memory=None, runs_per_job=1, **options):
    """Runs a sweep whose workers have another entry point."""
    (folder / "mischievous_worker.py").write_text(entry)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        patch.syspath_prepend(str(folder))
        return run_sweeps(
            [plan],
            LocalExecutor(JobWorker("mischievous_worker"), 1, max_memory=max_memory),
            out=folder / "out",
            command="imitbench run",
            observer=Recorder(),
            options=RunOptions(**options),
            runs_per_job=runs_per_job,
        )


def sweep_with_program(folder, plan, program, **options):
    """Runs a sweep whose workers run a program in training, which knows `seed` and `attempt`."""
    entry = ENTRY.format(program=textwrap.dedent(program))
    return sweep_by_worker(folder, plan, entry, **options)


@pytest.fixture
def sweep_by(tmp_path):
    return functools.partial(sweep_by_worker, tmp_path)


@pytest.fixture
def sweep_with(tmp_path):
    return functools.partial(sweep_with_program, tmp_path)


def directory_of(out, plan, seed):
    [spec] = [spec for spec in plan if spec.seed == seed]
    return RunDirectory.of(out, spec)


EAT = "import time; food = b'x' * (5 * 2**28); time.sleep(60)"
FATES = {
    1: KILL,
    2: "ctypes.string_at(0)",
    # A file's name may be any bytes; bytes that are not UTF-8 cannot be written unchanged.
    3: "name = os.fsdecode(b'caf\\xe9'); print(name); raise ValueError(name)",
    5: EAT,
    6: f"import subprocess; subprocess.run([sys.executable, '-c', {EAT!r}])",
}


@pytest.fixture(scope="module")
def fates(tmp_path_factory, plan_of):
    """A pack of runs, some of which end badly: the outcome, and each seed's folder."""
    folder, plan = tmp_path_factory.mktemp("fates"), plan_of(seeds=range(7))
    program = "\n".join(f"if seed == {seed}: {fate}" for seed, fate in FATES.items())
    outcome = sweep_with_program(folder, plan, program, max_memory=2**30, runs_per_job=7)
    assert not list((folder / "out" / ".jobs").iterdir())
    return outcome, [directory_of(folder / "out", plan, seed) for seed in range(7)]


def check_killed(directory, failure):
    assert (failure.phase, failure.error_type) == ("worker", "WorkerDied")
    assert failure.message == (
        "worker was killed by SIGKILL, as when memory runs out (in phase train)"
    )
    assert "last words" in failure.traceback  # output of the process
    assert "in training" in failure.traceback  # end of the run's log
    assert directory.read_failure() == failure
    assert json.loads((directory.path / "status.json").read_text())["state"] == "failed"


def of_fates(test):
    """Marks a test of these runs, whose workers crash one after another."""
    return pytest.mark.slow(pytest.mark.xdist_group("fates")(test))


@of_fates
def test_only_running_runs_are_affected_by_a_crash(fates):
    outcome, directories = fates
    assert (outcome.done, outcome.left) == (2, 0)
    failures = {spec.seed: failure for spec, failure in outcome.failed}
    assert failures.keys() == FATES.keys()
    check_killed(directories[1], failures[1])


@of_fates
def test_a_crash_in_c_prints_a_traceback(fates):
    failure = fates[1][2].read_failure()
    assert failure.message == "worker was killed by SIGSEGV (in phase train)"
    assert "in string_at" in failure.traceback


@of_fates
def test_a_failure_message_may_contain_invalid_unicode(fates):
    directory = fates[1][3]
    failure = directory.read_failure()
    assert "caf\\udce9" in directory.log.read_text()
    assert (failure.error_type, failure.message) == ("ValueError", "caf\\udce9")


@of_fates
def test_a_worker_above_the_memory_limit_is_killed_with_its_children(fates):
    messages = [fates[1][seed].read_failure().message for seed in (5, 6)]
    for message in messages:
        assert "GiB, more than --max-mem 1.0 GiB; give it more, or run fewer" in message


def test_a_failed_run_is_retried_until_its_last_attempt(tmp_path, plan_of, sweep, monkeypatch):
    plan, train = plan_of(seeds=[0, 1]), training.train_learner

    def unlucky(budget, learner, checkpoints, run, directories):
        print("in training")
        if run.spec.seed == 0 or run.attempt < 3:
            raise RuntimeError(f"bad luck {run.attempt}")
        return train(budget, learner, checkpoints, run, directories)

    monkeypatch.setattr(training, "train_learner", unlucky)
    outcome = sweep(plan, tmp_path / "out", retries=2, runs_per_job=2)
    assert (outcome.done, len(outcome.failed)) == (1, 1)
    unlucky, lucky = (directory_of(tmp_path / "out", plan, seed) for seed in (0, 1))
    assert unlucky.last_status().attempt == 3
    assert unlucky.log.read_text().count("in training") == 3
    log = lucky.log.read_text()
    assert log.index("bad luck 1") < log.index("attempt 1 of 3 failed") < log.index("bad luck 2")
    assert unlucky.failure_is_on_record
    assert not lucky.failure_is_on_record


@pytest.mark.slow
def test_runs_whose_workers_crash_are_retried_until_the_last_attempt(tmp_path, plan_of, sweep_with):
    plan = plan_of(seeds=[0, 1])
    program = f"if seed == 0 or attempt == 1: {KILL}"
    outcome = sweep_with(plan, program, retries=2, runs_per_job=1)
    assert (outcome.done, outcome.left) == (1, 0)
    [(_, failure)] = outcome.failed
    unlucky, lucky = (directory_of(tmp_path / "out", plan, seed) for seed in (0, 1))
    check_killed(unlucky, failure)
    for directory, attempts in ((unlucky, 3), (lucky, 2)):
        assert directory.last_status().attempt == attempts
        assert directory.log.read_text().count("in training") == attempts


@pytest.mark.slow
def test_a_timeout_saves_a_checkpoint_from_which_a_retry_resumes(tmp_path, plan_of, sweep_with):
    program = """
        train_on = learner.train
        def slow(budget, callback, checkpoint):
            def pause():
                time.sleep(0.25)
                checkpoint()
            return train_on(budget, callback, pause)
        learner.train = slow
    """
    plan = plan_of(["bc"], seeds=[0])
    outcome = sweep_with(plan, program, timeout_s=3.0, retries=20)
    assert outcome.done == 1
    log = directory_of(tmp_path / "out", plan, 0).log.read_text()
    assert "resumed after" in log


def test_a_timed_out_run_reports_how_to_resume(tmp_path, plan_of, sweep, monkeypatch):
    def endless(budget, learner, checkpoints, run, directories):
        while True:
            time.sleep(0.01)
            run.check()

    monkeypatch.setattr(training, "train_learner", endless)
    [(_, failure)] = sweep(plan_of(seeds=[0]), tmp_path / "out", timeout_s=0.5).failed
    assert failure.error_type == "TimedOut"
    assert "took longer than --timeout 0.5s, in phase" in failure.message
    assert "raise --timeout: the same command resumes" in failure.message


@pytest.mark.slow
def test_a_hanging_worker_is_killed_and_its_traceback_is_recorded(plan_of, sweep_with):
    hang = "ctypes.PyDLL(None).sleep(60)"  # in C, with the lock of the interpreter
    plan = plan_of(seeds=[0, 1])
    outcome = sweep_with(plan, f"if seed == 0: {hang}", timeout_s=4.0, runs_per_job=2)
    assert outcome.done == 1
    [(_, failure)] = outcome.failed
    assert (failure.phase, failure.error_type) == ("worker", "TimedOut")
    assert "took longer than --timeout 4s, did not answer" in failure.message
    assert "in act" in failure.traceback


@pytest.fixture
def job(tmp_path, plan_of):
    def make(**changes):
        job = Job(
            out=str(tmp_path / "out"),
            source_root=str(tmp_path),
            runs=list(plan_of(seeds=[0, 1])),
            references=ReferenceScores(random=-1000.0, expert=-150.0, version="1"),
            command="imitbench run",
            **changes,
        )
        return job, job.write()

    return make


def test_a_worker_that_crashes_at_its_start_uses_up_one_run_per_crash(tmp_path, job):
    job, path = job(retries=1)
    calls = [
        JobWorker().after_death(path, "worker exited with code 1\nno module") for _ in range(4)
    ]
    assert calls == [True, True, True, False]
    assert all(is_settled(job, run) for run in job.runs)
    failures = [RunDirectory.of(tmp_path / "out", run).read_failure() for run in job.runs]
    assert {f.message for f in failures} == {"worker exited with code 1 (in phase start)"}


def test_runs_of_other_processes_are_not_blamed(tmp_path, job):
    job, path = job()
    directories = [RunDirectory.of(tmp_path / "out", run) for run in job.runs]
    with directories[0].claim(wait=False):
        assert JobWorker().after_death(path, "worker died") is True  # the second run was blamed
        assert JobWorker().after_death(path, "worker died") is False
    assert [directory.has_failed for directory in directories] == [False, True]


# A worker that is killed the first time that it waits for another process.
WAITING = """
import os, signal, sys
from pathlib import Path
from imitbench.bench import worker
from imitbench.bench.worker import main

do = worker._claim_and_run

def killed_while_it_waits(*arguments, wait, **options):
    if wait:
        with open(os.environ["WAITS"], "a") as stream:
            print("waits", file=stream)
        if Path(os.environ["WAITS"]).read_text().count("waits") < 2:
            os.kill(os.getpid(), signal.SIGKILL)
    return do(*arguments, wait=wait, **options)

if __name__ == "__main__":
    worker._claim_and_run = killed_while_it_waits
    sys.exit(main())
"""


def test_a_worker_killed_while_it_waits_for_another_process_is_replaced(
    tmp_path, plan_of, sweep_by, monkeypatch
):
    waits = tmp_path / "waits"
    monkeypatch.setenv("WAITS", str(waits))
    plan = plan_of(seeds=[0])
    others = directory_of(tmp_path / "out", plan, 0)
    claimed = threading.Event()

    def hold_until_it_waits_again():
        with others.claim(wait=True):
            claimed.set()
            while not waits.exists() or waits.read_text().count("waits") < 2:
                time.sleep(0.05)

    threading.Thread(target=hold_until_it_waits_again, daemon=True).start()
    assert claimed.wait(60)
    outcome = sweep_by(plan, WAITING)
    assert (outcome.done, outcome.failed, outcome.left) == (1, [], 0)
    assert others.is_done


def test_a_forced_run_that_crashes_at_its_start_keeps_its_old_result(
    tmp_path, plan_of, sweep, sweep_by
):
    plan = plan_of(seeds=[0])
    sweep(plan, tmp_path / "out")
    outcome = sweep_by(plan, "raise SystemExit('broken')", force=True)
    [(_, failure)] = outcome.failed
    assert "broken" in failure.traceback
    assert directory_of(tmp_path / "out", plan, 0).is_done


def test_a_crash_that_cannot_be_recorded_ends_the_sweep(plan_of, sweep_with):
    program = f"import shutil; shutil.rmtree(run.job.out); open(run.job.out, 'w'); {KILL}"
    with pytest.raises(InputError, match="worker was killed by SIGKILL"):
        sweep_with(plan_of(), program)
