"""Tries files from outside in a process with limits, before this process reads them.

The process is a copy of this one that may use little memory and time, opens no network connection
and starts no program. What it does not survive, this process never reads. What it survives is then
read here by the same function; the files must not have changed in between.

Only commands do so. A program that imports this package may have threads, and a copy of it would
wait for them for ever; it reads files once, with the other limits.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import functools
import os
import platform
import resource
import select
import signal
import stat
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from imitbench.errors import InputError
from imitbench.untrusted import is_command
from imitbench.untrusted.limits import Limits, beyond, limits, variable
from imitbench.untrusted.messages import error_line

_FREE_BYTES = 16 * 2**20
_WALL_PER_CPU = 3  # other programs also use the processors
_BUNDLED = ("imitbench.cards.algorithms", "imitbench.cards.suites", "imitbench.published.bundled")
_READ, _REFUSED, _TOO_LARGE = b"R", b"E", b"M"
_LOOK_S = 0.02
# Numbers of system calls: socket, socketpair, connect, execve, execveat, ptrace, io_uring_setup.
_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 42, 59, 322, 101, 425)),
    "aarch64": (0xC00000B7, (198, 199, 203, 221, 281, 117, 425)),
}
_RESERVED = 2**30
_DIE_WITH_PARENT, _NO_NEW_PRIVILEGES, _FILTER = 1, 38, 22
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the call fails with EPERM
_T = TypeVar("_T")
_Stamp = tuple[tuple[str, int, int, int], ...]


def try_reading(read: Callable[[], object], path: Path) -> None:
    """Reads files in a process with limits, and drops the result.

    Args:
        read: Reads all that will be read later; must not write anything.
        path: File or folder that it reads, for messages and time.

    Raises:
        InputError: The reader refuses the files, fails in any other way, or needs more memory or
            time than the limits.
    """
    if is_bundled(path) or not is_command():
        return

    def read_and_drop() -> None:
        read()

    read_in_child(read_and_drop, path, type(None))


def checked(read: Callable[[], _T], path: Path, *, trusted: bool = False) -> _T:
    """Tries a reader in a process with limits, and then calls it here.

    Args:
        read: As for `try_reading`.
        path: As for `try_reading`.
        trusted: Whether the user trusts the file, so that it is only read here.

    Raises:
        InputError: As `try_reading`.
    """
    if not trusted:
        try_reading(read, path)
    return read() if trusted or is_bundled(path) else _guarded(read, path)


def read_in_child(read: Callable[[], _T], path: Path, result: type[_T]) -> _T:
    """Reads files in a process with limits, and returns a record.

    Args:
        read: Reads the files; must not write anything.
        path: File or folder that it reads, for messages and time.
        result: Type of the record, which is passed as JSON and validated.

    Returns:
        What `read` returns.

    Raises:
        InputError: As `try_reading`; or the record is larger than `child_output_bytes`.
    """
    if not sys.platform.startswith("linux"):  # no `fork` that is safe after imports
        return _guarded(read, path)
    bounds = limits()
    before, size = _survey(path)
    receiving, sending = os.pipe()
    _flush()
    with warnings.catch_warnings():
        # The copy starts no threads and uses none of those that are missing in it.
        warnings.simplefilter("ignore", DeprecationWarning)
        with _one_thread():
            child = os.fork()
    if not child:
        _run_child(lambda: TypeAdapter(result).dump_json(read()), path, sending, bounds, size)
    os.close(sending)
    try:
        answer = _receive(receiving, child, bounds, size)
    finally:
        os.close(receiving)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = _wait(child)
    if answer[:1] == _REFUSED:
        raise InputError(error_line(answer[1:].decode(errors="replace")))
    if answer[:1] != _READ:
        raise InputError(f"{path}: {_reason(answer, status, bounds, size)}")
    if _survey(path)[0] != before:
        raise InputError(f"{path}: was changed while it was read; try again")
    try:
        return TypeAdapter(result).validate_json(answer[1:])
    except ValidationError as error:
        raise InputError(f"{path}: its content cannot be passed on; it is damaged") from error


def is_bundled(path: Path) -> bool:
    """Whether a file ships with this package."""
    # Unlike `Path.resolve`, this accepts a link that leads to itself; the readers refuse it.
    resolved = Path(os.path.realpath(path))
    return any(resolved.is_relative_to(home) for home in _bundled())


@functools.cache
def _bundled() -> tuple[Path, ...]:
    return tuple(Path(str(resources.files(name))).resolve() for name in _BUNDLED)


def _guarded(read: Callable[[], _T], path: Path) -> _T:
    try:
        return read()
    except InputError:
        raise
    except Exception as error:  # readers of other projects may raise anything
        raise InputError(_failure(path, error)) from error


def _failure(path: Path, error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"{path}: {_too_much_memory()}"
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        why = f"{limits().child_files:,} open files ({variable('child_files')} changes this limit)"
        return f"{path}: cannot be read with {why}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: cannot be read ({error.strerror})"
    what = error_line(str(error), 200)
    return f"{path}: cannot be read ({type(error).__name__}: {what}); is it damaged?"


def _too_much_memory() -> str:
    return (
        f"needs more than {limits().child_bytes:,} bytes of memory; if you trust it, set "
        f"{variable('child_bytes')} higher"
    )


def _reason(answer: bytes, status: int, bounds: Limits, size: int) -> str:
    """Says why there is no answer."""
    if answer == _TOO_LARGE:
        return _too_much_memory()
    if len(answer) > bounds.child_output_bytes:
        return (
            f"has a content of more than {bounds.child_output_bytes:,} bytes; "
            f"{variable('child_output_bytes')} changes this limit"
        )
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number in (signal.SIGKILL, signal.SIGXCPU):
        return (
            f"takes more than {_seconds(bounds, size):,} seconds to read; if you trust it, set "
            f"{variable('child_seconds')} higher"
        )
    if number == signal.SIGABRT:  # libraries in C++ end so when there is no memory
        return _too_much_memory()
    name = signal.Signals(number).name if number else "an error"
    return f"cannot be read: the library that reads it ended with {name}; it is damaged"


def _run_child(
    read: Callable[[], bytes], path: Path, sending: int, bounds: Limits, size: int
) -> None:
    """Reads and answers in the copy; never returns."""
    try:
        _be_quiet()
        _enter_sandbox(bounds, _seconds(bounds, size), size)
        try:
            answer = _READ + read()
        except InputError as error:
            answer = _REFUSED + str(error).encode(errors="backslashreplace")
        except BaseException as error:
            answer = _REFUSED + _failure(path, error).encode(errors="backslashreplace")
        while answer:
            answer = answer[os.write(sending, answer) :]
    finally:
        os._exit(0)  # without the cleaning up that belongs to the original


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    faulthandler.disable()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.set_cpu_count(1)
        arrow.set_memory_pool(arrow.system_memory_pool())  # others reserve gigabytes


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Makes torch use one thread; its others do not exist in a copy, which would wait for them."""
    torch: Any = sys.modules.get("torch")
    parent = os.getpid()
    count = torch.get_num_threads() if hasattr(torch, "set_num_threads") else 1
    if count > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if count > 1 and os.getpid() == parent:
            torch.set_num_threads(count)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _receive(descriptor: int, child: int, bounds: Limits, size: int) -> bytes:
    """Returns what the copy sends until it ends, is too slow or too large, or sends too much."""
    parts: list[bytes] = []
    left = bounds.child_output_bytes + 1
    end = time.monotonic() + _seconds(bounds, size) * _WALL_PER_CPU
    most = _resident("self") + bounds.child_bytes + 4 * size
    while left > 0 and time.monotonic() < end:
        if not select.select([descriptor], [], [], _LOOK_S)[0]:
            if _resident(str(child)) > most:
                return _TOO_LARGE
            continue
        part = os.read(descriptor, min(left, 2**20))
        if not part:
            return b"".join(parts)
        parts.append(part)
        left -= len(part)
    return b"" if left > 0 else b"".join([b"?", *parts])


def _resident(process: str) -> int:
    """Returns the bytes of memory that a process uses."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, IndexError):  # it has ended
        return 0


def _wait(child: int) -> int:
    while True:
        try:
            return os.waitpid(child, 0)[1]
        except InterruptedError:
            continue
        except ChildProcessError:
            return 0


def _seconds(bounds: Limits, size: int) -> int:
    return max(1, round(bounds.child_seconds * max(1.0, size / _FREE_BYTES)))


def _survey(path: Path) -> tuple[_Stamp, int]:
    """Returns what changes when files do, and their bytes on the disk, without holes."""
    stamps, size = [], 0
    most = limits().entries
    for entry, found in _entries([str(path)]):
        stamps.append((entry, found.st_ino, found.st_size, found.st_mtime_ns))
        if stat.S_ISREG(found.st_mode):
            size += min(found.st_size, 512 * found.st_blocks)
        if len(stamps) > most:
            raise InputError(f"{path}: {beyond('entries', 'has more files')}")
    return tuple(sorted(stamps)), size


def _entries(waiting: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yields each file once; folders that links name are not entered."""
    paths = list(waiting)
    first = True
    while paths:
        path = paths.pop()
        try:
            found = os.stat(path)  # noqa: PTH116 (a path for each of 200,000 files is slow)
            yield path, found
            if stat.S_ISDIR(found.st_mode) and (first or not os.path.islink(path)):  # noqa: PTH114
                with os.scandir(path) as entries:
                    paths += [entry.path for entry in entries]
        except OSError as error:
            if first and error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        first = False


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _enter_sandbox(bounds: Limits, seconds: int, size: int = 0) -> None:
    """Limits this process for the rest of its life.

    Args:
        bounds: Memory, open files and bytes of an output file.
        seconds: Processor time.
        size: Bytes of the files to read, which may be mapped, and of which copies are made.

    Raises:
        OSError: The system refuses a limit.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
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
    for index, number in enumerate(numbers):
        steps.append(_step(0x15, number, len(numbers) - index, 0))
    steps += [_step(0x06, _ALLOW), _step(0x06, _REFUSE)]
    program = b"".join(steps)
    kept = ctypes.create_string_buffer(program, len(program))
    described = _Program(len(steps), ctypes.cast(kept, ctypes.c_char_p))
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(_FILTER, 2, ctypes.byref(described), 0, 0)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
