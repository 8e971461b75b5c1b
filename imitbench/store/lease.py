"""A lease: a file that says which process works on something, kept alive by heartbeats.

It excludes processes on any machines that share the file system, network file systems included:
it asks for nothing but `link` onto a name that is free, which one of many can do. A process that
dies leaves its lease behind. Others on its machine see that it is gone; elsewhere they wait for
heartbeats, counted by the clock of the file system, which all machines share.

Whoever removes a lease, be it its owner or another after it fell silent, must hold the right to
remove that very lease: a second lease, named after the first one's nonce. So nobody removes a
lease that took the place of the one that was looked at.
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

LEASE_FILE = ".lease"
HEARTBEAT_S = 15.0
SILENT_BEATS = 8
"""A lease is silent when this many heartbeats are missing."""
WATCHED_BEATS = 2
"""For so many heartbeats a silent lease is watched before it is taken: its owner may have been
cut off from the file system as long as whoever watches, or the file system's clock been set."""

_FIRST_POLL_S, _LONGEST_POLL_S = 0.02, 1.0
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LeaseLostError(Exception):
    """Another process took the lease, as after a long suspension; its owner must stop."""


class LeaseOwner(Record):
    """Who holds a lease: what its file contains.

    Attributes:
        host: Name of the machine, for people.
        machine: The machine since it was started, with its space of process numbers.
        pid: Number of the process.
        started: When the process started, in the machine's own terms; empty where unknown.
        nonce: Different for every lease.
        heartbeat_s: Seconds between two heartbeats.
    """

    host: str
    machine: str
    pid: int = Field(gt=0)
    started: str
    nonce: str = Field(pattern=r"^[0-9a-f]{32}$")
    heartbeat_s: float = Field(gt=0, le=3600)


@dataclass(frozen=True)
class _LeaseState:
    """A lease file at some moment; without an owner when it is damaged."""

    owner: LeaseOwner | None
    nonce: str
    beat_ns: int

    @property
    def heartbeat_s(self) -> float:
        return self.owner.heartbeat_s if self.owner else HEARTBEAT_S


class Lease:
    """A lease that this process holds, made by `acquire`."""

    def __init__(self, path: Path, owner: LeaseOwner) -> None:
        self._path = path
        self._owner = owner
        self._lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @property
    def nonce(self) -> str:
        """Tells this lease from all others."""
        return self._owner.nonce

    def check(self) -> None:
        """Says at no cost whether the last heartbeat found the lease gone.

        Raises:
            LeaseLostError: It did.
        """
        if self._lost:
            raise LeaseLostError(f"{self._path}: another process took over, or it was deleted")

    def confirm(self) -> None:
        """Gives a heartbeat now and makes sure that the lease is still this process's own.

        Raises:
            LeaseLostError: It is not.
            OSError: The file system does not say.
        """
        try:
            # In this order: a lease that is still there after a heartbeat stays.
            os.utime(self._path)
            seen = _look(self._path)
        except FileNotFoundError:
            seen = None
        if seen is None or seen.nonce != self._owner.nonce:
            self._lost = True
        self.check()

    def release(self) -> None:
        """Gives the lease back."""
        self._ended.set()
        self._thread.join()
        with suppress(OSError, LeaseLostError):  # nothing is lost: it ends with this process
            try:
                _remove(self._path, self._owner.nonce)
            except OSError:
                # No room for the right to remove it. Right after a heartbeat, nobody is close to
                # taking it over.
                self.confirm()
                self._path.unlink()

    def _beat(self) -> None:
        while not self._ended.wait(self._owner.heartbeat_s):
            try:
                self.confirm()
            except LeaseLostError:
                return
            except OSError:
                continue  # a server that is away; the next heartbeat tells


def acquire(
    folder: Path,
    *,
    wait: bool,
    heartbeat_s: float = HEARTBEAT_S,
    while_waiting: Callable[[], None] = lambda: None,
) -> Lease | None:
    """Takes a lease.

    Args:
        folder: What the lease is for; must exist. Its files are named `.lease*`.
        wait: Whether to wait until the present owner lets go, dies or falls silent. Without,
            only a lease whose owner is known to be dead is taken over.
        heartbeat_s: Seconds between the heartbeats of the new lease.
        while_waiting: Called about once a second; may raise to give up.

    Returns:
        The lease; `None` if it is another process's.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        return _acquire(folder / LEASE_FILE, wait, heartbeat_s, while_waiting)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}), so no process can claim it; "
            "choose another folder or mend this one"
        ) from error


def _acquire(
    path: Path, wait: bool, heartbeat_s: float, while_waiting: Callable[[], None]
) -> Lease | None:
    poll_s = _FIRST_POLL_S
    watched: tuple[_LeaseState, float] | None = None
    while True:
        seen = _look(path)
        if seen is None:
            owner = _place(path, heartbeat_s)
            if owner is not None:
                return Lease(path, owner)
            continue
        state = _judge(seen, path.parent)
        if state == "silent" and wait:
            if watched is None or watched[0] != seen:
                watched = seen, time.monotonic()
            if time.monotonic() - watched[1] >= WATCHED_BEATS * seen.heartbeat_s:
                state = "abandoned"
        if state == "abandoned" and _remove(path, seen.nonce):
            continue
        if not wait:
            return None
        while_waiting()
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _LONGEST_POLL_S, seen.heartbeat_s)


def is_held(folder: Path) -> bool:
    """Whether some process holds a folder's lease, as far as can be seen from here."""
    try:
        seen = _look(folder / LEASE_FILE)
    except OSError:
        return False
    return seen is not None and _judge(seen, folder) == "held"


def is_needed(name: str, lease: Lease | None) -> bool:
    """Whether a file of the folder belongs to the lease on it, and not to one that is gone.

    Args:
        name: Name of the file.
        lease: The lease that this process holds, if it does.
    """
    # Whoever holds the right to remove the present lease keeps it.
    return name == LEASE_FILE or (
        lease is not None and name.startswith(f"{LEASE_FILE}.{lease.nonce}")
    )


def _look(path: Path) -> _LeaseState | None:
    """Reads a lease file; `None` if there is none."""
    try:
        # Opening makes a network file system ask its server instead of its memory.
        with path.open("rb") as stream:
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


def _place(path: Path, heartbeat_s: float) -> LeaseOwner | None:
    """Puts a lease where none is; `None` if another process was first."""
    pid = os.getpid()
    owner = LeaseOwner(
        host=socket.gethostname(),
        machine=_machine(),
        pid=pid,
        started=_start_of(pid) or "",
        nonce=uuid.uuid4().hex,
        heartbeat_s=heartbeat_s,
    )
    text = owner.model_dump_json().encode()
    draft = path.with_name(f"{path.name}.{owner.nonce}.tmp")
    try:
        _create(draft, text)
        with suppress(FileExistsError, FileNotFoundError):
            _link(draft, path, text)
    finally:
        draft.unlink(missing_ok=True)
    # Whatever `link` says: over a network, its success may be reported as a failure.
    seen = _look(path)
    return owner if seen is not None and seen.nonce == owner.nonce else None


def _link(draft: Path, path: Path, text: bytes) -> None:
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links, such as a memory stick's; it is no network's.
        _create(path, text)


def _create(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text)


def _remove(path: Path, nonce: str) -> bool:
    """Removes the lease with this nonce, if it is still the one that is there.

    Returns:
        Whether it is gone; `False` while another process is about to remove it.
    """
    right = path.with_name(f"{LEASE_FILE}.{nonce}")
    owner = _place(right, HEARTBEAT_S)
    if owner is None:
        other = _look(right)
        if other is not None and _judge(other, path.parent) != "held":
            _remove(right, other.nonce)
        return False
    try:
        seen = _look(path)
        if seen is not None and seen.nonce == nonce:
            path.unlink()
    finally:
        right.unlink(missing_ok=True)
    return True


def _judge(seen: _LeaseState, folder: Path) -> Literal["held", "silent", "abandoned"]:
    owner = seen.owner
    if owner is not None and owner.machine == _machine():
        alive = _is_alive(owner)
        if alive is not None:
            # A process that lives is not overtaken, even if it was stopped for a while.
            return "held" if alive else "abandoned"
    silence_s = (_file_clock_ns(folder) - seen.beat_ns) / 1e9
    return "silent" if silence_s > SILENT_BEATS * seen.heartbeat_s else "held"


def _file_clock_ns(folder: Path) -> int:
    """What time the file system has; this machine's own, where nothing may be written."""
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


def _is_alive(owner: LeaseOwner) -> bool | None:
    """Whether a process of this machine lives; `None` if that cannot be told."""
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    started = _start_of(owner.pid)
    if not owner.started or started is None:
        return None
    return started == owner.started


def _start_of(pid: int) -> str | None:
    """When a process started, in clock ticks since the machine did; `None` if unknown.

    Unlike a time of day, that does not change when the clock is set. A process that has ended
    but was not waited for has an end instead.
    """
    try:
        # The name in parentheses may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None
    state, threads, start = fields[0], int(fields[17]), fields[19]
    # The first thread may have ended while another one is still about to.
    return "ended" if state in "ZX" and threads <= 1 else start


@cache
def _machine() -> str:
    """Names this machine since its start, and the space of process numbers."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()
