"""A lease: a file that names the process that works on something, kept alive by heartbeats.

Leases exclude processes on any machines that share the file system, including network file
systems: they need only `link` to a free name, at which one of many processes succeeds. A process
that crashes leaves its lease. Processes on its machine see that it is gone; on other machines they
wait for heartbeats, timed by the clock of the file system, which all machines share.

A process that removes a lease, either its own or one whose heartbeats stopped, must hold the right
to remove that specific lease: a second lease, named after the first one's nonce. So no process
removes a new lease that replaced the one it inspected.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.records.runs import Record
from imitbench.untrusted.files import open_ordinary

LEASE_FILE = ".lease"
HEARTBEAT_S = 15.0
SILENT_BEATS = 8
"""A lease is silent when this many heartbeats are missing."""
WATCHED_BEATS = 2
"""Heartbeats for which a silent lease is watched before it is taken: its owner may have been
disconnected from the file system as long as the watcher, or the file system's clock been set."""

_DAMAGED_S = 5.0  # a lease gets its name when it is complete, where the file system has links
_LONGEST_BEAT_S = 60.0
_FIRST_POLL_S, _LONGEST_POLL_S = 0.02, 1.0
_held_here: set[str] = set()
"""Nonces of the leases that this process holds or is about to place."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LeaseLostError(Exception):
    """Another process took the lease, for example after a long suspension; the owner must stop."""


class LeaseOwner(Record):
    """The holder of a lease: the content of its file.

    Attributes:
        host: Name of the machine, for messages.
        machine: Identifies the machine since its boot, with its process-id namespace.
        pid: Id of the process.
        started: Start time of the process in clock ticks since boot; empty if unknown.
        nonce: Random text, unique for every lease.
        heartbeat_s: Seconds between two heartbeats.
    """

    host: str
    machine: str
    pid: int = Field(gt=0, lt=2**31)
    started: str
    nonce: str = Field(pattern=r"^[0-9a-f]{32}$")
    heartbeat_s: float = Field(gt=0, le=3600, allow_inf_nan=False)


@dataclass(frozen=True)
class _LeaseState:
    """State of a lease file at one time; without an owner if the file is damaged."""

    owner: LeaseOwner | None
    nonce: str
    beat_ns: int

    @property
    def heartbeat_s(self) -> float:
        return self.owner.heartbeat_s if self.owner else HEARTBEAT_S


class Lease:
    """A lease that this process holds; created by `acquire`."""

    def __init__(self, path: Path, owner: LeaseOwner) -> None:
        self._path = path
        self._owner = owner
        self._lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @property
    def nonce(self) -> str:
        """Unique text of this lease."""
        return self._owner.nonce

    def check(self) -> None:
        """Raises if the last heartbeat found the lease gone; reads no file.

        Raises:
            LeaseLostError: The lease was found to be gone.
        """
        if self._lost:
            raise LeaseLostError(f"{self._path}: another process took over, or it was deleted")

    def confirm(self) -> None:
        """Gives a heartbeat now and checks that this process still holds the lease.

        Raises:
            LeaseLostError: The process does not hold it any more.
            OSError: The file system cannot be read or written.
        """
        try:
            # In this order, because a lease that still exists after a heartbeat remains.
            os.utime(self._path)
            seen = _read(self._path)
        except FileNotFoundError:
            seen = None
        if seen is None or seen.nonce != self._owner.nonce:
            self._lost = True
        self.check()

    def release(self) -> None:
        """Ends the lease."""
        self._ended.set()
        self._thread.join()
        try:
            self._give_up()
        finally:
            _held_here.discard(self.nonce)

    def _give_up(self) -> None:
        with suppress(OSError, LeaseLostError):  # harmless: the lease ends with this process
            try:
                _remove(self._path, self._owner.nonce)
            except OSError:
                # The disk has no room for the right to remove it. Right after a heartbeat, no
                # other process is about to take over.
                self.confirm()
                self._path.unlink()

    def _beat(self) -> None:
        while not self._ended.wait(self._owner.heartbeat_s):
            try:
                self.confirm()
            except LeaseLostError:
                return
            except OSError:
                continue  # the file server may be down; the next heartbeat retries


def acquire(
    folder: Path,
    *,
    wait: bool,
    heartbeat_s: float = HEARTBEAT_S,
    while_waiting: Callable[[], None] = lambda: None,
) -> Lease | None:
    """Takes a lease.

    Args:
        folder: Folder that the lease is for; must exist. Lease files are named `.lease*`.
        wait: Whether to wait until the present owner releases the lease, exits or falls silent.
            Without waiting, it is taken over only if its owner is known to have exited.
        heartbeat_s: Seconds between the heartbeats of the new lease.
        while_waiting: Called about once a second; may raise to stop waiting.

    Returns:
        The lease; `None` if another process holds it.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        return _acquire(folder / LEASE_FILE, wait, heartbeat_s, while_waiting)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}), so no process can claim it; "
            "choose another folder or fix this one"
        ) from error


def _acquire(
    path: Path, wait: bool, heartbeat_s: float, while_waiting: Callable[[], None]
) -> Lease | None:
    poll_s = _FIRST_POLL_S
    watched: tuple[_LeaseState, str, float] | None = None
    while True:
        seen = _read(path)
        if seen is None:
            owner = _create_lease(path, heartbeat_s)
            if owner is not None:
                return Lease(path, owner)
            continue
        state = _judge(seen, path.parent)
        if state in ("silent", "unknown") and wait:
            if watched is None or watched[:2] != (seen, state):
                watched = seen, state, time.monotonic()
            if time.monotonic() - watched[2] >= _patience_s(seen, state):
                state = "abandoned"
        if state == "abandoned" and _remove(path, seen.nonce):
            continue
        if not wait:
            return None
        while_waiting()
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _LONGEST_POLL_S, seen.heartbeat_s)


def _patience_s(seen: _LeaseState, state: str) -> float:
    """Seconds of this process's own clock in which a lease may stay as it is."""
    if seen.owner is None:
        return _DAMAGED_S
    beat_s = min(seen.heartbeat_s, _LONGEST_BEAT_S)
    return beat_s * (WATCHED_BEATS if state == "silent" else SILENT_BEATS + WATCHED_BEATS)


def is_held(folder: Path, *, may_write: bool = True) -> bool:
    """Whether a process holds a folder's lease, as far as this process can see.

    Args:
        folder: Folder that the lease is for.
        may_write: Whether a file may exist in it for a moment, which shows the clock of its file
            system; otherwise the clock of this machine counts, which may differ.
    """
    try:
        seen = _read(folder / LEASE_FILE)
    except OSError:
        return False
    if seen is None:
        return False
    return _judge(seen, folder, may_write=may_write) in ("held", "unknown")


def is_needed(name: str, lease: Lease | None) -> bool:
    """Whether a file of the folder belongs to its current lease, and not to an earlier one.

    Args:
        name: Name of the file.
        lease: The lease that this process holds; `None` if it holds none.
    """
    # A process that holds the right to remove the current lease keeps that right.
    return name == LEASE_FILE or (
        lease is not None and name.startswith(f"{LEASE_FILE}.{lease.nonce}")
    )


def _read(path: Path) -> _LeaseState | None:
    """Reads a lease file; `None` if there is none."""
    try:
        # Opening makes a network file system query its server instead of its cache.
        with open_ordinary(path) as stream:
            text, stat = stream.read(4096), os.fstat(stream.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ESTALE:  # removed while it was opened
            return None
        raise
    try:
        owner = LeaseOwner.model_validate_json(text)
    except ValidationError:
        return _LeaseState(None, f"damaged-{stat.st_ino:x}-{stat.st_mtime_ns:x}", stat.st_mtime_ns)
    return _LeaseState(owner, owner.nonce, stat.st_mtime_ns)


def _create_lease(path: Path, heartbeat_s: float) -> LeaseOwner | None:
    """Creates a lease where none exists; returns `None` if another process was first."""
    pid = os.getpid()
    owner = LeaseOwner(
        host=socket.gethostname(),
        machine=_machine(),
        pid=pid,
        started=_start_of(pid) or "",
        nonce=uuid.uuid4().hex,
        heartbeat_s=heartbeat_s,
    )
    _held_here.add(owner.nonce)
    try:
        written = _write_owner(path, owner)
    except BaseException:
        _held_here.discard(owner.nonce)
        raise
    if not written:
        _held_here.discard(owner.nonce)
    return owner if written else None


def _write_owner(path: Path, owner: LeaseOwner) -> bool:
    text = owner.model_dump_json().encode()
    draft = path.with_name(f"{path.name}.{owner.nonce}.tmp")
    try:
        _write_new(draft, text)
        with suppress(FileExistsError, FileNotFoundError):
            _link(draft, path, text)
    finally:
        draft.unlink(missing_ok=True)
    # Ignores the result of `link`: over a network, its success may be reported as a failure.
    seen = _read(path)
    return seen is not None and seen.nonce == owner.nonce


def _link(draft: Path, path: Path, text: bytes) -> None:
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links, for example of a memory stick; it is not on a network.
        _write_new(path, text)


def _write_new(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text)


def _remove(path: Path, nonce: str) -> bool:
    """Removes the lease with this nonce, if it is still the current one.

    Returns:
        Whether it is gone; `False` while another process is about to remove it.
    """
    right = path.with_name(f"{LEASE_FILE}.{nonce}")
    owner = _create_lease(right, HEARTBEAT_S)
    if owner is None:
        other = _read(right)
        if other is not None and _judge(other, path.parent) in ("silent", "abandoned"):
            _remove(right, other.nonce)
        return False
    try:
        seen = _read(path)
        if seen is not None and seen.nonce == nonce:
            path.unlink()
    finally:
        right.unlink(missing_ok=True)
        _held_here.discard(owner.nonce)
    return True


def _judge(
    seen: _LeaseState, folder: Path, *, may_write: bool = True
) -> Literal["held", "unknown", "silent", "abandoned"]:
    """Says what is known about the owner; `unknown` if only its next heartbeat can tell."""
    owner = seen.owner
    if owner is not None and owner.machine == _machine():
        if owner.pid == os.getpid() and owner.started == (_start_of(owner.pid) or ""):
            # Its folder was away when this process released it, or found that it had lost it.
            return "held" if owner.nonce in _held_here else "abandoned"
        alive = _is_alive(owner.pid, owner.started)
        if alive is not None:
            # A lease of a running process is never taken over, even after a suspension.
            return "held" if alive else "abandoned"
    now_ns = _file_clock_ns(folder) if may_write else time.time_ns()
    silence_s = (now_ns - seen.beat_ns) / 1e9
    # A heartbeat from the future is one by a clock that was set, or by nobody.
    return "silent" if abs(silence_s) > SILENT_BEATS * seen.heartbeat_s else "unknown"


def _file_clock_ns(folder: Path) -> int:
    """Returns the time of the file system; that of this machine if nothing can be written."""
    probe = folder / f"{LEASE_FILE}.{uuid.uuid4().hex}.tmp"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return time.time_ns()
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)


def _is_alive(pid: int, started: str) -> bool | None:
    """Whether the process that started then is running on this machine; `None` if unknown."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:  # no process has such a number
        return False
    except PermissionError:
        pass
    found = _start_of(pid)
    if not started or found is None:  # processes of other users may be hidden
        return None
    return found == started


def _start_of(pid: int) -> str | None:
    """Returns when a process started, in clock ticks since boot; `None` if unknown.

    Unlike a time of day, this does not change when the clock is set. For a process that has
    exited but was not waited for, returns `ended`.
    """
    try:
        # The name in parentheses may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None
    state, threads, start = fields[0], int(fields[17]), fields[19]
    # The first thread may have ended while another one still runs.
    return "ended" if state in "ZX" and threads <= 1 else start


def process_mark() -> str:
    """Returns a text that identifies this process, for `is_gone`."""
    return f"{_machine()} {os.getpid()} {_start_of(os.getpid()) or ''}"


def is_gone(mark: str) -> bool:
    """Whether a process of this machine has ended; false if that is not known.

    Args:
        mark: What `process_mark` returned in that process.
    """
    machine, _, rest = mark.rpartition(" ")[0].rpartition(" ")
    started = mark.rpartition(" ")[2]
    if machine != _machine() or not started or not rest.isascii() or not rest.isdigit():
        return False
    return len(rest) < 10 and _is_alive(int(rest), started) is False


@cache
def _machine() -> str:
    """Identifies this machine since its boot, and the namespace of process ids."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()
