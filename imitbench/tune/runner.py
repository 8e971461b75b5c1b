"""Runs a tuning: keeps up to `at_once` jobs of all studies in flight."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from imitbench.bench.stopping import InterruptFlag, catch_interrupts
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.store import lease
from imitbench.tune.held_out_comparison import HeldOutComparison
from imitbench.tune.request import StudySettings, TuneRequest
from imitbench.tune.storage import StudyLocation, open_storage
from imitbench.tune.study import Trial, read_trials
from imitbench.tune.study_runner import COMPARISON_FILE, StudyRunner, TuningObserver, study_folder
from imitbench.tune.trial_job import TrialJob
from imitbench.untrusted.files import read_content

_POLL_S = 0.2


@dataclass
class TuningOutcome:
    """How a tuning ended.

    Attributes:
        comparisons: Decided held-out comparisons, by the name of the study's scope.
        stopped: Whether it was stopped before all were decided.
        queued: Jobs that continue in a scheduler's queue.
    """

    comparisons: dict[str, HeldOutComparison] = field(default_factory=dict)
    stopped: bool = False
    queued: int = 0


def tune(
    request: TuneRequest, executor: Executor, root: Path, observer: TuningObserver, *, at_once: int
) -> TuningOutcome:
    """Searches, then compares the best trials with the defaults; resumes existing studies.

    Args:
        request: Settings of the tuning.
        executor: Executes jobs with the worker `TRIAL_WORKER`; closed at the end.
        root: Folder of the tuning, created if missing.
        observer: Receives progress.
        at_once: Maximum number of jobs in flight. With one, the result depends only on seeds.

    Raises:
        InputError: The request is invalid, or the folder cannot be written.
    """
    runners = [StudyRunner(request, scope, root, observer) for scope in request.scopes]
    with ExitStack() as stack:
        stack.callback(_lease(root).release)
        for runner in runners:
            runner.begin()
        pool = _JobPool(executor, runners, observer, at_once)
        try:
            recovered = pool.recover()
            for runner in runners:
                storage = stack.enter_context(
                    open_storage(StudyLocation.within(runner.folder, request.storage))
                )
                runner.forget_jobs({path.resolve() for path in recovered})
                runner.open(storage, [job for job in recovered.values() if runner.has(job)])
            with catch_interrupts(wanted=executor.prompt) as interruption:
                pool.work(interruption)
        except KeyboardInterrupt:
            pool.outcome.stopped = True
            pool.leave()
        except OSError as error:
            pool.leave()
            raise InputError(
                f"{root}: {error.strerror}; fix that, then run the same command again: "
                "finished trials are kept"
            ) from error
        except BaseException:
            pool.leave()  # no worker continues after an error
            raise
        else:
            if not pool.outcome.stopped:
                executor.close()
        pool.outcome.comparisons = {
            study.scope.name: study.comparison for study in runners if study.comparison is not None
        }
        return pool.outcome


def check_request(request: TuneRequest, root: Path) -> None:
    """Checks a tuning before it starts.

    Raises:
        InputError: No environment fits, an objective does not apply, or a study has other settings.
    """
    for scope in request.scopes:
        for env_id in scope.environments:
            environment = request.plan.environments[env_id]
            spec = request.spec(env_id, request.defaults, request.search_seeds[0])
            why = request.goal.refusal(request.algorithm, environment, spec)
            if why is not None:
                raise InputError(f"--objective {request.objective}: {env_id}: {why}")
        StudySettings.of(request, scope).check(study_folder(root, scope))


def _lease(root: Path) -> lease.Lease:
    """Ensures that no other process tunes in a folder.

    Raises:
        InputError: Another process does, or the folder cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be created ({error.strerror})") from error
    held = lease.acquire(root, wait=False)
    if held is None:
        raise InputError(f"{root}: another process is tuning there; wait for it, or give --name")
    return held


@dataclass
class _JobPool:
    """The jobs in flight."""

    executor: Executor
    runners: Sequence[StudyRunner]
    observer: TuningObserver
    at_once: int
    outcome: TuningOutcome = field(default_factory=TuningOutcome)
    jobs: dict[Path, TrialJob] = field(default_factory=dict)

    def recover(self) -> dict[Path, TrialJob]:
        """Takes over the jobs that an earlier process submitted."""
        for path in self.executor.adopt():
            with suppress(InputError):  # it was completed in the meantime
                job = TrialJob.read(path)
                if any(runner.has(job) for runner in self.runners):
                    self.jobs[path] = job
        return dict(self.jobs)

    def work(self, interruption: InterruptFlag) -> None:
        """Runs until nothing is left or the user interrupts."""
        self._fill()
        while self.jobs and not interruption.seen:
            for event in self.executor.poll(_POLL_S):
                self._handle(event)
            if not interruption.seen:
                self._fill()
        if interruption.seen:
            self._wind_down()

    def leave(self) -> None:
        """Stops workers, unless they outlive this process."""
        if self.executor.outlives:
            self.outcome.queued = sum(path.exists() for path in self.jobs)
            return
        self.executor.kill()
        for path in self.jobs:
            with suppress(OSError):  # the disk may be the cause of the error
                path.unlink(missing_ok=True)
        self.jobs.clear()

    def _fill(self) -> None:
        for runner in self.runners:
            while len(self.jobs) < self.at_once and (job := runner.take()) is not None:
                path = job.write()
                self.jobs[path] = job
                self.executor.submit([path])

    def _wind_down(self) -> None:
        self.outcome.stopped = True
        if not self.executor.outlives:
            self.observer.stopping()
            self.executor.stop()
            for event in self.executor.poll(0.0):
                if event.kind == "finished":
                    self._handle(event)
        self.leave()

    def _handle(self, event: JobEvent) -> None:
        job = self.jobs[event.job]
        if event.kind == "started":
            self.observer.started(job)
            return
        if event.kind == "stopped":  # by another process: resume it
            self.executor.submit([event.job])
            return
        if event.kind == "lost":
            raise InputError(
                "a job left the queue before it was done (cancelled, or its node was lost); run "
                "the same command to resume"
            )
        if event.kind == "died":
            how, *further = event.detail.splitlines()
            raise OSError(errno.EIO, f"{how}: {further[-1]}" if further else how)
        del self.jobs[event.job]
        event.job.unlink(missing_ok=True)
        self.observer.ended(job)
        [runner] = [runner for runner in self.runners if runner.has(job)]
        runner.finished(job)


@dataclass(frozen=True)
class StudyOverview:
    """A study on disk.

    Attributes:
        name: Name of the tuning.
        settings: Settings of the study.
        trials: All trials so far.
        comparison: Result of the last held-out comparison; `None` before the first one.
    """

    name: str
    settings: StudySettings
    trials: Sequence[Trial]
    comparison: HeldOutComparison | None


def read_studies(root: Path) -> list[StudyOverview]:
    """Reads the studies of a tuning, sorted by folder.

    Raises:
        InputError: A file is damaged.
    """
    found = []
    for folder in sorted(path.parent for path in root.glob("*/study.json")):
        settings = StudySettings.read(folder)
        assert settings is not None
        address = StudyLocation.within(folder, settings.storage)
        trials = read_trials(address) if Path(address.path).exists() else []
        found.append(StudyOverview(root.name, settings, trials, _comparison(folder)))
    return found


def _comparison(folder: Path) -> HeldOutComparison | None:
    path = folder / COMPARISON_FILE
    try:
        return HeldOutComparison.model_validate_json(read_content(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        problem = str(error).splitlines()[0]
        raise InputError(f"{path}: damaged ({problem}); delete it and tune again") from error
