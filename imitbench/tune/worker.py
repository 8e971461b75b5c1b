"""The worker of tuning: executes the runs of a trial sequentially, and prunes bad trials.

python -m imitbench.tune.worker JOBFILE     one job, as `TrialJob` describes it python -m
imitbench.tune.worker -           job files from standard input, one per line

It is `imitbench.bench.worker`, with the same exit codes, but the learner is measured.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np

from imitbench.bench import worker as bench
from imitbench.bench.implementation import make_learner
from imitbench.bench.learner import Learner
from imitbench.bench.stopping import StopRequest
from imitbench.records.runs import RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.tune.objectives import OBJECTIVES
from imitbench.tune.reporter import TrialPrunedError, TrialReporter, trial_reporter
from imitbench.tune.trial_job import TrackingSettings, TrialJob
from imitbench.tune.watched_learner import ObjectiveTrackingLearner


def run_trial_file(path: Path, stop: StopRequest, supervised: bool) -> None:
    """Executes the runs of a job file until one fails or the trial is pruned.

    Args:
        path: Job file, a `TrialJob`.
        stop: Set when the process is asked to stop.
        supervised: Whether another process restarts this one after a crash.

    Raises:
        RunStoppedError: The process was asked to stop.
        InputError: The job cannot be read.
    """
    job = TrialJob.read(path)
    watch = job.watch
    with trial_reporter(None if watch is None else watch.trial) as reporter:
        finals = [] if watch is None else list(watch.before)
        for spec in job.runs:
            if reporter is not None and reporter.is_pruned:
                return
            alone = job.model_copy(update={"runs": [spec]})
            learner_of = partial(_learner, job, watch, reporter, finals)
            bench.run_job(alone, stop, learner_of, supervised=supervised)
            directory = RunDirectory.of(Path(job.out), spec)
            if not directory.is_done:
                return
            if watch is not None and spec is not job.runs[-1]:
                finals.append(OBJECTIVES[watch.objective].of(directory.read_result()))
                if reporter is not None and not _goes_on(reporter, watch, finals):
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


def _goes_on(reporter: TrialReporter, watch: TrackingSettings, finals: list[float]) -> bool:
    """Reports the completed runs; returns whether the trial continues."""
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
