"""Saves a training while it continues: its complete state, to resume from, and its curve.

From a checkpoint, training continues identically. Others follow the curve in its file.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.errors import InputError
from imitbench.store.lease import LeaseLostError
from imitbench.version import __version__

if TYPE_CHECKING:
    from imitbench.bench.learner import Learner


_KEPT = 2  # an earlier one serves if the latest is damaged


@dataclass
class RunProgress:
    """Progress of a run, in addition to its learner's state.

    Attributes:
        curve: Points of the learning curve.
        train_s: Seconds of training, over all attempts.
    """

    curve: list[Mapping[str, float]] = field(default_factory=list)
    train_s: float = 0.0


class CheckpointManager:
    """The checkpoints in a folder, of which the latest readable one is used.

    Args:
        directory: Folder of the run's checkpoints.
        every_s: Least seconds between two of them.
    """

    def __init__(self, directory: Path, every_s: float) -> None:
        self._directory = directory
        self._every_s = every_s
        self._last = time.monotonic()

    def save_if_due(self, learner: Learner, progress: Callable[[], RunProgress]) -> bool:
        """Writes a checkpoint if the last one is at least `every_s` old.

        Args:
            learner: A learner between two steps of its training.
            progress: Returns the progress so far.

        Returns:
            Whether a checkpoint was written.
        """
        if time.monotonic() - self._last < self._every_s:
            return False
        self.save(learner, progress())
        self._last = time.monotonic()
        return True

    def save(self, learner: Learner, progress: RunProgress) -> None:
        """Writes a checkpoint and removes those no longer needed."""
        from imitbench.util.state_file import save_state

        state = {
            "version": __version__,
            "learner": learner.state_dict(),
            "generators": generator_states(),
            "curve": [dict(point) for point in progress.curve],
            "train_s": progress.train_s,
        }
        existing = self._existing()
        number = _number(existing[-1]) + 1 if existing else 1
        save_state(self._directory / f"{number:06d}.state", state)
        for old in existing[: 1 - _KEPT]:
            old.unlink(missing_ok=True)

    def resume(self, learner: Learner) -> RunProgress | None:
        """Restores a learner from the latest usable checkpoint.

        Args:
            learner: A learner that was set up for the same run.

        Returns:
            The progress until then; `None` if there is no checkpoint: the learner is unchanged.
        """
        from imitbench.util.state_file import load_state

        for path in reversed(self._existing()):
            try:
                state = load_state(path)
            except InputError as error:
                print(f"checkpoint not used: {error}", file=sys.stderr)
                continue
            if state["version"] != __version__:
                print(f"checkpoint not used: {path} is of {state['version']}", file=sys.stderr)
                continue
            learner.load_state_dict(state["learner"])
            restore_generators(state["generators"])
            return RunProgress(state["curve"], state["train_s"])
        return None

    def _existing(self) -> list[Path]:
        """Returns the checkpoints from the oldest to the latest."""
        return sorted(self._directory.glob("*.state"), key=_number)


def read_curve(directory: Path) -> list[Mapping[str, float]]:
    """Reads the learning curve from the latest readable checkpoint of a folder.

    Args:
        directory: Folder of a run's checkpoints; it may not exist.
    """
    from imitbench.util.state_file import load_state

    for path in sorted(directory.glob("*.state"), key=_number, reverse=True):
        try:
            curve: list[Mapping[str, float]] = load_state(path)["curve"]
        except (InputError, OSError, KeyError):  # removed in the meantime, or damaged
            continue
        return curve
    return []


def _number(path: Path) -> int:
    return int(path.stem)


def generator_states() -> dict[str, Any]:
    """Returns the states of the global generators, which third-party code uses."""
    import torch as th

    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if th.cuda.is_available() else [],
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Restores what `generator_states` returned."""
    import torch as th

    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    th.set_rng_state(states["torch"])
    if states["cuda"]:
        th.cuda.set_rng_state_all(states["cuda"])


_SHORTEST_S, _LONGEST_S = 0.5, 5.0
_SHARE = 0.1  # of the time so far; short runs are flushed more often


class CurveFlusher:
    """Calls a function soon after the curve has grown, from a thread of its own.

    The thread does not depend on how often a method reports: a point is written at most
    `_LONGEST_S` seconds later, even if the next one takes an hour. Entering and leaving the context
    call the function, too.

    Args:
        write: Writes the curves. The file system may fail meanwhile: the curves are also in
            memory and in the checkpoints, and the end of the run reports what cannot be written.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._grown = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._flush_often, name="curve", daemon=True)

    def grown(self) -> None:
        """Notes that there is another point."""
        self._grown.set()

    def __enter__(self) -> CurveFlusher:
        self._flush()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._grown.is_set():
            self._flush()

    def _flush_often(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(self._pause_s(time.monotonic() - started)):
            if self._grown.is_set():
                self._flush()

    def _flush(self) -> None:
        self._grown.clear()
        # The main thread notices by itself that the lease was lost, and ends the run.
        with suppress(OSError, LeaseLostError):
            self._write()

    @staticmethod
    def _pause_s(elapsed_s: float) -> float:
        return min(_LONGEST_S, max(_SHORTEST_S, _SHARE * elapsed_s))
