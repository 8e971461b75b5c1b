"""Progress of a tuning: a line for each trial that ends, and for each run of the contest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imitbench.cli.output import count, note
from imitbench.tune.held_out_comparison import HeldOutComparison
from imitbench.tune.request import TuneRequest
from imitbench.tune.runner import TuningOutcome
from imitbench.tune.study import Trial


class TuneObserver:
    """Says it on stderr.

    Args:
        request: What is asked for.
        root: Folder of the tuning.
        quiet: Whether progress is not shown.
    """

    def __init__(self, request: TuneRequest, root: Path, *, quiet: bool) -> None:
        self._request = request
        self._root = root
        self._quiet = quiet
        flag = "uses reward" if request.goal.uses_reward else "without the true reward"
        self._say(
            f"{request.algorithm.name}: {count(request.trials, 'trial')} {_of_what(request)}, "
            f"maximizing {request.objective} ({flag}); study in {root}"
        )

    def resumed(self, env: str, finished: int, interrupted: int, total: int) -> None:
        """A study was found on disk."""
        taken = f", {interrupted} interrupted and taken up again" if interrupted else ""
        self._say(f"{env}: {finished} of {total} trials finished before{taken}")

    def trial(self, env: str, trial: Trial, trials: Sequence[Trial], total: int) -> None:
        """A trial came to its end."""
        ended = sum(each.state != "running" for each in trials)
        complete = [each for each in trials if each.state == "complete"]
        best = max(complete, key=lambda each: each.value or 0.0, default=None)
        said = {
            "complete": f"{trial.value:.4g}" if trial.value is not None else "",
            "pruned": f"given up at step {trial.pruned_at}",
            "failed": f"FAILED ({trial.failure})",
        }.get(trial.state, trial.state)
        so_far = f"; best {best.value:.4g}, trial {best.number}" if best is not None else ""
        self._say(f"[{ended}/{total}] {env}: trial {trial.number}: {said}{so_far}")

    def held_out(self, env: str, done: int, total: int) -> None:
        """A run of the contest ended."""
        self._say(f"[held out {done}/{total}] {env}")

    def judged(self, env: str, contest: HeldOutComparison) -> None:
        """The contest was decided."""

    def stopping(self) -> None:
        """Workers were asked to stop."""
        note("stopping: running trials save checkpoints; Ctrl-C again stops at once")

    def stopped(self, outcome: TuningOutcome) -> None:
        """All is as it will stay."""
        queued = f"; {count(outcome.queued, 'job')} in the queue go on" if outcome.queued else ""
        note(f"stopped{queued}; the same command goes on: finished trials are kept in {self._root}")

    def _say(self, message: str) -> None:
        if not self._quiet:
            note(message)


def _of_what(request: TuneRequest) -> str:
    environments = count(len(request.plan.environments), "environment")
    if request.per == "suite":
        return f"on all of {environments} with the same values"
    return f"of each of {environments}"
