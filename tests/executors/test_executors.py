"""Executors: every job ends in exactly one event, and killing leaves no process behind."""

import importlib
import time

import psutil
import pytest
from support.workers import ModuleWorker

from imitbench.errors import InputError
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.local import LocalExecutor
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class, resolve

# A fake worker with the same interface: one answer for each job.
ENTRY = """
import os, sys, time
from pathlib import Path

def main(arguments):
    for line in sys.stdin if arguments == ["-"] else arguments:
        job = Path(line.strip())
        with job.open() as stream:
            exec(stream.read())
        if arguments == ["-"]:
            print(job, flush=True)
    return 0

if __name__ == "__main__":
    main(sys.argv[1:])
"""

WORKER = ModuleWorker("stand_in_worker")


@pytest.fixture(autouse=True)
def entry(tmp_path, monkeypatch):
    (tmp_path / "stand_in_worker.py").write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def job(tmp_path):
    def make(name, program):
        path = tmp_path / f"{name}.job"
        path.write_text(program)
        return path

    return make


def finish(executor, count):
    events = []
    while sum(event.kind != "started" for event in events) < count:
        events += executor.poll(0.1)
    return events


@pytest.mark.parametrize("name", ["inline", "local"])
def test_each_job_starts_and_ends_once(tmp_path, job, name):
    executor = executor_class(name).from_options(RunOptions(jobs=2), WORKER, tmp_path)
    jobs = [job(str(i), f"Path({str(tmp_path / f'out{i}')!r}).touch()") for i in range(5)]
    executor.submit(jobs)
    events = finish(executor, 5)
    executor.close()
    for path in jobs:
        assert [event.kind for event in events if event.job == path] == ["started", "finished"]
    assert len(list(tmp_path.glob("out*"))) == 5
    assert executor.poll(0) == []


def test_a_worker_serves_many_jobs(tmp_path, job):
    executor = LocalExecutor(WORKER, 1)
    pids = tmp_path / "pids"
    note_pid = f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')"
    executor.submit([job(str(i), note_pid) for i in range(3)])
    finish(executor, 3)
    executor.close()
    assert len(set(pids.read_text().split())) == 1


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("raise ValueError('what went wrong')", "exited with code 1"),
        ("os.close(1); time.sleep(60)", "was killed by SIGKILL"),
    ],
    ids=["killed", "raised", "silent"],
)
def test_a_worker_that_crashes_is_replaced(job, program, how):
    executor = LocalExecutor(WORKER, 1)
    bad, good = job("bad", program), job("good", "")
    executor.submit([bad, good])
    events = finish(executor, 2)
    executor.close()
    [death] = [event for event in events if event.kind == "died"]
    assert death.job == bad
    assert how in death.detail
    if "what went wrong" in program:
        assert "what went wrong" in death.detail
    assert [event.job for event in events if event.kind == "finished"] == [good]


def test_killing_ends_all_processes_immediately(tmp_path, job):
    before = set(psutil.Process().children())
    executor = LocalExecutor(WORKER, 2)
    executor.submit([job(str(i), "time.sleep(600)") for i in range(4)])
    while len(set(psutil.Process().children()) - before) < 2:
        time.sleep(0.05)
    begin = time.monotonic()
    executor.kill()
    assert time.monotonic() - begin < 300
    assert set(psutil.Process().children()) <= before


def test_stopping_ends_running_jobs_and_drops_waiting_ones(tmp_path, job):
    executor = LocalExecutor(WORKER, 1)
    listening = tmp_path / "listening"
    running = job(
        "running",
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        f"Path({str(listening)!r}).touch()\n"
        "time.sleep(60)",
    )
    executor.submit([running, job("waiting", "")])
    while not listening.exists():
        time.sleep(0.02)
    executor.stop()
    events = [(event.job, event.kind) for event in executor.poll(0)]
    assert events == [(running, "started"), (running, "stopped")]
    executor.close()


@pytest.mark.parametrize("program", ["sys.exit(75)", "os.kill(os.getpid(), 15)"])
def test_a_worker_stopped_from_outside_is_distinguished_from_a_crashed_one(job, program):
    executor = LocalExecutor(WORKER, 1)
    executor.submit([job("a", program)])
    assert [event.kind for event in finish(executor, 1)] == ["started", "stopped"]
    executor.close()


def test_an_inline_worker_that_could_do_nothing_is_reported_as_died(job, monkeypatch):
    executor = InlineExecutor(WORKER)
    monkeypatch.setattr(importlib.import_module("stand_in_worker"), "main", lambda _: 2)
    executor.submit([job("one", "")])
    [death] = [event for event in finish(executor, 1) if event.kind != "started"]
    assert (death.kind, death.detail) == ("died", "worker exited with code 2")


def test_an_unknown_executor_is_reported():
    with pytest.raises(InputError, match="did you mean 'inline'"):
        executor_class("inlin")


@pytest.mark.parametrize(
    ("gpus", "expected"), [((), {""}), (("0", "1"), {"0", "1"}), (("5",), {"5"})]
)
def test_workers_use_gpus_in_turn_and_see_only_requested_ones(
    tmp_path, job, monkeypatch, gpus, expected
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    executor = LocalExecutor(WORKER, 2, gpus=gpus)
    # Each waits for the other, so that both workers have one.
    program = (
        "(job.parent / f'{job.stem}.gpu').write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "while len(list(job.parent.glob('*.gpu'))) < 2: time.sleep(0.02)"
    )
    executor.submit([job(name, program) for name in "ab"])
    finish(executor, 2)
    executor.close()
    assert {path.read_text() for path in tmp_path.glob("*.gpu")} == expected


def test_memory_of_the_current_process_is_not_limited():
    with pytest.raises(InputError, match="--max-mem"):
        resolve(RunOptions(executor="inline", max_memory=2**30))
