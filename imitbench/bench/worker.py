"""The worker process: runs the job that it is given.

python -m imitbench.bench.worker JOBFILE     one job
python -m imitbench.bench.worker -           job files named on standard input, one per line;
each is answered by a line on standard output

Exit codes: 0 when every run has an outcome, which may be a recorded failure; 75 when a signal
(SIGTERM, SIGUSR1, SIGUSR2) requested a stop and the same job resumes the remaining runs; 76 when a
new process must continue the job (only when jobs are named on standard input); 2 when nothing
could be done.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from imitbench.bench import provenance
from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.bench.environments import use_simulator_threads
from imitbench.bench.implementation import make_learner
from imitbench.bench.job import Job
from imitbench.bench.learner import Learner
from imitbench.bench.monitor import Monitor, Phase
from imitbench.bench.provenance import isolation_of
from imitbench.bench.stopping import (
    GRACE_S,
    RunStoppedError,
    StopRequest,
    TimeLimit,
    catch_stop_signals,
)
from imitbench.bench.training import run_trainings
from imitbench.bench.training_setup import Trained, Training, TrainingConfig, TrainingInputs
from imitbench.bench.worker_death import attempt_number, is_settled
from imitbench.errors import InputError
from imitbench.executors.base import RESTART, STOPPED
from imitbench.executors.devices import require_device
from imitbench.records.episodes import Episodes
from imitbench.records.runs import Provenance, RunFailure, RunResult, RunSpec
from imitbench.store.lease import LeaseLostError
from imitbench.store.run_dir import RunDirectory, RunStatus, State
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.source_import import register
from imitbench.util.text_line import encodable
from imitbench.util.torch_startup import use_one_thread


class UnusableProcessError(BaseException):
    """A recorded failure may have corrupted the state of this process for later runs."""


LearnerOf = Callable[[RunSpec], Learner]
_TELL_S = 1.0  # between two records of how far an evaluation is


def run_job(
    job: Job,
    stop: StopRequest | None = None,
    learner_of: LearnerOf = make_learner,
    *,
    supervised: bool = False,
) -> None:
    """Does every run of a job that is not done yet.

    A run that another process is working on is skipped and checked again at the end. A run whose
    attempts are used up leaves `error.json` and does not stop the others.

    Args:
        job: Runs and options.
        stop: Set when the process receives a request to stop.
        learner_of: Makes the learner of a run, not set up yet.
        supervised: Whether a supervisor started this process. The supervisor records a crash and
            gives the job to another process.

    Raises:
        RunStoppedError: A stop was requested; the current run can be resumed where it stopped.
        UnusableProcessError: Another process must continue the job; only when supervised.
    """
    stop = stop or StopRequest()
    use_simulator_threads(job.threads or 1)
    for digest, source in job.sources.items():
        register(digest, source)

    def do(runs: list[RunSpec], *, wait: bool) -> bool:
        return _claim_and_run(job, runs, stop, learner_of, supervised=supervised, wait=wait)

    groups = [[spec] for spec in job.runs]
    if job.runs[0].pack:  # sorted, because two processes that claim in one order never deadlock
        groups = [sorted(job.runs, key=lambda spec: spec.seed)]
    busy = [group for group in groups if not do(group, wait=False)]
    for group in busy:
        while not do(group, wait=True):
            pass


def _claim_and_run(
    job: Job,
    runs: list[RunSpec],
    stop: StopRequest,
    learner_of: LearnerOf,
    *,
    supervised: bool,
    wait: bool,
) -> bool:
    """Does a run, or the runs of a pack, unless they are done.

    Returns:
        `False` when another process holds one of them.
    """
    stop.check()
    claims = [_Claim.of(job, spec) for spec in runs]
    with contextlib.ExitStack() as held:
        for claim in claims:
            entered = claim.directory.claim(wait=wait, while_waiting=stop.check)
            if not held.enter_context(entered):
                return False
        while open_ := [claim for claim in claims if not claim.is_settled(job, waited=wait)]:
            stop.check()
            begun = any(claim.is_begun(job) for claim in open_)
            try:
                run = _RunAttempt(job, open_, stop, learner_of, supervised)
                run.execute(rebuild=job.force and not begun)
            except LeaseLostError as error:
                print(f"{run.name}: {error}; that process continues it", file=sys.stderr)
                return False
            except OSError as error:  # the failure could not be recorded either
                path = open_[0].directory.path
                raise InputError(f"{error.filename or path}: {error.strerror}") from error
    return True


@dataclass(frozen=True)
class _Claim:
    """A run and its directory.

    Attributes:
        spec: Specification of the run.
        directory: Directory of the run.
        started_as: Outcome before the directory was claimed, see `RunDirectory.outcome_stamp`.
    """

    spec: RunSpec
    directory: RunDirectory
    started_as: str | None

    @classmethod
    def of(cls, job: Job, spec: RunSpec) -> _Claim:
        directory = RunDirectory.of(Path(job.out), spec)
        return cls(spec, directory, directory.outcome_stamp())

    def is_settled(self, job: Job, *, waited: bool) -> bool:
        done_by_other = waited and self.directory.outcome_stamp() != self.started_as
        return done_by_other or is_settled(job, self.spec)

    def is_begun(self, job: Job) -> bool:
        status = self.directory.last_status()
        return status is not None and status.job == job.id


@dataclass
class _RunAttempt(Monitor):
    """One attempt at a run, or at the runs of a pack, from loading to the results.

    The first run leads: its directory has the checkpoints and the log. It is finished last,
    because its checkpoints are removed then.
    """

    job: Job
    claims: list[_Claim]
    stop: StopRequest
    learner_of: LearnerOf
    supervised: bool
    attempt: int = 1
    limit: TimeLimit = field(default_factory=lambda: TimeLimit(None))
    phase: Phase = "load"
    step: int | None = None
    train_s: float = 0.0
    episodes: tuple[int, int] | None = None
    phase_began: float = 0.0
    told_at: float = 0.0

    @property
    def name(self) -> str:
        """Name in messages."""
        return ", ".join(claim.spec.label for claim in self.claims)

    @property
    def spec(self) -> RunSpec:
        """Specification of the run that leads."""
        return self.claims[0].spec

    @property
    def directory(self) -> RunDirectory:
        """Directory of the run that leads."""
        return self.claims[0].directory

    def execute(self, *, rebuild: bool) -> None:
        """Makes one attempt, which may continue from the checkpoint of an earlier one."""
        self.attempt = max(attempt_number(self.job, claim.directory) for claim in self.claims)
        self.limit = TimeLimit(self.job.timeout_s)
        for claim in self.claims:
            claim.directory.begin(claim.spec, rebuild=rebuild)
        opened = self.directory.log.open("a", 1, encoding="utf-8", errors="backslashreplace")
        # What a learner prints goes to the run's log.
        with opened as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            where = f"{socket.gethostname()}, device {self.spec.device}"
            print(f"-- {provenance.now()} on {where}: {self._attempt_in_words()}")
            self._refer_to_log()
            try:
                with self.limit.enforced() if self.supervised else contextlib.nullcontext():
                    results = self._run()
            except LeaseLostError:
                raise
            except RunStoppedError:
                print("stop requested")
                with contextlib.suppress(OSError):
                    self._write_status("interrupted")
                raise
            except Exception as error:
                self._failed(error)
            else:
                self._write_status("done")
                for claim, result in reversed(list(zip(self.claims, results, strict=True))):
                    claim.directory.finish(result)

    def _refer_to_log(self) -> None:
        """Writes to the other logs of a pack where its log is."""
        for claim in self.claims[1:]:
            with claim.directory.log.open("a", encoding="utf-8") as log:
                log.write(
                    f"trained in a pack with {self.spec.label}: see the log of {self.spec.run_id}\n"
                )

    def _failed(self, error: Exception) -> None:
        with contextlib.suppress(OSError):  # the disk may be what failed
            traceback.print_exc()
            print(f"{self._attempt_in_words()} failed")
        if self.attempt <= self.job.retries:
            self.attempt += 1
            self._write_status("interrupted")
        else:
            with contextlib.suppress(OSError):
                self._write_status("failed")
            for claim in reversed(self.claims):
                claim.directory.fail(self._failure(claim.spec, error))
        if self.supervised and self.spec.device != "cpu":
            raise UnusableProcessError

    def _attempt_in_words(self) -> str:
        return f"attempt {self.attempt} of {self.job.retries + 1}"

    def _run(self) -> list[RunResult]:
        started_at, started = provenance.now(), time.monotonic()
        trained = run_trainings(
            self._trainings(),
            CheckpointManager(self.directory.checkpoints, self.job.checkpoint_s),
            self,
        )
        wall_s = (time.monotonic() - started) / (self.spec.pack or 1)
        return [
            self._result(claim.spec, own, wall_s, started_at)
            for claim, own in zip(self.claims, trained, strict=True)
        ]

    def _trainings(self) -> list[Training]:
        """Returns the trainings of a pack in the order of seeds in the plan, or the only one."""
        directories = {claim.spec.run_id: claim.directory for claim in self.claims}
        specs = [claim.spec for claim in self.claims]
        if specs[0].pack:
            specs = sorted([*self.job.runs, *self.job.companions], key=lambda spec: spec.seed)
        return [
            Training(
                TrainingConfig.of(spec), partial(self._load, spec), directories.get(spec.run_id)
            )
            for spec in specs
        ]

    def _result(self, spec: RunSpec, trained: Trained, wall_s: float, started_at: str) -> RunResult:
        stochastic = trained.stochastic
        returns = (stochastic.returns, trained.deterministic.returns)
        if not all(np.isfinite(found).all() for found in returns):
            raise ValueError("a return of the evaluation is not finite")
        measures = {**trained.measures, **self._transfer_measures(trained.transfer)}
        return RunResult(
            run_id=spec.run_id,
            raw_return=float(stochastic.returns.mean()),
            return_std=float(stochastic.returns.std()),
            deterministic_return=float(trained.deterministic.returns.mean()),
            mean_length=float(stochastic.lengths.mean()),
            termination_rate=float(stochastic.terminated.mean()),
            env_steps=trained.env_steps,
            train_s=trained.train_s,
            wall_s=wall_s,
            started_at=started_at,
            finished_at=provenance.now(),
            references=self.job.references,
            provenance=self._provenance(spec),
            measures={name: value for name, value in measures.items() if math.isfinite(value)},
            success_rate=stochastic.success_rate,
            deterministic_success_rate=trained.deterministic.success_rate,
        )

    def _provenance(self, spec: RunSpec) -> Provenance:
        return provenance.describe_provenance(self.job.command, spec.device, isolation_of(spec))

    def _load(self, spec: RunSpec) -> TrainingInputs:
        require_device(spec.device)
        root, out = Path(self.job.source_root), Path(self.job.out)
        return TrainingInputs.of(spec, root, self.learner_of, out)

    def _transfer_measures(self, episodes: Episodes | None) -> dict[str, float]:
        """Returns the evaluation of a policy trained from scratch on the learned reward."""
        if episodes is None:
            return {}
        mean, references = float(episodes.returns.mean()), self.job.references
        return {
            "transfer_return": mean,
            "transfer_score": references.score(references.headline(mean, episodes.success_rate)),
        }

    def enter(self, phase: Phase) -> None:
        """Records what the run is doing."""
        self.phase, self.episodes, self.phase_began = phase, None, time.monotonic()
        self.check()
        self._write_status("running")

    def begin(self, progress: RunProgress) -> None:
        """Writes to the log how long earlier attempts trained."""
        if progress.curve or progress.train_s:
            print(f"resumed after {progress.train_s:.1f} s of training")

    def flushed(self, step: int, train_s: float) -> None:
        """Records how far training is, for processes that follow it."""
        self.step, self.train_s = step, train_s
        self._write_status("running")

    def evaluated(self, ended: int, total: int) -> None:
        """Records how far an evaluation is, about once a second."""
        now = time.monotonic()
        if now - self.told_at >= _TELL_S:
            self.episodes, self.told_at = (ended, total), now
            with contextlib.suppress(OSError):
                self._write_status("running")

    def check(self) -> None:
        """Raises if the run must stop, unless it is about to be complete."""
        for claim in self.claims:
            claim.directory.check_claim()
        if self.phase != "save":
            grace_s = GRACE_S if self.phase == "evaluate" else 0.0
            self.stop.check(0.0 if self.resumes_at_once else grace_s)
            self.limit.check(self.phase, grace_s)

    def _write_status(self, state: State) -> None:
        status = RunStatus.now(
            state,
            self.phase,
            job=self.job.id,
            attempt=self.attempt,
            step=self.step,
            train_s=self.train_s,
            episodes=self.episodes,
            phase_s=time.monotonic() - self.phase_began if self.episodes else 0.0,
        )
        for claim in self.claims:
            claim.directory.write_status(status)

    def _failure(self, spec: RunSpec, error: Exception) -> RunFailure:
        return RunFailure(
            run_id=spec.run_id,
            phase=self.phase,
            error_type=type(error).__name__,
            message=encodable(str(error)) or type(error).__name__,
            traceback=encodable("".join(traceback.format_exception(error))),
            failed_at=provenance.now(),
            references=self.job.references,
            provenance=self._provenance(spec),
        )


Doer = Callable[[Path, StopRequest, bool], None]
"""Does the job in a file, given requests to stop and whether this process is supervised."""


def run_job_file(path: Path, stop: StopRequest, supervised: bool) -> None:
    """Does the runs of a job file, as `run_job` does."""
    run_job(Job.read(path), stop, supervised=supervised)


def main(arguments: list[str] | None = None, do: Doer = run_job_file) -> int:
    """Entry point.

    Args:
        arguments: One job file, or `-`; from the command line when `None`.
        do: Does the job in a file; other kinds of worker pass their own function.

    Returns:
        0, also when runs failed: their failure is recorded. 75 when a stop was requested: the
        same job resumes. 76 when a new process must continue. 2 for a malformed job, or when the
        results folder cannot be written.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1:
        print("usage: python -m imitbench.bench.worker JOBFILE | -", file=sys.stderr)
        return 2
    use_one_thread()
    leave_compiler_unloaded()
    try:
        with catch_stop_signals() as stop:
            if arguments[0] == "-":
                _serve(stop, do)
            else:
                do(Path(arguments[0]), stop, False)
    except RunStoppedError:
        return STOPPED
    except UnusableProcessError:
        return RESTART
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _serve(stop: StopRequest, do: Doer) -> None:
    """Answers each job file named on standard input once it is done."""
    # Open until the process ends: a reader that sees the end may request the exit code.
    answers = os.dup(1)
    os.dup2(2, 1)  # output of libraries must not be read as an answer
    faulthandler.enable(2)  # prints the traceback of a crash in C
    while True:
        with stop.idle():
            line = sys.stdin.readline()
        if not line:
            return
        do(Path(line.strip()), stop, True)
        os.write(answers, f"{line.strip()}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
