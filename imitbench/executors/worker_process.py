"""One worker process that serves job after job, and what is done when it dies."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from imitbench.executors import descendants
from imitbench.executors.base import RESTART, STOPPED, JobEvent, Worker
from imitbench.util.quantities import show_size

# Also a worker that was asked to stop before it could listen has lost nothing.
_STOPPED = (STOPPED, -signal.SIGTERM, -signal.SIGUSR1, -signal.SIGUSR2)
_LAST_WORDS = 4000  # bytes of a dead worker's stderr that are worth keeping
_TICK_S, _MEMORY_TICK_S = 1.0, 0.2
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
    signal.SIGALRM: ", which ends what does not answer in time",
}


@dataclass(frozen=True)
class _WorkerDeath:
    code: int
    detail: str


class WorkerProcess:
    """Supervises one worker process; a death costs the run at work, and nothing else.

    Its death is put on record by `Worker.after_death`, and a fresh process is started for the
    runs that remain.

    Args:
        worker: The program.
        environment: Environment variables on top of those of this process.
        max_memory: Bytes above which the worker, with its children, is killed.
        fresh: Whether each job gets a process of its own, as on GPUs, where one failure spoils
            all that the process does later.
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
            descendants.MARK: self._mark,
        }
        self._max_memory = max_memory
        self._fresh = fresh
        self._lock = threading.Lock()
        self._asked = False
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._errors_before = 0

    def serve(self, job: Path) -> JobEvent:
        """Has a job done, by as many processes as it takes.

        Args:
            job: The job file.

        Returns:
            `finished`, also when runs failed or killed their worker, which is on record then;
            `stopped` when it was asked to stop, here or by anybody else; `died` when a death
            could not be put on record.
        """
        while True:
            death = self._attempt(job)
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
            except Exception as error:  # above all: the results folder is gone, or full
                why = f"{death.detail}\nand that could not be put on record: {error}"
                return JobEvent(job, "died", why)
            if not remain:
                return JobEvent(job, "finished")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal by which the worker is to end; after it, no process is started.

        Args:
            number: SIGTERM, SIGUSR1 or SIGUSR2 to save a checkpoint first, SIGKILL for now.
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

    def _attempt(self, job: Path) -> _WorkerDeath | None:
        """Gives the job to a process; tells how that died if it gave no answer."""
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
        # The group first, as children that survive may hold files, memory and the GPU.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        descendants.kill_descendants(self._mark)
        how = _how_it_ended(code) if excess is None else excess
        detail = f"worker {how}\n{self._last_words()}".rstrip()
        self.close()
        return _WorkerDeath(code, detail)

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._worker.module, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._environment,
            # Ctrl-C reaches only the parent, which then decides.
            start_new_session=True,
        )
        return self._process

    def _wait_for_answer(self, process: subprocess.Popen[bytes]) -> tuple[bytes, str | None]:
        """Reads a line, unless the worker ends, or is killed here for what it uses, before that.

        Returns:
            What was read, and why the worker was killed.
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
        used = descendants.memory_above(pid, self._max_memory)
        if used is None:
            return None
        return (
            f"used {show_size(used)}, more than --max-mem {show_size(self._max_memory)}; "
            "give it more, or run fewer --jobs"
        )

    def _last_words(self) -> str:
        """The end of what the worker wrote to stderr during this job."""
        assert self._errors is not None
        # The position in the file is shared with the worker and its children: left alone.
        number = self._errors.fileno()
        size = os.fstat(number).st_size
        start = max(self._errors_before, size - _LAST_WORDS)
        return os.pread(number, size - start, start).decode(errors="replace").strip()


def _how_it_ended(code: int) -> str:
    if code < 0:
        number = signal.Signals(-code)
        return f"was killed by {number.name}{_MEANINGS.get(number, '')}"
    return f"exited with code {code}"
