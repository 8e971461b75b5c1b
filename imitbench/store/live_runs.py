"""How far runs are, and how long they take.

The progress of a run that a process is working on is read from its files alone, so from anywhere.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from imitbench.cards.algorithm import STEP_UNITS, AlgorithmCard, Scalar
from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError
from imitbench.records.curves import main_metric
from imitbench.records.runs import Budget, RunSpec, RunTime
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import read_sweeps
from imitbench.untrusted.files import read_end
from imitbench.util.text_line import one_line

_TAIL = 65536  # bytes; the last points and messages
_HEADER = "-- "  # begins the line with which a worker opens a log


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """How far a training is.

    Attributes:
        label: Name in messages.
        amount: Budget, in its unit; 0 for methods that do not train.
        phase: What it is doing: `load`, `setup`, `train`, `evaluate` or `save`; `start` until the
            worker has said so.
        step: Units of the budget spent; `None` before training.
        metric: Main metric of the learning curve (see `imitbench.records.curves`), name and
            latest value; `None` before the first point.
        left_s: Expected seconds until the run is finished; `None` if unknown.
        message: Last line of its log; empty if the method has printed nothing.
        episodes: Episodes of the evaluation that have ended, and all of them; `None` if unknown.
    """

    label: str
    amount: int
    phase: str = "start"
    step: int | None = None
    metric: tuple[str, float] | None = None
    left_s: float | None = None
    message: str = ""
    episodes: tuple[int, int] | None = None

    @property
    def key(self) -> str:
        """Text that identifies the training."""
        return self.label

    @property
    def share(self) -> float | None:
        """Share of the budget spent; `None` before training, or if there is no budget."""
        if self.step is None or not self.amount:
            return None
        return min(1.0, self.step / self.amount)


@dataclass(frozen=True, kw_only=True)
class LiveRun(TrainingProgress):
    """A run that is being done."""

    spec: RunSpec

    @property
    def key(self) -> str:
        """Id of the run."""
        return self.spec.run_id

    def as_dict(self) -> dict[str, Any]:
        """Flat form for JSON."""
        name, value = self.metric or (None, None)
        return {
            "run_id": self.spec.run_id,
            "seed": self.spec.seed,
            "phase": self.phase,
            "step": self.step,
            "budget": self.amount,
            "share": self.share,
            "metric": name,
            "value": value,
            "left_s": self.left_s,
            "message": self.message,
        }


def read_live_run(
    directory: RunDirectory, spec: RunSpec, expected: RunTime | None = None
) -> LiveRun:
    """Reads how far a run is.

    Args:
        directory: Directory of the run.
        spec: Specification of the run.
        expected: Expected time of the whole run, used until it has measured its own speed.
    """
    run = LiveRun(spec=spec, label=spec.label, amount=spec.budget.amount)
    status = directory.last_status()
    if status is None or status.state != "running":
        return replace(run, left_s=expected.total_s if expected else None)
    since_s = _seconds_since(status.updated_at)
    run = replace(run, phase=status.phase, step=status.step, episodes=status.episodes)
    return replace(
        run,
        metric=main_metric(_last_points(directory.curve)),
        left_s=seconds_left(run, status.train_s, since_s, expected, status.phase_s),
        message=_last_message(directory.log),
    )


def expected_times(out: Path) -> dict[str, RunTime]:
    """Returns the expected times of the runs of all sweeps in a results folder, by run id."""
    return {
        run_id: cell.expected
        for sweep in read_sweeps(out)
        for cell in sweep.cells
        if cell.expected is not None
        for run_id in cell.run_ids
    }


def seconds_left(
    run: TrainingProgress,
    train_s: float,
    since_s: float,
    expected: RunTime | None,
    phase_s: float = 0.0,
) -> float | None:
    """Estimates the seconds until a training is finished.

    Args:
        run: Phase, step and budget.
        train_s: Seconds of training until that step, over all attempts.
        since_s: Seconds since that step, or since the phase began.
        expected: Expected time of the whole, used until the training has a speed of its own.
        phase_s: Seconds of evaluation until `episodes` of the run.

    Returns:
        The estimate; `None` if there is none, or if it has turned out to be wrong.
    """
    other_s = expected.other_s if expected else 0.0
    if run.phase in ("evaluate", "save"):
        ended, total = run.episodes or (0, 0)
        if ended:
            return max(0.0, phase_s * (total - ended) / ended - since_s)
        left_s = other_s - since_s
        return left_s if expected and left_s >= 0 else None
    if run.share and train_s:
        return max(0.0, train_s * (1 - run.share) / run.share - since_s) + other_s
    if expected is None:
        return None
    ahead_s = expected.train_s - (since_s if run.phase == "train" else 0.0)
    return ahead_s + other_s if ahead_s >= 0 else None


def _seconds_since(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
        return max(0.0, (datetime.now(timezone.utc) - moment).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _last_points(path: Path) -> list[dict[str, float]]:
    points = []
    for line in _last_lines(path):
        try:
            point = json.loads(line)
            points.append({str(name): float(value) for name, value in point.items()})
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            continue  # the tail begins within a line; and what reads the results reports damage
    return points


def _last_message(path: Path) -> str:
    lines = [line for line in _last_lines(path) if line.strip()]
    return one_line(lines[-1]) if lines and not lines[-1].startswith(_HEADER) else ""


def _last_lines(path: Path) -> list[str]:
    try:
        return read_end(path, _TAIL).splitlines()
    except OSError:
        return []


def find_live_run(out: Path, directory: RunDirectory) -> LiveRun | None:
    """Reads how far a run of a results folder is.

    Returns:
        Its progress; `None` while no process is working on it.
    """
    if not directory.is_claimed():
        return None
    try:
        spec = directory.read_spec()
    except InputError:  # the worker is about to write it
        return None
    return read_live_run(directory, spec, expected_times(out).get(spec.run_id))


def finished_time(directory: RunDirectory) -> RunTime | None:
    """Returns how long a finished run took; `None` if its result cannot be read."""
    try:
        result = directory.read_result()
    except InputError:
        return None
    train_s = min(max(0.0, result.train_s), result.wall_s)
    return RunTime(train_s=train_s, other_s=result.wall_s - train_s)


def median_time(times: Sequence[RunTime]) -> RunTime | None:
    """Returns the median of whole times, and of their training; `None` for no times."""
    if not times:
        return None
    whole_s = statistics.median(time.total_s for time in times)
    train_s = min(whole_s, statistics.median(time.train_s for time in times))
    return RunTime(train_s=train_s, other_s=whole_s - train_s)


class DurationEstimates:
    """Expected times of planned runs, each on one core, and on a GPU if it trains on one.

    Args:
        algorithms: Cards of the algorithms.
        environments: Cards of the environments by id.
        out: Results folder; its finished runs give the best estimates.
    """

    _SETUP_S = 1.0  # to build environments, read demonstrations and write results

    def __init__(
        self,
        algorithms: Iterable[AlgorithmCard],
        environments: Mapping[str, EnvironmentCard],
        out: Path,
    ) -> None:
        self._cards = {card.name: card for card in algorithms}
        self._environments = environments
        self._out = out

    @cached_property
    def _finished(self) -> dict[tuple[str, str, str, int], float]:
        """Median seconds of finished runs by algorithm, environment, budget unit and amount."""
        from imitbench.store import database

        try:
            with database.reader(self._out) as connection:
                return database.read_durations(connection)
        except InputError:
            return {}

    def on_cards(self, run: RunSpec) -> RunTime:
        """Returns the expected time of one run by the rates on the cards; reads no file."""
        card = self._environments[run.environment.id]
        rate = card.steps_per_second
        train_s = training_seconds(
            run.budget,
            self._cards[run.algo],
            run.hyperparameters,
            rate,
            run.pack or 1,
            on_gpu=run.device != "cpu",
        )
        steps = 2 * run.protocol.episodes * card.max_episode_steps
        return RunTime(train_s=train_s, other_s=self._SETUP_S + steps / rate)

    def seconds(self, run: RunSpec) -> float:
        """Returns the expected seconds of one run: of finished ones like it, else by the cards."""
        unit, amount = run.budget.unit, run.budget.amount
        known = self._finished.get((run.algo_label, run.environment.id, unit, amount))
        return self.on_cards(run).total_s if known is None else known


# Part of a training's time that a pack takes once, not for each seed (benchmarks/README.md). On the
# core, this includes the environments, which are stepped together; beside a GPU, they take as long.
_SHARED, _SHARED_ON_GPU = 0.6, 0.83


def training_seconds(
    budget: Budget,
    algorithm: AlgorithmCard,
    hyperparameters: Mapping[str, Scalar],
    steps_per_second: float = math.inf,
    pack: int = 1,
    *,
    on_gpu: bool = False,
) -> float:
    """Estimates the seconds of a training on one core, and on a GPU if it has one.

    Args:
        budget: Amount of training.
        algorithm: Card of the algorithm.
        hyperparameters: All of them. The time of a method with `updates` every `steps_per_update`
            steps is in proportion to their ratio.
        steps_per_second: Speed of the environment; unknown speeds cost nothing.
        pack: Number of seeds that are trained together.
        on_gpu: Whether a GPU trains; the environments stay on the core.
    """
    work = _updates_per_step(hyperparameters) / _updates_per_step(algorithm.resolve({}))
    training = budget.amount / 1000 * algorithm.seconds_per_1000 * work
    stepping = budget.amount / steps_per_second if budget.unit in STEP_UNITS else 0.0
    shared = _SHARED_ON_GPU if on_gpu else _SHARED
    own = 1 - shared + shared / pack
    if on_gpu:
        return training * own / (algorithm.gpu_speedup or 1.0) + stepping
    return (training + stepping) * own


def _updates_per_step(hyperparameters: Mapping[str, Scalar]) -> float:
    updates, steps = map(hyperparameters.get, ("updates", "steps_per_update"))
    # A plug-in may use these names for something else.
    if isinstance(updates, int) and isinstance(steps, int) and updates > 0 and steps > 0:
        return updates / steps
    return 1.0
