"""Worker processes are started one after another until the job is done or stopped."""

import errno
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from support.workers import ModuleWorker

from imitbench.executors.local import LocalExecutor
from imitbench.executors.worker_process import WorkerProcess, memory_above

# A fake worker: jobs are programs; its crashes are recorded in a file next to the job.
ENTRY = """
import os, signal, sys, time
from pathlib import Path

def after_death(job, detail):
    with job.with_suffix(".deaths").open("a") as deaths:
        deaths.write(detail.splitlines()[0] + "\\n")
    return len(job.with_suffix(".deaths").read_text().splitlines()) < 3

if __name__ == "__main__":
    for line in sys.stdin:
        job = Path(line.strip())
        exec(job.read_text())
        print(job, flush=True)
"""


@pytest.fixture(autouse=True)
def entry(tmp_path, monkeypatch):
    (tmp_path / "stand_in_process.py").write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def job(tmp_path):
    def make(program, name="a"):
        path = tmp_path / f"{name}.job"
        path.write_text(program)
        return path

    return make


@pytest.fixture
def worker():
    made = []

    def make(**options):
        made.append(WorkerProcess(ModuleWorker("stand_in_process"), **options))
        return made[-1]

    yield make
    for process in made:
        process.send(signal.SIGKILL)
        process.close()


def deaths(job):
    return job.with_suffix(".deaths").read_text().splitlines()


def test_a_new_process_continues_the_job_while_runs_remain(job, worker):
    program = "if len(list(job.parent.glob('begun*'))) < 2:\n"
    program += "    (job.parent / f'begun{os.getpid()}').touch(); os.kill(os.getpid(), 11)"
    job = job(program)
    process = worker()
    assert process.serve(job).kind == "finished"
    assert deaths(job) == ["worker was killed by SIGSEGV"] * 2
    assert process.serve(job).kind == "finished"  # by the existing process


def test_a_signal_without_a_name_is_recorded_like_any_other(job, worker):
    number = signal.SIGRTMIN + 6  # real-time signals have no names but for the first and the last
    job = job(f"os.kill(os.getpid(), {number})")
    assert worker().serve(job).kind == "finished"
    assert deaths(job) == [f"worker was killed by signal {number}"] * 3


def test_it_ends_when_no_run_remains(job, worker):
    job = job("raise SystemExit(3)")
    assert worker().serve(job).kind == "finished"
    assert deaths(job) == ["worker exited with code 3"] * 3


def test_a_worker_may_request_a_new_process_without_a_recorded_crash(tmp_path, job, worker):
    job = job(
        "mark = job.with_suffix('.mark')\nif not mark.exists(): mark.touch(); raise SystemExit(76)"
    )
    assert worker().serve(job).kind == "finished"
    assert not job.with_suffix(".deaths").exists()


@pytest.mark.parametrize("fresh", [False, True])
def test_each_job_may_have_its_own_process(tmp_path, job, worker, fresh):
    process = worker(fresh=fresh)
    jobs = [job("open(job.with_suffix('.pid'), 'w').write(str(os.getpid()))", n) for n in "ab"]
    assert [process.serve(job).kind for job in jobs] == ["finished"] * 2
    pids = {job.with_suffix(".pid").read_text() for job in jobs}
    assert len(pids) == (2 if fresh else 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_no_process_is_started(job, worker, number):
    job, process = job("job.with_suffix('.on').touch(); time.sleep(600)"), worker()

    def send():
        while not job.with_suffix(".on").exists():
            time.sleep(0.02)
        process.send(number)

    thread = threading.Thread(target=send)
    thread.start()
    assert process.serve(job).kind == "stopped"
    thread.join()
    assert process.serve(job).kind == "stopped"
    assert not job.with_suffix(".deaths").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell of processes")
@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), 9)", "food = bytearray(os.urandom(1)) * 2**29; time.sleep(600)"],
    ids=["killed", "out of memory"],
)
def test_descendants_of_programs_do_not_outlive_a_crashed_worker(job, worker, end):
    """A program with its own session, whose child is not a child of the worker."""
    job = job(
        "import subprocess\n"
        "words = 'sleep 600 & echo $$ $! >> $0; wait'\n"
        "pids = job.with_suffix('.children')\n"
        "before = pids.read_text().split() if pids.exists() else []\n"
        "subprocess.Popen(['sh', '-c', words, str(pids)], start_new_session=True)\n"
        "while not pids.exists() or pids.read_text().split() == before: time.sleep(0.02)\n"
        f"{end}"
    )
    worker(max_memory=2**28).serve(job)
    started = [int(pid) for pid in job.with_suffix(".children").read_text().split()]
    assert len(started) == 6
    assert_dead(started)


def test_children_do_not_outlive_a_crashed_worker(tmp_path, job, worker):
    # A forked child holds the worker's end of the pipe, by which a crash is usually detected.
    job = job(
        "child = os.fork()\n"
        "if child == 0: time.sleep(600)\n"
        "with open(job.with_suffix('.children'), 'a') as file: file.write(f'{child}\\n')\n"
        "os.kill(os.getpid(), 9)"
    )
    worker().serve(job)
    children = [int(pid) for pid in job.with_suffix(".children").read_text().split()]
    assert len(children) == 3
    assert_dead(children)


def assert_dead(pids):
    deadline = time.monotonic() + 60
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_the_recorded_output_is_that_of_this_job(job, worker):
    process = worker()
    process.serve(job("os.write(2, b'of old')", "old"))
    path = job("os.write(2, b'of now'); os.kill(os.getpid(), 9)", "new")
    (path.with_suffix(".deaths")).mkdir()  # so that the crash cannot be recorded
    event = process.serve(path)
    assert event.kind == "died"
    assert "of now" in event.detail
    assert "of old" not in event.detail
    assert "could not be recorded" in event.detail


def test_threads_are_limited_and_the_environment_is_inherited(job, worker):
    path = job("import json; json.dump(dict(os.environ), open(job.with_suffix('.env'), 'w'))")
    worker(environment={"CUDA_VISIBLE_DEVICES": "3"}).serve(path)
    text = path.with_suffix(".env").read_text()
    for setting in ('"OMP_NUM_THREADS": "1"', '"MKL_NUM_THREADS": "1"',
                    '"CUDA_VISIBLE_DEVICES": "3"'):  # fmt: skip
        assert setting in text


# A process of its own: the system may take back pages of libraries from one that has loaded many.
FORKING = """
import os, sys, time
print("started", flush=True)
sys.stdin.readline()
food = bytearray(os.urandom(1)) * 2**27
child = os.fork()
if child == 0:
    time.sleep(600)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
os.kill(child, 9)
os.waitpid(child, 0)
"""


def test_memory_is_measured_with_children_and_shared_pages_count_once():
    with subprocess.Popen(
        [sys.executable, "-S", "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout.readline() == "started\n"
        before = memory_above(parent.pid, 1)
        print(file=parent.stdin, flush=True)
        child = int(parent.stdout.readline())
        used = memory_above(parent.pid, 2**20)
        assert 0.9 * 2**27 < used - before < 1.5 * 2**27
        assert memory_above(parent.pid, used + 2**28) is None
        print(file=parent.stdin, flush=True)
    assert memory_above(child, 1) is None  # gone


@pytest.mark.parametrize("part", ["subprocess.Popen", "selectors.DefaultSelector"])
def test_a_process_that_cannot_be_started_or_followed_is_told(worker, job, monkeypatch, part):
    def none_left(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    started = worker()
    with monkeypatch.context() as limit:
        limit.setattr(part, none_left)
        event = started.serve(job("pass"))
    assert event.kind == "died"
    assert event.detail == "no worker can be started: [Errno 24] Too many open files"
    assert started.serve(job("pass", "b")).kind == "finished"
    started.close()


def test_a_pool_whose_workers_cannot_be_started_does_not_wait_for_them(job, monkeypatch):
    def none_left(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", none_left)
    executor = LocalExecutor(ModuleWorker("stand_in_process"), 1)
    executor.submit([job("pass")])
    events = []
    for _ in range(600):
        events += executor.poll(0.1)
        if len(events) == 2:
            break
    executor.close()
    assert [event.kind for event in events] == ["started", "died"]
