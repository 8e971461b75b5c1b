"""The worker: runs the job it is given, whoever started it.

python -m imitbench.bench.worker JOBFILE     one job
python -m imitbench.bench.worker -           job files named on standard input, one a line;
each is answered by a line on standard output

Exit codes: 0 when every run has an outcome, be it a failure on record; 75 when it was asked to
stop (SIGTERM, SIGUSR1, SIGUSR2) and left runs that the same job resumes; 76 when it asks for a
fresh process to go on with the job (only when jobs are named on standard input); 2 when nothing
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import numpy as np

from imitbench.bench import provenance
from imitbench.bench.artifacts import demos_of, expert_of
from imitbench.bench.checkpoint import Checkpoints, Progress
from imitbench.bench.deaths import after_death, attempt_of, is_settled
from imitbench.bench.devices import require_device
from imitbench.bench.implementation import folder_of, hyperparameters_of, make_learner
from imitbench.bench.job import Job
from imitbench.bench.learner import Learner, Task
from imitbench.bench.protocol import Episodes, Evaluator
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.bench.stopping import GRACE_S, RunStoppedError, StopRequest, noted_stop
from imitbench.bench.time_limit import TimedOut, TimeLimit
from imitbench.errors import InputError
from imitbench.executors.base import RESTART, STOPPED
from imitbench.store.lease import LeaseLostError
from imitbench.store.records import RunFailure, RunResult, RunSpec
from imitbench.store.run_dir import EpisodeTable, RunDirectory, RunStatus, State
from imitbench.util.text_line import encodable
from imitbench.util.torch_startup import (
    leave_compiler_unloaded,
    repeat_exactly,
    use_one_thread,
)

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

__all__ = ["after_death", "do_job", "main", "make_learner", "run_job"]

Phase = Literal["load", "setup", "train", "evaluate", "save"]


class SpoiltProcessError(BaseException):
    """A failure, which is on record, may have spoilt all that this process does later."""


LearnerOf = Callable[[RunSpec], Learner]


def run_job(
    job: Job,
    stop: StopRequest | None = None,
    learner_of: LearnerOf = make_learner,
    *,
    supervised: bool = False,
) -> None:
    """Does every run of a job that is not done yet.

    A run that another process is working on is left to it and looked at again at the end. A
    run that fails as often as it may leaves `error.json` and does not stop the others.

    Args:
        job: What to do.
        stop: Made when the process is asked to stop.
        learner_of: Makes the learner of a run, not set up yet.
        supervised: Whether this process is expendable: whoever started it sees to it that its
            death is put on record, and gives the job to another one.

    Raises:
        RunStoppedError: It was; the run it was at can be resumed from where it stopped.
        SpoiltProcessError: Another process should go on with the job; only when supervised.
    """
    stop = stop or StopRequest()
    for digest, source in job.sources.items():
        source.register(digest)

    def do(spec: RunSpec, *, wait: bool) -> bool:
        return _claim_and_run(job, spec, stop, learner_of, supervised=supervised, wait=wait)

    busy = [spec for spec in job.runs if not do(spec, wait=False)]
    for spec in busy:
        while not do(spec, wait=True):
            pass


def _claim_and_run(
    job: Job,
    spec: RunSpec,
    stop: StopRequest,
    learner_of: LearnerOf,
    *,
    supervised: bool,
    wait: bool,
) -> bool:
    """Runs `spec` unless it is done; `False` when another process holds it."""
    stop.check()
    directory = RunDirectory.of(Path(job.out), spec)
    started_as = directory.outcome_stamp()
    with directory.claim(wait=wait, while_waiting=stop.check) as claimed:
        if not claimed:
            return False
        done_by_other = wait and directory.outcome_stamp() != started_as
        while not done_by_other and not is_settled(job, spec):
            stop.check()
            status = directory.last_status()
            begun = status is not None and status.job == job.id
            try:
                run = _Run(job, spec, directory, stop, learner_of, supervised)
                run.execute(afresh=job.force and not begun)
            except LeaseLostError as error:
                print(f"{spec.label}: {error}; it is left to that process", file=sys.stderr)
                return False
            except OSError as error:  # not even the failure could be written down
                raise InputError(f"{error.filename or directory.path}: {error.strerror}") from error
    return True


@dataclass
class _Run:
    """One run from loading to its result."""

    job: Job
    spec: RunSpec
    directory: RunDirectory
    stop: StopRequest
    learner_of: LearnerOf
    supervised: bool
    progress: Progress = field(default_factory=Progress)
    attempt: int = 1
    limit: TimeLimit = field(default_factory=lambda: TimeLimit(None))
    phase: Phase = "load"

    def execute(self, *, afresh: bool) -> None:
        """Makes one attempt, which may go on from the checkpoint of the one before."""
        self.attempt = attempt_of(self.job, self.directory)
        self.limit = TimeLimit(self.job.timeout_s)
        self.directory.begin(self.spec, afresh=afresh)
        opened = self.directory.log.open("a", 1, encoding="utf-8", errors="backslashreplace")
        with opened as log, _output_to(log):
            print(f"-- {provenance.now()} on {socket.gethostname()}: {self._attempt_in_words()}")
            try:
                with self.limit.enforced() if self.supervised else contextlib.nullcontext():
                    result = self._run()
            except LeaseLostError:
                raise
            except RunStoppedError:
                print("asked to stop")
                with contextlib.suppress(OSError):
                    self._tell("interrupted")
                raise
            except Exception as error:
                self._failed(error)
            else:
                self._tell("done")
                self.directory.finish(result)

    def _failed(self, error: Exception) -> None:
        with contextlib.suppress(OSError):  # the disk may be what failed
            traceback.print_exc()
            print(f"{self._attempt_in_words()} failed")
        if self.attempt <= self.job.retries:
            self.attempt += 1
            self._tell("interrupted")
        else:
            with contextlib.suppress(OSError):
                self._tell("failed")
            self.directory.fail(self._failure(error))
        if self.supervised and self.spec.device == "cuda":
            raise SpoiltProcessError

    def _attempt_in_words(self) -> str:
        return f"attempt {self.attempt} of {self.job.retries + 1}"

    def _run(self) -> RunResult:
        spec, started_at, started = self.spec, provenance.now(), time.monotonic()
        repeat_exactly(spec.device)
        seed_everything(derive_seed(spec.seed, "training"))
        self._enter("load")
        require_device(spec.device)
        learner, demos = self._load()
        environments = spec.protocol.environments
        with Evaluator(spec.environment.evaluated, environments, check=self._check) as evaluator:
            self._enter("setup")
            task = self._task(evaluator)
            _check_demos(demos, task, spec)
            rng = np.random.default_rng(derive_seed(spec.seed, "learner"))
            learner.setup(task, demos, rng, spec.device)
            self._enter("train")
            env_steps = self._train(learner)
            self._enter("evaluate")
            stochastic, deterministic = (
                evaluator.evaluate(
                    learner.policy(),
                    episodes=spec.protocol.episodes,
                    seed=spec.seed,
                    deterministic=choice,
                )
                for choice in (False, True)
            )
            measures = {**learner.measures(), **self._transfer(learner, evaluator)}
        self._enter("save")
        self._save(learner, stochastic, deterministic)
        return RunResult(
            run_id=spec.run_id,
            raw_return=float(stochastic.returns.mean()),
            return_std=float(stochastic.returns.std()),
            deterministic_return=float(deterministic.returns.mean()),
            mean_length=float(stochastic.lengths.mean()),
            termination_rate=float(stochastic.terminated.mean()),
            env_steps=env_steps,
            train_s=self.progress.train_s,
            wall_s=time.monotonic() - started,
            started_at=started_at,
            finished_at=provenance.now(),
            references=self.job.references,
            provenance=provenance.describe(self.job.command, spec.device),
            measures={name: value for name, value in measures.items() if math.isfinite(value)},
        )

    def _transfer(self, learner: Learner, evaluator: Evaluator) -> dict[str, float]:
        """What the learnt reward teaches an agent that starts from scratch."""
        policy = learner.transfer_policy()
        if policy is None:
            return {}
        episodes = evaluator.evaluate(
            policy, episodes=self.spec.protocol.episodes, seed=self.spec.seed, deterministic=False
        )
        mean = float(episodes.returns.mean())
        return {
            "transfer_return": mean,
            "transfer_score": self.job.references.score(mean),
        }

    def _train(self, learner: Learner) -> int:
        """Trains from the start, or from where an interrupted attempt left a checkpoint."""
        checkpoints = Checkpoints(self.directory.checkpoints, self.job.checkpoint_s)
        before = checkpoints.resume(learner)
        if before is not None:
            self.progress = before
            print(f"resumed after {before.train_s:.1f} s of training")
        earlier, started = self.progress.train_s, time.monotonic()

        def progress() -> Progress:
            self.progress.train_s = earlier + time.monotonic() - started
            return self.progress

        def offer() -> None:
            self.directory.check_claim()
            try:
                self.stop.check()
                self.limit.check(self.phase)
            except (RunStoppedError, TimedOut):
                self._save_at_once(checkpoints, learner, progress())
                raise
            checkpoints.save_if_due(learner, progress)

        env_steps = learner.train(self.spec.budget, self._record, offer)
        progress()
        return env_steps

    def _save_at_once(self, checkpoints: Checkpoints, learner: Learner, progress: Progress) -> None:
        try:
            checkpoints.save(learner, progress)
        except OSError as error:  # the one before is still there
            print(f"no checkpoint could be written: {error}", file=sys.stderr)

    def _check(self) -> None:
        """Leaves a run that is not to go on, unless it is about to be complete."""
        self.directory.check_claim()
        if self.phase != "save":
            grace_s = GRACE_S if self.phase == "evaluate" else 0.0
            self.stop.check(grace_s)
            self.limit.check(self.phase, grace_s)

    def _load(self) -> tuple[Learner, list[TrajectoryWithRew]]:
        return self.learner_of(self.spec), demos_of(self.spec, Path(self.job.source_root))

    def _task(self, evaluator: Evaluator) -> Task:
        spaces = evaluator.observation_space, evaluator.action_space
        expert = expert_of(self.spec, Path(self.job.source_root), *spaces, self.spec.device)
        return Task(
            environment=self.spec.environment,
            observation_space=spaces[0],
            action_space=spaces[1],
            hyperparameters=hyperparameters_of(self.spec),
            seed=derive_seed(self.spec.seed, "training"),
            expert=expert,
            folder=folder_of(self.spec),
        )

    def _record(self, step: int, metrics: Mapping[str, float]) -> None:
        self.progress.curve.append({"step": step, **metrics})

    def _save(self, learner: Learner, stochastic: Episodes, deterministic: Episodes) -> None:
        from imitbench.policies.storage import save_policy

        save_policy(learner.policy(), self.directory.policy)
        reward = learner.reward()
        if reward is not None:
            from imitbench.rewards.storage import save_reward

            save_reward(reward, self.directory.reward)
        self.directory.write_curve(self.progress.curve)
        both = (stochastic, deterministic)
        self.directory.write_episodes(
            EpisodeTable(
                returns=np.concatenate([e.returns for e in both]),
                lengths=np.concatenate([e.lengths for e in both]),
                terminated=np.concatenate([e.terminated for e in both]),
                deterministic=np.concatenate(
                    [np.full(len(e.returns), e.deterministic) for e in both]
                ),
            )
        )

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._check()
        self._tell("running")

    def _tell(self, state: State) -> None:
        self.directory.write_status(
            RunStatus(
                state=state,
                phase=self.phase,
                pid=os.getpid(),
                host=socket.gethostname(),
                updated_at=provenance.now(),
                job=self.job.id,
                attempt=self.attempt,
            )
        )

    def _failure(self, error: Exception) -> RunFailure:
        return RunFailure(
            run_id=self.spec.run_id,
            phase=self.phase,
            error_type=type(error).__name__,
            message=encodable(str(error)) or type(error).__name__,
            traceback=encodable("".join(traceback.format_exception(error))),
            failed_at=provenance.now(),
            references=self.job.references,
            provenance=provenance.describe(self.job.command, self.spec.device),
        )


def _check_demos(demos: list[TrajectoryWithRew], task: Task, spec: RunSpec) -> None:
    if spec.demos is None:
        return
    from imitbench.data.demonstrations import validate_demonstrations

    validate_demonstrations(
        demos, task.observation_space, task.action_space, where=f"demos {spec.demos.repo}"
    )


@contextlib.contextmanager
def _output_to(log: TextIO) -> Iterator[None]:
    """Sends what a learner prints to the run's log."""
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        yield


Doer = Callable[[Path, StopRequest, bool], None]
"""Does the job in a file; told of a request to stop, and whether this process is supervised."""


def do_job(path: Path, stop: StopRequest, supervised: bool) -> None:
    """Does the runs of a job file, as `run_job` does."""
    run_job(Job.read(path), stop, supervised=supervised)


def main(arguments: list[str] | None = None, do: Doer = do_job) -> int:
    """Entry point.

    Args:
        arguments: One job file, or `-`; from the command line when `None`.
        do: Does a job: another worker's way, where it has one.

    Returns:
        0, also when runs failed: their failure is on record. 75 when asked to stop: the same
        job resumes. 76 to be replaced by a fresh process. 2 for a malformed job, or when the
        results folder cannot be written.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1:
        print("usage: python -m imitbench.bench.worker JOBFILE | -", file=sys.stderr)
        return 2
    use_one_thread()
    leave_compiler_unloaded()
    try:
        with noted_stop() as stop:
            if arguments[0] == "-":
                _serve(stop, do)
            else:
                do(Path(arguments[0]), stop, False)
    except RunStoppedError:
        return STOPPED
    except SpoiltProcessError:
        return RESTART
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _serve(stop: StopRequest, do: Doer) -> None:
    """Answers each job file named on standard input once it is done."""
    # Open until the process ends: whoever sees the end of it may ask for the exit code.
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    faulthandler.enable(2)  # a crash in C says where
    while True:
        with stop.idle():
            line = sys.stdin.readline()
        if not line:
            return
        do(Path(line.strip()), stop, True)
        os.write(answers, f"{line.strip()}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
