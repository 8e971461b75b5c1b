"""Leases: held by one process, kept by heartbeats, taken over by exactly one after a crash."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from types import SimpleNamespace

import pytest

from imitbench.errors import InputError
from imitbench.store import lease
from imitbench.store.lease import LEASE_FILE, LeaseLostError, acquire, is_held, is_needed

HOLDER = """
import sys, time
from pathlib import Path
from imitbench.store.lease import acquire
held = acquire(Path(sys.argv[1]), wait=False, heartbeat_s=float(sys.argv[2]))
print(held is not None, flush=True)
time.sleep(60)
"""

# In each of many rounds: take the lease, enter the critical section, leave it.
RACER = """
import os, sys
from pathlib import Path
from imitbench.store.lease import acquire
folder, inside, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    while (held := acquire(folder, wait=False)) is None:
        pass
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
    os.sched_yield()
    inside.unlink()
    held.release()
print("done")
"""

# Forks processes that take and release the lease, and kills each at a random time. A kernel lock,
# which ends with its process, detects whether two ever held the lease.
KILLER = """
import fcntl, os, random, signal, sys, time
from pathlib import Path
from imitbench.store.lease import acquire
folder, inside, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def go_in_and_out():
    while True:
        held = acquire(folder, wait=False)
        if held is not None:
            descriptor = os.open(inside, os.O_CREAT | os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os._exit(7)
            os.sched_yield()
            os.close(descriptor)
            held.release()

def fork():
    pid = os.fork()
    if pid == 0:
        try:
            go_in_and_out()
        finally:
            os._exit(8)
    return pid

rng = random.Random(0)
children = [fork() for _ in range(3)]
codes = set()
for _ in range(kills):
    time.sleep(rng.uniform(0.0, 0.01))
    victim = children.pop(0)
    os.kill(victim, signal.SIGKILL)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]))
    children.append(fork())
for child in children:
    os.kill(child, signal.SIGKILL)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""

# All find a crashed owner's lease at the same time; the one that takes it crashes, too.
HEIR = """
import os, sys, time
from pathlib import Path
from imitbench.store.lease import acquire
print("ready", flush=True)
sys.stdin.readline()
held = acquire(Path(sys.argv[1]), wait=False)
print(held is not None, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def start():
    processes = []

    def run(program, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def edit(folder, *, silent_s=0.0, **changes):
    """Changes a lease as if another machine had written it."""
    path = folder / LEASE_FILE
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    then = time.time() - silent_s
    os.utime(path, (then, then))


def foreign(folder, **changes):
    """A lease of another machine, whose heartbeats have stopped."""
    held = acquire(folder, wait=False, heartbeat_s=3600)
    edit(folder, machine="elsewhere", heartbeat_s=0.05, **changes)
    return held


def folder(parent, name):
    (parent / name).mkdir()
    return parent / name


def test_a_lease_is_held_by_one_until_it_is_released(tmp_path):
    first = acquire(tmp_path, wait=False)
    assert acquire(tmp_path, wait=False) is None
    assert is_held(tmp_path)
    first.confirm()
    first.release()
    assert not is_held(tmp_path)
    second = acquire(tmp_path, wait=False)
    second.check()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_two_processes_never_hold_the_lease_at_the_same_time(tmp_path, start):
    folder = tmp_path / "run"
    folder.mkdir()
    racers = [start(RACER, folder, tmp_path / "inside", 50) for _ in range(2)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert [racer.communicate()[0] for racer in racers] == ["done\n", "done\n"]
    assert list(folder.iterdir()) == []


def test_processes_killed_at_any_time_neither_share_nor_block_the_lease(tmp_path, start):
    folder = tmp_path / "run"
    folder.mkdir()
    killer = start(KILLER, folder, tmp_path / "inside", 40)
    assert killer.communicate()[0] == "{-9}\n"
    acquire(folder, wait=True).release()
    assert not (folder / LEASE_FILE).exists()


@pytest.mark.parametrize("inherited", [False, True])
def test_threads_exclude_each_other_too(tmp_path, inherited):
    if inherited:
        foreign(tmp_path)
    inside, most = [], []

    def race():
        for _ in range(20):
            held = acquire(tmp_path, wait=True)
            inside.append(0)
            time.sleep(0.001)
            most.append(len(inside))
            inside.pop()
            held.release()

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 80


def test_the_lease_of_a_killed_local_owner_is_taken_immediately(tmp_path, start):
    holder = start(HOLDER, tmp_path, 3600)
    assert holder.stdout.readline() == "True\n"
    assert acquire(tmp_path, wait=False) is None
    holder.kill()
    os.waitid(
        os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT
    )  # exited, but still in the process table
    assert not is_held(tmp_path)
    acquire(tmp_path, wait=False).release()


def test_a_reused_process_id_is_detected(tmp_path):
    held = acquire(tmp_path, wait=False)
    edit(tmp_path, started="1")
    assert not is_held(tmp_path)
    acquire(tmp_path, wait=False).release()
    with pytest.raises(LeaseLostError):
        held.confirm()


def test_exactly_one_of_many_processes_takes_an_abandoned_lease(tmp_path, start):
    holder = start(HOLDER, tmp_path, 15)
    assert holder.stdout.readline() == "True\n"
    heirs = [start(HEIR, tmp_path) for _ in range(3)]
    for heir in heirs:
        assert heir.stdout.readline() == "ready\n"
    holder.kill()
    holder.wait()
    for heir in heirs:
        heir.stdin.write("go\n")
        heir.stdin.flush()
    answers = [heir.stdout.readline() for heir in heirs]
    assert sorted(answers) == ["False\n"] * 2 + ["True\n"]


def test_the_lease_of_a_suspended_local_owner_is_not_taken(tmp_path, start):
    holder = start(HOLDER, tmp_path, 0.02)
    assert holder.stdout.readline() == "True\n"
    os.kill(holder.pid, signal.SIGSTOP)
    time.sleep(0.5)
    assert is_held(tmp_path)
    assert acquire(tmp_path, wait=False) is None


def test_the_lease_of_a_silent_remote_owner_is_taken(tmp_path):
    held = foreign(tmp_path)
    assert is_held(tmp_path)
    successor = acquire(tmp_path, wait=True, heartbeat_s=3600)
    assert is_held(tmp_path)
    # The former owner wakes up.
    with pytest.raises(LeaseLostError, match="took over"):
        held.confirm()
    with pytest.raises(LeaseLostError):
        held.check()
    held.release()
    successor.confirm()
    successor.release()
    assert list(tmp_path.iterdir()) == []


def test_without_waiting_the_lease_of_a_silent_remote_owner_is_not_taken(tmp_path):
    foreign(tmp_path)
    edit(tmp_path, silent_s=3600)
    assert not is_held(tmp_path)
    assert acquire(tmp_path, wait=False) is None


class GivenUpError(Exception):
    """A waiting process stops to wait."""


def test_a_remote_owner_with_heartbeats_keeps_its_lease(tmp_path, monkeypatch):
    """Even if the file system's clock was set forward, so that each heartbeat seems old."""
    held = foreign(tmp_path)
    path = tmp_path / LEASE_FILE
    beats, now = iter(range(100)), [0.0]

    def sleep(_):
        now[0] += 0.05  # one heartbeat

    def beat():
        number = next(beats, None)
        if number is None:
            raise GivenUpError
        then = time.time_ns() - 3600 * 10**9 + number
        os.utime(path, ns=(then, then))

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, time_ns=time.time_ns)
    monkeypatch.setattr(lease, "time", clock)
    with pytest.raises(GivenUpError):
        acquire(tmp_path, wait=True, while_waiting=beat)
    held.confirm()
    os.utime(path, (0, 0))
    acquire(tmp_path, wait=True).release()


@pytest.mark.parametrize("off_s", [-7200.0, 7200.0])
def test_the_local_clock_does_not_matter(tmp_path, monkeypatch, off_s):
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + off_s)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(off_s * 1e9))
    held = acquire(tmp_path, wait=False)
    edit(tmp_path, machine="elsewhere")
    held.confirm()  # the edit set the local time
    assert is_held(tmp_path)
    assert acquire(tmp_path, wait=False) is None
    time.sleep(0.1)
    edit(tmp_path, machine="elsewhere", heartbeat_s=0.001)
    os.utime(tmp_path / LEASE_FILE)
    time.sleep(0.1)
    assert not is_held(tmp_path)


def test_heartbeats_are_automatic_and_detect_a_lost_lease(tmp_path):
    held = acquire(tmp_path, wait=False, heartbeat_s=0.02)
    path = tmp_path / LEASE_FILE
    os.utime(path, (0, 0))
    while path.stat().st_mtime == 0:
        time.sleep(0.01)
    path.unlink()
    with pytest.raises(LeaseLostError):
        while True:
            held.check()
            time.sleep(0.01)


def test_a_releasing_owner_does_not_remove_the_lease_of_its_successor(tmp_path):
    held = foreign(tmp_path)
    successor = acquire(tmp_path, wait=True)
    held.release()
    successor.confirm()
    successor.release()


def test_a_lease_is_released_even_on_a_full_disk(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    held, overtaken = (acquire(folder(tmp_path, name), wait=False) for name in ("own", "lost"))
    (tmp_path / "lost" / LEASE_FILE).unlink()
    successor = acquire(tmp_path / "lost", wait=False)
    monkeypatch.setattr(lease, "_write_new", full)
    held.release()
    overtaken.release()
    assert not is_held(tmp_path / "own")
    successor.confirm()


def test_a_lease_released_while_its_folder_was_away_does_not_block_its_own_process(tmp_path):
    (tmp_path / "here").mkdir()
    held = acquire(tmp_path / "here", wait=False)
    (tmp_path / "here").rename(tmp_path / "away")
    held.release()
    (tmp_path / "away").rename(tmp_path / "here")
    assert (tmp_path / "here" / LEASE_FILE).exists()
    again = acquire(tmp_path / "here", wait=False)
    assert again.nonce != held.nonce
    assert acquire(tmp_path / "here", wait=False) is None
    again.release()


def test_a_removal_right_of_a_crashed_process_does_not_block_the_lease(tmp_path, start):
    """A process took the right to remove a crashed one's lease, and crashed itself."""
    holder = start(HOLDER, tmp_path, 15)
    assert holder.stdout.readline() == "True\n"
    holder.kill()
    holder.wait()
    content = (tmp_path / LEASE_FILE).read_text()
    dead = json.loads(content) | {"nonce": uuid.uuid4().hex}
    right = tmp_path / f"{LEASE_FILE}.{json.loads(content)['nonce']}"
    right.write_text(json.dumps(dead))
    acquire(tmp_path, wait=True).release()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_lease_counts_until_it_is_old(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(lease, "_DAMAGED_S", 0.5)
    path = tmp_path / LEASE_FILE
    path.write_bytes(b"\x00" * 100)
    assert is_held(tmp_path)
    acquire(tmp_path, wait=True).release()
    path.write_text('{"nonce": "../../etc"}')
    acquire(tmp_path, wait=True).release()
    assert list(tmp_path.iterdir()) == []


def test_leases_work_on_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    held = acquire(tmp_path, wait=False)
    assert acquire(tmp_path, wait=False) is None
    held.confirm()
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_lease_files_of_crashed_processes_are_not_needed(tmp_path):
    held = acquire(tmp_path, wait=False)
    assert is_needed(".lease", held)
    assert is_needed(f".lease.{held.nonce}", held)
    assert not is_needed(f".lease.{'0' * 32}.tmp", held)
    assert not is_needed("policy", held)
    held.release()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    if os.geteuid() == 0:
        folder = "/proc/self"  # where not even root may write
    else:
        folder = tmp_path
        tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"cannot be written \(.*\).* choose another folder"):
        acquire(type(tmp_path)(folder), wait=False)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"{", b"\xff" * 5000, b'{"pid": 1000000000000000000}'],
)
@pytest.mark.parametrize("days", [-1, 0, 1])
def test_a_lease_of_garbage_is_taken_over(tmp_path, monkeypatch, content, days):
    monkeypatch.setattr(lease, "_DAMAGED_S", 0.05)
    path = tmp_path / LEASE_FILE
    path.write_bytes(content)
    then = time.time() + days * 86_400
    os.utime(path, (then, then))
    acquire(tmp_path, wait=True).release()


@pytest.mark.parametrize(
    "changes", [{"pid": 10**18}, {"heartbeat_s": float("nan")}, {"heartbeat_s": 1e300}]
)
def test_a_lease_of_absurd_numbers_is_taken_over(tmp_path, monkeypatch, changes):
    monkeypatch.setattr(lease, "_DAMAGED_S", 0.05)
    held = acquire(tmp_path, wait=False)
    edit(tmp_path, **changes)
    acquire(tmp_path, wait=True).release()
    held.release()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_heartbeat_of_another_day_is_watched_for_a_moment(tmp_path, days):
    held = foreign(tmp_path, silent_s=-days * 86_400.0)
    acquire(tmp_path, wait=True).release()
    held.release()


def test_a_lease_that_never_beats_again_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "_LONGEST_BEAT_S", 0.01)
    held = acquire(tmp_path, wait=False, heartbeat_s=3600)
    edit(tmp_path, machine="elsewhere")  # just now, with an hour until the next one
    assert acquire(tmp_path, wait=False) is None
    acquire(tmp_path, wait=True).release()
    held.release()


def test_processes_are_known_by_their_marks(start, monkeypatch):
    process = start("from imitbench.store.lease import process_mark as m; print(m()); input()")
    mark = process.stdout.readline().strip("\n")
    assert not lease.is_gone(mark)
    with monkeypatch.context() as other_user:  # some systems hide the processes of others
        other_user.setattr(lease, "_start_of", lambda _: None)
        assert not lease.is_gone(mark)
    process.communicate("\n")
    assert lease.is_gone(mark)
    assert not lease.is_gone(lease.process_mark())
    for other in ("", "x", "elsewhere 1 2", mark.replace(mark.split()[-2], "9" * 30)):
        assert not lease.is_gone(other)
