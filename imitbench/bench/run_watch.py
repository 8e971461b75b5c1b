"""Follows the runs that workers were given, for progress displays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from imitbench.records.runs import RunSpec, RunTime
from imitbench.store.live_runs import LiveRun, read_live_run
from imitbench.store.run_dir import RunDirectory


@dataclass(frozen=True)
class _Given:
    job: int
    spec: RunSpec
    directory: RunDirectory
    expected: RunTime | None


class RunWatch:
    """The runs that workers have and that have not ended; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs = 0
        self._given: dict[Path, _Given] = {}

    def add(self, runs: Sequence[RunSpec], out: Path, expected: Sequence[RunTime | None]) -> None:
        """Adds the runs of a job that a worker started.

        Args:
            runs: Its runs.
            out: Results folder of the runs.
            expected: Expected time of each run; `None` if it is unknown.
        """
        with self._lock:
            self._jobs += 1
            for spec, time in zip(runs, expected, strict=True):
                directory = RunDirectory.of(out, spec)
                self._given[directory.path] = _Given(self._jobs, spec, directory, time)

    def remove(self, run: RunSpec, out: Path) -> None:
        """Removes a run that ended."""
        with self._lock:
            self._given.pop(RunDirectory.of(out, run).path, None)

    def look(self) -> list[LiveRun]:
        """Reads how far the runs are; of a job, those in progress, or else the next one."""
        with self._lock:
            given = list(self._given.values())
        jobs: dict[int, list[LiveRun]] = {}
        for each in given:
            with suppress(OSError):  # the display must not end the sweep
                if not each.directory.has_outcome:
                    run = read_live_run(each.directory, each.spec, each.expected)
                    jobs.setdefault(each.job, []).append(run)
        return [run for runs in jobs.values() for run in _begun(runs) or runs[:1]]


def _begun(runs: Sequence[LiveRun]) -> list[LiveRun]:
    return [run for run in runs if run.phase != "start"]
