"""One study of a tuning: chooses the next job, and processes finished ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from optuna.storages import BaseStorage

from imitbench.bench.job import JOBS_FOLDER
from imitbench.errors import InputError
from imitbench.records.runs import RunResult, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.tune.held_out_comparison import (
    Candidate,
    CandidateResult,
    HeldOutComparison,
    candidates,
    compare_candidates,
)
from imitbench.tune.objectives import UnsuitableObjectiveError
from imitbench.tune.request import StudyScope, StudySettings, TuneRequest, distributions
from imitbench.tune.storage import StudyLocation
from imitbench.tune.study import Trial, TrialStudy
from imitbench.tune.trial_job import TrackingSettings, TrialJob, TrialLocation
from imitbench.util.files import atomic_write_text

SEARCH, HELD_OUT = "search", "held-out"
COMPARISON_FILE = "contest.json"


class TuningObserver(Protocol):
    """Receives the progress of a tuning."""

    def resumed(self, env: str, finished: int, interrupted: int, total: int) -> None:
        """A study was found on disk."""

    def started(self, job: TrialJob) -> None:
        """A worker started the runs of a trial, or one of the held-out comparison."""

    def ended(self, job: TrialJob) -> None:
        """The runs of a job ended."""

    def trial(self, env: str, trial: Trial, trials: Sequence[Trial], total: int) -> None:
        """A trial ended; `trials` are all so far."""

    def held_out(self, env: str, done: int, total: int) -> None:
        """A run of the held-out comparison ended."""

    def judged(self, env: str, comparison: HeldOutComparison) -> None:
        """The held-out comparison was decided."""

    def stopping(self) -> None:
        """Workers are saving checkpoints before they stop, which may take a while."""


def study_folder(root: Path, scope: StudyScope) -> Path:
    """Returns the folder of a study."""
    return root / scope.name.replace("/", "-")


class StudyRunner:
    """One study: of one environment, or of a suite with the same values on all environments.

    A trial runs its environments sequentially, so that all trials can be compared at the same
    points.

    Args:
        request: Settings of the tuning.
        scope: Environments of the study.
        root: Folder of the tuning.
        observer: Receives progress.

    Attributes:
        comparison: Result of the held-out comparison; `None` until it is decided.
    """

    def __init__(
        self, request: TuneRequest, scope: StudyScope, root: Path, observer: TuningObserver
    ) -> None:
        self.scope = scope
        self.folder = study_folder(root, scope)
        self.comparison: HeldOutComparison | None = None
        self._request = request
        self._observer = observer
        self._address = StudyLocation.within(self.folder, request.storage)
        self._at_work: dict[int, Trial] = {}
        self._again: deque[Trial] = deque()
        self._finalists: list[Candidate] = []
        self._waiting: deque[list[RunSpec]] = deque()
        self._open: set[str] = set()
        self._recovered: set[str] = set()

    def begin(self) -> None:
        """Writes the settings of the study.

        Raises:
            InputError: Another process has begun it with other settings since they were checked.
        """
        settings = StudySettings.of(self._request, self.scope)
        settings.check(self.folder)
        settings.write(self.folder)

    def has(self, job: TrialJob) -> bool:
        """Whether a job belongs to this study."""
        return job.runs[0].environment.id in self.scope.environments

    def open(self, storage: BaseStorage, recovered: Iterable[TrialJob]) -> None:
        """Resumes from what is on disk.

        Args:
            storage: Storage of the study.
            recovered: Jobs of this study that are still queued or running.
        """
        request = self._request
        space = distributions(request.algorithm, request.space)
        self._study: TrialStudy = TrialStudy(storage, space, request.defaults, request.seed)
        trials = self._study.trials
        running = [trial for trial in trials if trial.state == "running"]
        if trials:
            done = len(trials) - len(running)
            self._observer.resumed(self.scope.name, done, len(running), request.trials)
        trials_at_work = set()
        for job in recovered:
            if (number := _trial_id(job)) is None:
                self._recovered |= {spec.run_id for spec in job.runs}
            else:
                trials_at_work.add(number)
        for trial in running:
            if trial.id in trials_at_work:
                self._at_work[trial.id] = trial
            elif not self._settle(trial):
                self._again.append(trial)

    def forget_jobs(self, kept: set[Path]) -> None:
        """Removes job files of a killed process."""
        for path in self.folder.glob(f"**/{JOBS_FOLDER}/*.json"):
            if path.resolve() not in kept:
                path.unlink(missing_ok=True)

    def take(self) -> TrialJob | None:
        """Returns the next job; `None` if it must wait for running jobs, or none is left."""
        if self.comparison is not None:
            return None
        trial = self._next_trial()
        if trial is not None:
            self._at_work[trial.id] = trial
            return self._trial_job(trial)
        if self._at_work:
            return None
        if not self._finalists:
            self._begin_comparison()
        if self._waiting:
            specs = self._waiting.popleft()
            watch = None if self._request.goal.uses_reward else self._watch()
            return self._job(self.folder / HELD_OUT, specs, watch)
        if not self._open:
            self._end_comparison()
        return None

    def finished(self, job: TrialJob) -> None:
        """Processes a job that ended."""
        number = _trial_id(job)
        if number is None:
            self._runs_ended(job.runs)
            return
        trial = self._at_work.pop(number)
        if not self._settle(trial):
            self._again.append(trial)

    def _next_trial(self) -> Trial | None:
        if self._again:
            return self._again.popleft()
        while len(self._study.trials) < self._request.trials:
            trial = self._study.propose()
            if not self._settle_as_twin(trial):
                return trial
        return None

    def _settle_as_twin(self, trial: Trial) -> bool:
        """Completes a trial with the same values as an earlier one: its runs would be the same."""
        for other in self._study.trials:
            same = other.number != trial.number and other.values == trial.values
            if same and other.state == "complete" and other.value is not None:
                self._study.complete(trial, other.value)
                self._tell(trial)
                return True
        return False

    def _tell(self, trial: Trial) -> None:
        trials = self._study.trials
        self._observer.trial(self.scope.name, trials[trial.number], trials, self._request.trials)

    def _settle(self, trial: Trial) -> bool:
        """Records the outcome of a trial in the study, if its runs have ended."""
        [now] = [other for other in self._study.trials if other.number == trial.number]
        directories = [
            RunDirectory.of(self._trial_folder(now), spec)
            for env_id in self.scope.environments
            for spec in self._specs(now, env_id)
        ]
        failed = [directory for directory in directories if directory.has_failed]
        if now.pruned_at is not None:
            self._study.prune(now)
        elif failed:
            failure = failed[0].read_failure()
            if failure.error_type == UnsuitableObjectiveError.__name__:
                raise InputError(f"--objective {self._request.objective}: {failure.message}")
            self._study.fail(now, f"{failure.error_type}: {failure.message}")
        elif all(directory.is_done for directory in directories):
            values = [self._request.goal.of(directory.read_result()) for directory in directories]
            self._study.complete(now, float(np.mean(values)))
        else:
            return False
        self._tell(now)
        return True

    def _begin_comparison(self) -> None:
        request = self._request
        self._finalists = candidates(self._study.trials, request.defaults, request.best)
        if len(self._finalists) == 1:
            return
        cells = [
            [request.spec(env_id, candidate.values, seed) for seed in request.held_out_seeds]
            for env_id in self.scope.environments
            for candidate in self._finalists
        ]
        groups = cells
        if not request.pack_seeds:  # all settings get their first seed before any its second
            groups = [[spec] for seed in zip(*cells, strict=True) for spec in seed]
        self._open = {spec.run_id for group in groups for spec in group}
        for group in groups:
            if all(RunDirectory.of(self.folder / HELD_OUT, spec).is_done for spec in group):
                self._runs_ended(group, notify=False)
            elif group[0].run_id not in self._recovered:
                self._waiting.append(group)

    def _runs_ended(self, specs: Sequence[RunSpec], *, notify: bool = True) -> None:
        """Notes that a job ended; if runs have no outcome, all of it must be done again."""
        folder = self.folder / HELD_OUT
        if not all(RunDirectory.of(folder, spec).has_outcome for spec in specs):
            self._waiting.append(list(specs))
            return
        runs = len(self._request.held_out_seeds) * len(self.scope.environments)
        total = len(self._finalists) * runs
        for spec in specs:
            self._open.discard(spec.run_id)
            if notify:
                self._observer.held_out(self.scope.name, total - len(self._open), total)

    def _end_comparison(self) -> None:
        standings = [self._standing(candidate) for candidate in self._finalists]
        done = self._completed()
        self.comparison = compare_candidates(
            standings,
            trials=len(self._study.trials),
            env_steps=sum(result.env_steps for result in done),
            core_hours=round(sum(result.wall_s for result in done) / 3600, 2),
        )
        atomic_write_text(
            self.folder / COMPARISON_FILE, self.comparison.model_dump_json(indent=1) + "\n"
        )
        self._observer.judged(self.scope.name, self.comparison)

    def _completed(self) -> list[RunResult]:
        """Returns the results of all completed runs; pruned ones have none."""
        paths = self.folder.rglob("result.json")
        return [RunDirectory(path.parent).read_result() for path in paths]

    def _standing(self, candidate: Candidate) -> CandidateResult:
        scores, environments, returns, failed = [], [], [], 0
        specs = [
            self._request.spec(env_id, candidate.values, seed)
            for env_id in self.scope.environments
            for seed in (self._request.held_out_seeds if len(self._finalists) > 1 else ())
        ]
        for spec in specs:
            directory = RunDirectory.of(self.folder / HELD_OUT, spec)
            result = directory.read_result() if directory.is_done else None
            value = math.nan if result is None else self._request.goal.of(result)
            if result is None or not math.isfinite(value):
                failed += 1
                continue
            scores.append(value)
            environments.append(spec.environment.id)
            returns.append(result.raw_return)
        return CandidateResult(
            candidate=candidate,
            scores=scores,
            environments=environments if len(self.scope.environments) > 1 else [],
            returns=returns,
            failed=failed,
        )

    def _specs(self, trial: Trial, env_id: str) -> list[RunSpec]:
        seeds = self._request.search_seeds
        return [self._request.trial_spec(env_id, trial.values, seed) for seed in seeds]

    def _trial_job(self, trial: Trial) -> TrialJob:
        """Creates the job of a trial's runs on the first environment with missing runs."""
        folder = self._trial_folder(trial)
        before: list[float] = []
        for env_id in self.scope.environments:
            specs = self._specs(trial, env_id)
            directories = [RunDirectory.of(folder, spec) for spec in specs]
            if not all(directory.is_done for directory in directories):
                break
            before += [self._request.goal.of(directory.read_result()) for directory in directories]
        address = TrialLocation(study=self._address, id=trial.id, prune=self._request.prune)
        return self._job(folder, specs, self._watch(trial=address, before=before))

    def _watch(self, **trial: Any) -> TrackingSettings:
        request = self._request
        return TrackingSettings(
            objective=request.objective,
            points=request.points,
            episodes=request.episodes,
            **trial,
        )

    def _job(self, out: Path, specs: list[RunSpec], watch: TrackingSettings | None) -> TrialJob:
        request, plan = self._request, self._request.plan
        return TrialJob(
            out=str(out.resolve()),
            source_root=str(plan.source_root.resolve()),
            sources=plan.sources,
            runs=specs,
            references=plan.references(specs[0].environment.id),
            command=request.command,
            watch=watch,
            **dict(request.options),
        )

    def _trial_folder(self, trial: Trial) -> Path:
        """Returns the folder of a trial's runs; the run ids depend only on the trial's values."""
        return self.folder / SEARCH / f"{trial.number:04d}"


def _trial_id(job: TrialJob) -> int | None:
    """Returns the trial id of a job; `None` for a run of the held-out comparison."""
    return None if job.watch is None or job.watch.trial is None else job.watch.trial.id
