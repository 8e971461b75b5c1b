"""The run directory: one folder per run, which is consistent at any time.

`result.json` is written last; its presence means that the run is complete. A failed run has
`error.json` instead.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.records.episodes import EpisodeTable
from imitbench.records.reward_scores import SCORES_FILE, RewardScores
from imitbench.records.runs import Record, RunFailure, RunResult, RunSpec
from imitbench.store import lease
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_bytes, atomic_write_text, fsync_directory
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

_R = TypeVar("_R", bound=Record)
State = Literal["running", "done", "failed", "interrupted"]


class RunStatus(Record):
    """Current activity of a run (`status.json`), for users who monitor it.

    Attributes:
        state: `interrupted` runs received a request to stop and resume from where they stopped.
        job: Id of the latest job that includes the run.
        attempt: Number of the current attempt in that job, counted from 1.
        updated_at: ISO 8601 time in UTC at which the phase began, the latest point of the learning
            curve was written, or the latest number of episodes.
        step: Units of the budget spent at the latest point; `None` before training.
        train_s: Seconds of training until that point, over all attempts.
        episodes: Episodes of the evaluation that have ended, and all of them; `None` outside of it.
        phase_s: Seconds from the beginning of the evaluation until then.
    """

    state: State
    phase: str
    pid: int
    host: str
    updated_at: str
    job: str = ""
    attempt: int = 1
    step: int | None = None
    train_s: float = 0.0
    episodes: tuple[int, int] | None = None
    phase_s: float = 0.0

    @classmethod
    def now(cls, state: State, phase: str, **values: Any) -> RunStatus:
        """Returns what this process is doing now; `values` are the further fields."""
        return cls(
            state=state,
            phase=phase,
            pid=os.getpid(),
            host=socket.gethostname(),
            updated_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            **values,
        )


class RunDirectory:
    """Paths, claims and records of one run.

    Args:
        path: `<out>/<suite>/<algo>/<environment>/<run_id>`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lease: lease.Lease | None = None

    @classmethod
    def of(cls, out: Path, spec: RunSpec) -> RunDirectory:
        """Returns the directory of `spec` below the results folder `out`."""
        environment = spec.environment.id.replace("/", "-")
        return cls(out / spec.suite / spec.algo / environment / spec.run_id)

    @property
    def results(self) -> Path:
        """The results folder."""
        return self.path.resolve().parent.parent.parent.parent

    @property
    def policy(self) -> Path:
        """Folder of the trained policy."""
        return self.path / "policy"

    @property
    def reward(self) -> Path:
        """Folder of the learned reward, if the method learns one."""
        return self.path / "reward"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints of an incomplete run."""
        return self.path / "checkpoint"

    @property
    def log(self) -> Path:
        """Text log of the worker."""
        return self.path / "log.txt"

    @property
    def curve(self) -> Path:
        """Learning curve; it grows while the run is training."""
        return self.path / "metrics.jsonl"

    @property
    def is_done(self) -> bool:
        """Whether the run completed."""
        return (self.path / "result.json").exists()

    @property
    def has_failed(self) -> bool:
        """Whether the run's last attempt failed and no earlier one completed."""
        return not self.is_done and self.failure_is_on_record

    @property
    def failure_is_on_record(self) -> bool:
        """Whether a failure is recorded, possibly of an attempt to repeat a completed run."""
        return (self.path / "error.json").exists()

    @property
    def has_outcome(self) -> bool:
        """Whether the run completed or failed."""
        return self.is_done or self.has_failed

    def outcome_stamp(self) -> str | None:
        """Returns a text that changes with every new outcome; `None` without an outcome."""
        for name in ("result.json", "error.json"):
            try:
                stat = (self.path / name).stat()
            except FileNotFoundError:
                continue
            return f"{name}:{stat.st_mtime_ns}:{stat.st_size}"
        return None

    @contextmanager
    def claim(
        self,
        *,
        wait: bool,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> Iterator[bool]:
        """Holds the run for this process, so that no two processes work on it at the same time.

        While it is held, writes confirm the lease: a process that was suspended so long that
        another took over cannot corrupt the work of the other.

        Args:
            wait: Whether to wait until another process releases the run or has certainly exited.
            while_waiting: Called about once a second; may raise to stop waiting.

        Yields:
            Whether the claim was obtained; always `True` when waiting.

        Raises:
            InputError: The folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be created ({error.strerror})") from error
        held = lease.acquire(self.path, wait=wait, while_waiting=while_waiting)
        if held is None:
            yield False
            return
        self._lease = held
        try:
            yield True
        finally:
            self._lease = None
            held.release()

    def is_claimed(self, *, may_write: bool = True) -> bool:
        """Whether a running process, on this machine or another, holds the run.

        Args:
            may_write: See `imitbench.store.lease.is_held`.
        """
        return lease.is_held(self.path, may_write=may_write)

    def check_claim(self) -> None:
        """Checks the claim at no cost; must be called often while the run is held.

        Raises:
            LeaseLostError: Another process holds the run now.
        """
        if self._lease is not None:
            self._lease.check()

    def _confirm_claim(self) -> None:
        if self._lease is not None:
            self._lease.confirm()

    def begin(self, spec: RunSpec, *, rebuild: bool = False) -> None:
        """Removes files of an earlier attempt and writes the specification.

        Args:
            spec: Specification of the run.
            rebuild: Whether to remove its checkpoints, log and status as well.
        """
        self._confirm_claim()
        kept = {"spec.json"}
        if not (rebuild or self.is_done):
            kept |= {self.checkpoints.name, self.log.name, "status.json"}
        self.path.mkdir(parents=True, exist_ok=True)
        # The result is removed first: without it, any remaining file does not count.
        (self.path / "result.json").unlink(missing_ok=True)
        fsync_directory(self.path)
        for leftover in self.path.iterdir():
            if leftover.name in kept or lease.is_needed(leftover.name, self._lease):
                continue
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)
        text = json.dumps(spec.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
        atomic_write_text(self.path / "spec.json", text)

    def write_status(self, status: RunStatus) -> None:
        """Replaces `status.json`."""
        self._write_record("status.json", status)

    def last_status(self) -> RunStatus | None:
        """Reads `status.json`; `None` if it is missing or malformed."""
        try:
            return self._read_record("status.json", RunStatus)
        except InputError:
            return None

    def write_curve(self, points: list[Mapping[str, float]]) -> None:
        """Writes the learning curve: one JSON object per line, each with a `step`."""
        self._confirm_claim()
        lines = [json.dumps(dict(point), sort_keys=True) + "\n" for point in points]
        atomic_write_text(self.curve, "".join(lines))

    def read_curve(self) -> list[Mapping[str, float]]:
        """Reads the learning curve; empty if there is none.

        Raises:
            InputError: The file cannot be read, or is no learning curve.
        """
        try:
            points = [json.loads(line) for line in read_content(self.curve).splitlines()]
            return [
                {
                    **{name: float(point[name]) for name in point},
                    "step": int(np.int64(int(point["step"]))),  # within its range
                }
                for point in points
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{self.curve}: cannot be read ({error.strerror})") from error
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
            what = one_line(error, 80)
            raise InputError(f"{self.curve}: not a learning curve ({what})") from error

    def write_episodes(self, episodes: EpisodeTable) -> None:
        """Writes `episodes.parquet`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from imitbench.data.arrow_table import arrow_view

        columns = episodes.columns.items()
        table = pa.table({name: arrow_view(values) for name, values in columns})
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        atomic_write_bytes(self.path / "episodes.parquet", buffer.getvalue())

    def finish(self, result: RunResult) -> None:
        """Marks the run complete; all other files must have been written."""
        self._write_record("result.json", result)
        (self.path / "error.json").unlink(missing_ok=True)
        fsync_directory(self.path)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def remove_leftover_checkpoints(self) -> None:
        """Removes the checkpoints of a complete run whose worker did not remove them."""
        if self.is_done and self.checkpoints.exists():
            with self.claim(wait=False) as claimed:
                if claimed and self.is_done:
                    shutil.rmtree(self.checkpoints, ignore_errors=True)

    def fail(self, failure: RunFailure) -> None:
        """Marks the run failed."""
        self._write_record("error.json", failure)

    def read_spec(self) -> RunSpec:
        """Reads `spec.json`.

        Raises:
            InputError: The file is missing or malformed.
        """
        return self._read_record("spec.json", RunSpec)

    def read_result(self) -> RunResult:
        """Reads `result.json`; raises as `read_spec` does."""
        return self._read_record("result.json", RunResult)

    def read_failure(self) -> RunFailure:
        """Reads `error.json`; raises as `read_spec` does."""
        return self._read_record("error.json", RunFailure)

    def write_reward_scores(self, scores: RewardScores) -> None:
        """Writes `reward_scores.json`."""
        self._write_record(SCORES_FILE, scores)

    def read_reward_scores(self) -> RewardScores | None:
        """Reads `reward_scores.json`; `None` if there is none.

        Raises:
            InputError: The file is malformed.
        """
        if not (self.path / SCORES_FILE).exists():
            return None
        return self._read_record(SCORES_FILE, RewardScores)

    def failure_on_record(self) -> RunFailure | None:
        """Reads why the run failed; `None` if unknown, or if another process has begun it again.

        Raises:
            InputError: The record is damaged.
        """
        try:
            return self.read_failure()
        except InputError:
            if self.failure_is_on_record:
                raise
            return None

    def _write_record(self, name: str, record: Record) -> None:
        self._confirm_claim()
        atomic_write_text(self.path / name, record.model_dump_json(indent=1) + "\n")

    def _read_record(self, name: str, kind: type[_R]) -> _R:
        path = self.path / name
        try:
            return kind.model_validate_json(read_content(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except ValidationError as error:
            raise InputError(f"{path}: {first_problem(error)}") from error
