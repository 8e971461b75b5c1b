"""A pool of worker processes on this machine."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from imitbench.executors.base import STOPPED, Executor, JobEvent

# Also a worker that was asked to stop before it could listen has lost nothing.
_STOPPED = (STOPPED, -signal.SIGTERM, -signal.SIGUSR1)
_LAST_WORDS = 2000  # characters of a dead worker's stderr that are worth keeping


class LocalExecutor(Executor):
    """Keeps `jobs` worker processes busy; each serves one job after the other.

    A worker that dies takes only its own job along and is replaced.

    Args:
        entry: Module of the worker.
        jobs: Number of worker processes.
    """

    def __init__(self, entry: str, jobs: int) -> None:
        super().__init__(entry)
        self._waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._lanes = [
            _Lane(entry, self._waiting, self._events, self._cancelled) for _ in range(jobs)
        ]

    def submit(self, jobs: Sequence[Path]) -> None:
        """Queues job files; idle workers take them at once."""
        for job in jobs:
            self._waiting.put(job)
        for lane in self._lanes:
            if not lane.is_alive():
                lane.start()

    def poll(self, timeout: float) -> list[JobEvent]:
        """Events since the last call, waiting at most `timeout` seconds for the first."""
        events = []
        try:
            events.append(self._events.get(timeout=timeout))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def stop(self) -> None:
        """Asks the workers to save checkpoints and end, and waits until they have."""
        self._end_by(signal.SIGTERM)

    def cancel(self) -> None:
        """Kills the workers; their unfinished runs resume from older checkpoints next time."""
        self._end_by(signal.SIGKILL)

    def _end_by(self, number: signal.Signals) -> None:
        self._cancelled.set()
        for lane in self._lanes:
            lane.send(number)
        self.close()

    def close(self) -> None:
        """Ends the workers once they are idle."""
        for _ in self._lanes:
            self._waiting.put(None)
        for lane in self._lanes:
            if lane.ident is not None:
                lane.join()


class _Lane(threading.Thread):
    """Feeds one worker process."""

    def __init__(
        self,
        entry: str,
        waiting: queue.SimpleQueue[Path | None],
        events: queue.SimpleQueue[JobEvent],
        cancelled: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self._command = [sys.executable, "-m", entry, "-"]
        self._waiting = waiting
        self._events = events
        self._cancelled = cancelled
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None

    def run(self) -> None:
        """Passes jobs on until told to stop."""
        while (job := self._waiting.get()) is not None and not self._cancelled.is_set():
            self._events.put(JobEvent(job, "started"))
            self._events.put(self._serve(job))
        self._end()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the worker process, if there is one."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(number)

    def _serve(self, job: Path) -> JobEvent:
        process = self._process or self._start()
        if self._cancelled.is_set():  # before there was a process to send a signal to
            process.terminate()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{job}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer.strip() == str(job):
            return JobEvent(job, "finished")
        process.kill()
        code = process.wait()
        detail = f"worker {_how_it_ended(code)}{self._last_words()}"
        self._end()
        return JobEvent(job, "stopped" if code in _STOPPED else "died", detail)

    def _start(self) -> subprocess.Popen[str]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            # Ctrl-C reaches only the parent, which then decides.
            start_new_session=True,
        )
        return self._process

    def _last_words(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        words = self._errors.read()[-_LAST_WORDS:].decode(errors="replace").strip()
        return f"; its last words:\n{words}" if words else ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
