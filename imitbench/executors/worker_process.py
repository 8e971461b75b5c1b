"""Supervises one worker process that serves several jobs, and handles its crashes.

All descendants of the worker are measured and killed with it; they are read from `/proc`. After the
worker has exited, a mark in their environment identifies them. Their group and their parent do not:
an external program has its own session, and its children are then adopted by the first process of
the system.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from imitbench.executors.base import RESTART, STOPPED, JobEvent, Worker
from imitbench.util.interpreter import module_command
from imitbench.util.quantities import show_size

# A worker that was stopped before it handled signals can be resumed, too.
_STOPPED = (STOPPED, -signal.SIGTERM, -signal.SIGUSR1, -signal.SIGUSR2)
_STDERR_TAIL = 4000  # bytes to keep of a crashed worker's stderr
_TICK_S, _MEMORY_TICK_S = 1.0, 0.2
_MARK = "IMITBENCH_WORKER"  # environment variable whose value is unique for each worker
_PROC = Path("/proc")
_ROUNDS = 10  # a process may start others before it is killed
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
_MEANINGS = {
    signal.SIGKILL: ", as when memory runs out",
    signal.SIGALRM: ", which ends processes that do not answer in time",
}


@dataclass(frozen=True)
class _WorkerDeath:
    code: int
    detail: str


class WorkerProcess:
    """Supervises one worker process; a crash affects only the current run.

    `Worker.after_death` records a crash, and a new process is started for the runs that remain.

    Args:
        worker: The worker program.
        environment: Environment variables, in addition to those of this process.
        max_memory: Bytes of memory above which the worker, with its children, is killed.
        fresh: Whether each job gets its own process, for example on GPUs, where a failure may
            corrupt the state of the process for later runs.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
        max_memory: int | None = None,
        fresh: bool = False,
    ) -> None:
        self._worker = worker
        self._mark = uuid.uuid4().hex
        self._environment = {
            **os.environ,
            **_ONE_THREAD,
            **environment,
            _MARK: self._mark,
        }
        self._max_memory = max_memory
        self._fresh = fresh
        self._lock = threading.Lock()
        self._asked = False
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._errors_before = 0

    def serve(self, job: Path) -> JobEvent:
        """Runs a job, in as many processes as necessary.

        Args:
            job: Path of the job file.

        Returns:
            `finished`, also when runs failed or crashed their worker, which is then recorded;
            `stopped` when this or another process requested a stop; `died` when a crash could
            not be recorded, or no process can be started.
        """
        while True:
            try:
                death = self._attempt(job)
            except OSError as error:  # for example too many open files
                self._abandon()
                return JobEvent(job, "died", f"no worker can be started: {error}")
            if death is None:
                if self._fresh:
                    self.close()
                return JobEvent(job, "finished")
            if self._asked or death.code in _STOPPED:
                return JobEvent(job, "stopped", death.detail)
            if death.code == RESTART:
                continue
            try:
                remain = self._worker.after_death(job, death.detail)
            except Exception as error:  # usually because the results folder is gone or full
                why = f"{death.detail}\nwhich could not be recorded: {error}"
                return JobEvent(job, "died", why)
            if not remain:
                return JobEvent(job, "finished")

    def send(self, number: signal.Signals) -> None:
        """Ends the worker with a signal; afterwards, no process is started.

        Args:
            number: SIGTERM, SIGUSR1 or SIGUSR2 to save a checkpoint first; SIGKILL to end it now.
        """
        with self._lock:
            self._asked = True
            if self._process is not None:
                self._process.send_signal(number)

    def close(self) -> None:
        """Ends the process, which must be idle."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _abandon(self) -> None:
        """Ends a process that cannot be followed."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.close()

    def _attempt(self, job: Path) -> _WorkerDeath | None:
        """Passes the job to a process; returns how it ended if it gave no answer."""
        with self._lock:
            if self._asked:
                return _WorkerDeath(STOPPED, "")
            process = self._process or self._start()
        assert self._errors is not None
        self._errors_before = os.fstat(self._errors.fileno()).st_size
        assert process.stdin is not None
        excess = None
        try:
            process.stdin.write(f"{job}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass
        else:
            answer, excess = self._wait_for_answer(process)
            if answer == f"{job}\n".encode():
                return None
        # Kills the group first, as surviving children may hold files, memory and the GPU.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        kill_descendants(self._mark)
        how = _how_it_ended(code) if excess is None else excess
        detail = f"worker {how}\n{self._stderr_tail()}".rstrip()
        self.close()
        return _WorkerDeath(code, detail)

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
        self._process = subprocess.Popen(
            module_command(self._worker.module, "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._environment,
            # Ctrl-C then reaches only the parent, which handles it.
            start_new_session=True,
        )
        return self._process

    def _wait_for_answer(self, process: subprocess.Popen[bytes]) -> tuple[bytes, str | None]:
        """Reads a line, unless the worker ends, or exceeds its memory and is killed, before.

        Returns:
            The text read, and why the worker was killed (`None` if it was not).
        """
        assert process.stdout is not None
        tick = _TICK_S if self._max_memory is None else _MEMORY_TICK_S
        answer, ended = b"", False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if selector.select(0.0 if ended else tick):
                    piece = os.read(process.stdout.fileno(), 4096)
                    if not piece:
                        break
                    answer += piece
                elif ended:
                    break
                elif (excess := self._excess(process.pid)) is not None:
                    return b"", excess
                else:
                    # A child that outlives the worker keeps the pipe open.
                    ended = process.poll() is not None
        return answer, None

    def _excess(self, pid: int) -> str | None:
        if self._max_memory is None:
            return None
        used = memory_above(pid, self._max_memory)
        if used is None:
            return None
        return (
            f"used {show_size(used)}, more than --max-mem {show_size(self._max_memory)}; "
            "give it more, or run fewer --jobs"
        )

    def _stderr_tail(self) -> str:
        """Returns the end of what the worker wrote to stderr during this job."""
        assert self._errors is not None
        # Uses `pread`, because the worker and its children share the position in the file.
        number = self._errors.fileno()
        size = os.fstat(number).st_size
        start = max(self._errors_before, size - _STDERR_TAIL)
        return os.pread(number, size - start, start).decode(errors="replace").strip()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:  # most real-time signals have no name
        return f"was killed by signal {-code}"
    return f"was killed by {number.name}{_MEANINGS.get(number, '')}"


def kill_descendants(value: str) -> None:
    """Kills every process with this mark; does nothing on systems without `/proc`.

    Args:
        value: Value of `_MARK`.
    """
    for _ in range(_ROUNDS):
        found = list(_marked(f"{_MARK}={value}".encode()))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(line: bytes) -> Iterator[int]:
    for path in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):  # exited, or owned by another user
            if line in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def can_measure() -> bool:
    """Whether memory can be measured on this system, which is so on Linux."""
    return (_PROC / "self" / "statm").exists()


def memory_above(pid: int, limit: int) -> int | None:
    """Returns the memory of a process tree if it is above a limit.

    Args:
        pid: Id of the root process.
        limit: Limit in bytes.

    Returns:
        Bytes in use, where shared pages count in proportion; `None` if they are not above the
        limit, or the process has exited.
    """
    processes = list(_tree(pid))
    # Fast, and never too low: shared pages count for each process.
    if sum(map(_resident, processes)) <= limit:
        return None
    used = sum(map(_proportional, processes))
    return used if used > limit else None


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text().split()
        except OSError:  # ended in the meantime
            continue
        for child in children:
            yield from _tree(int(child))


def _resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
