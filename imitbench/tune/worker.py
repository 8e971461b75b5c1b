"""The worker of tuning: executes the runs of a trial sequentially, and prunes bad trials.

python -m imitbench.tune.worker JOBFILE     one job, a `TrialJob`
python -m imitbench.tune.worker -           job files from standard input, one per line

It extends `imitbench.bench.worker`, with the same exit codes, by measurements of the learner.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from imitbench.bench import worker as bench
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.bench.implementation import make_learner
from imitbench.bench.learner import (
    Callback,
    Checkpoint,
    Learner,
    LearnerWrapper,
    Task,
    no_checkpoint,
)
from imitbench.bench.stopping import StopRequest
from imitbench.data.types import TrajectoryWithRew
from imitbench.records.runs import Budget, ReferenceScores, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.tune.objectives import OBJECTIVES, EvaluationPoint
from imitbench.tune.trial_job import (
    TrackingSettings,
    TrialJob,
    TrialPrunedError,
    TrialReporter,
    trial_reporter,
)

Report = Callable[[int, float], None]
"""Called with a point, from 1, and the objective there; may raise to end the training."""


class ObjectiveTrackingLearner(LearnerWrapper):
    """Measures the objective after each part of the budget.

    Args:
        learner: The learner to measure.
        spec: Specification of the run.
        references: References of its environment.
        watch: Objective and number of measurements.
        report: Called with each measurement except the last.
    """

    def __init__(
        self,
        learner: Learner,
        spec: RunSpec,
        references: ReferenceScores,
        watch: TrackingSettings,
        report: Report,
    ) -> None:
        super().__init__(learner)
        self._spec = spec
        self._references = references
        self._watch = watch
        self._objective = OBJECTIVES[watch.objective]
        self._report = report
        self._point = 0
        self._curve: list[Mapping[str, float]] = []

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Sets up the learner, without the held-out demonstrations."""
        self._demos, self._held_out = self._objective.hold_out(demos, self._spec)
        self.learner.setup(task, self._demos, rng, device)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains, and measures where the learner offers a checkpoint."""
        spent = 0

        def record(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal spent
            spent = step
            self._curve.append(dict(metrics))
            callback(step, metrics)

        def offer() -> None:
            self._measure_if_due(spent / max(1, budget.amount))
            checkpoint()

        return self.learner.train(budget, record, offer)

    def measures(self) -> dict[str, float]:
        """The learner's measures, and those of the objective."""
        return {**self.learner.measures(), **self._undisturbed(self._objective.measures)}

    def state_dict(self) -> dict[str, Any]:
        """The learner's state, and that of the measurements."""
        return {
            "learner": self.learner.state_dict(),
            "point": self._point,
            "curve": [dict(point) for point in self._curve],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.learner.load_state_dict(state["learner"])
        self._point = state["point"]
        self._curve = list(state["curve"])

    def _measure_if_due(self, share: float) -> None:
        point = int(share * self._watch.points + 1e-9)
        # The evaluation of the run measures the end.
        if self._point < point < self._watch.points:
            self._point = point
            self._report(point, self._undisturbed(self._objective.at))

    def _undisturbed(self, measure: Callable[[EvaluationPoint], Any]) -> Any:
        """Measures without changing the policy or the global random generators."""
        states = generator_states()
        try:
            return measure(
                EvaluationPoint(
                    spec=self._spec,
                    references=self._references,
                    policy=copy.deepcopy(self.learner.policy()),
                    demos=self._demos,
                    held_out=self._held_out,
                    curve=self._curve,
                    episodes=self._watch.episodes,
                )
            )
        finally:
            restore_generators(states)


def run_trial_file(path: Path, stop: StopRequest, supervised: bool) -> None:
    """Executes the runs of a job file until one fails or the trial is pruned.

    Args:
        path: Job file, a `TrialJob`.
        stop: Set when the process receives a request to stop.
        supervised: Whether another process restarts this one after a crash.

    Raises:
        RunStoppedError: A stop was requested.
        InputError: The job cannot be read.
    """
    job = TrialJob.read(path)
    watch = job.watch
    with trial_reporter(None if watch is None else watch.trial) as reporter:
        finals = [] if watch is None else list(watch.before)
        packed = job.runs[0].pack is not None
        # A pack is not measured while it trains, so an environment's end is reported here.
        if packed and finals and not _continues(reporter, watch, finals):
            return
        for specs in [job.runs] if packed else [[spec] for spec in job.runs]:
            if reporter is not None and reporter.is_pruned:
                return
            alone = job.model_copy(update={"runs": specs})
            track = None if packed else watch
            learner_of = partial(_learner, job, track, reporter, finals)
            bench.run_job(alone, stop, learner_of, supervised=supervised)
            directories = [RunDirectory.of(Path(job.out), spec) for spec in specs]
            if not all(directory.is_done for directory in directories):
                return
            if watch is not None and specs[-1] is not job.runs[-1]:
                goal = OBJECTIVES[watch.objective]
                finals += [goal.of(directory.read_result()) for directory in directories]
                if not _continues(reporter, watch, finals):
                    return


def _learner(
    job: TrialJob,
    watch: TrackingSettings | None,
    reporter: TrialReporter | None,
    finals: list[float],
    spec: RunSpec,
) -> Learner:
    learner = make_learner(spec)
    if watch is None:
        return learner
    before = list(finals)

    def report(point: int, value: float) -> None:
        """Reports the mean over seeds: the completed ones and the running one."""
        if reporter is not None:
            step = len(before) * watch.points + point
            reporter.report(step, float(np.mean([*before, value])))

    return ObjectiveTrackingLearner(learner, spec, job.references, watch, report)


def _continues(
    reporter: TrialReporter | None, watch: TrackingSettings | None, finals: list[float]
) -> bool:
    """Reports the completed runs of a trial; returns whether it continues."""
    if reporter is None or watch is None:
        return True
    try:
        reporter.report(len(finals) * watch.points, float(np.mean(finals)))
    except TrialPrunedError:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Entry point.

    Args:
        arguments: One job file, or `-`; from the command line when `None`.

    Returns:
        The exit code of `imitbench.bench.worker.main`.
    """
    return bench.main(arguments, run_trial_file)


if __name__ == "__main__":
    sys.exit(main())
