"""Limits that a process sets for itself: memory, time, files, and no network or programs."""

from __future__ import annotations

import ctypes
import platform
import resource
import struct
from pathlib import Path

from imitbench.untrusted.limits import Limits

# Numbers of system calls: socket, socketpair, connect, execve, execveat, ptrace, io_uring_setup.
_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 42, 59, 322, 101, 425)),
    "aarch64": (0xC00000B7, (198, 199, 203, 221, 281, 117, 425)),
}
_RESERVED = 2**30
_DIE_WITH_PARENT, _NO_NEW_PRIVILEGES, _FILTER = 1, 38, 22
_SIGKILL = 9
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the call fails with EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def enter_sandbox(bounds: Limits, seconds: int, size: int = 0) -> None:
    """Limits this process for the rest of its life.

    Args:
        bounds: Memory, open files and bytes of an output file.
        seconds: Processor time.
        size: Bytes of the files to read, which may be mapped, and of which copies are made.

    Raises:
        OSError: The system refuses a limit.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, _SIGKILL, 0, 0, 0)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # Who started this process watches the memory that is used; this also stops sudden requests.
    # Libraries reserve a gigabyte for what they may use later.
    _limit(resource.RLIMIT_AS, used + bounds.child_bytes + 4 * size + _RESERVED)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, seconds + int(spent.ru_utime + spent.ru_stime) + 1)
    _limit(resource.RLIMIT_NOFILE, bounds.child_files)
    _limit(resource.RLIMIT_FSIZE, bounds.child_output_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    _refuse_calls(libc)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _refuse_calls(libc: ctypes.CDLL) -> None:
    """Installs a filter of system calls; on other processors there is none."""
    known = _CALLS.get(platform.machine())
    if known is None:
        return
    architecture, numbers = known
    steps = [_step(0x20, 4), _step(0x15, architecture, 1, 0), _step(0x06, _REFUSE), _step(0x20, 0)]
    for place, number in enumerate(numbers):
        steps.append(_step(0x15, number, len(numbers) - place, 0))
    steps += [_step(0x06, _ALLOW), _step(0x06, _REFUSE)]
    program = b"".join(steps)
    kept = ctypes.create_string_buffer(program, len(program))
    described = _Program(len(steps), ctypes.cast(kept, ctypes.c_char_p))
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(_FILTER, 2, ctypes.byref(described), 0, 0)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
