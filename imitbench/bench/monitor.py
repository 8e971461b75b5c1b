"""What a training tells whoever started it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from imitbench.bench.checkpoint import RunProgress

Phase = Literal["load", "setup", "train", "evaluate", "save"]


class Monitor:
    """Receives the progress of a training; this base class does nothing."""

    resumes_at_once = False
    """Whether a stop now loses nothing: a checkpoint of the whole training is then saved."""

    def enter(self, phase: Phase) -> None:
        """Called when a phase begins."""

    def begin(self, progress: RunProgress) -> None:
        """Called when training begins.

        Args:
            progress: What earlier attempts reached; it grows during training.
        """

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        """Called when the curve has another point, after `step` units of the budget."""

    def flushed(self, step: int, train_s: float) -> None:
        """Called when the curve was written to its file, from another thread.

        That is when training begins or resumes, and at most a few seconds after a point.

        Args:
            step: Units of the budget spent so far.
            train_s: Seconds of training, over all attempts.

        Raises:
            OSError: Ignored.
            LeaseLostError: Ignored.
        """

    def evaluated(self, ended: int, total: int) -> None:
        """Called when an episode of the evaluation has ended, of `total`."""

    def check(self) -> None:
        """Called where training may end, and at every step of an evaluation.

        Raises:
            RunStoppedError: The run must end here; during training, a checkpoint is saved first.
            TimedOut: The same, because the run has taken too long.
        """
