"""Checks that a method resumes bit for bit: compares a run with the same run interrupted.

Every interruption is real: the training process is stopped or killed, and another process resumes
from the files on disk. Interruptions are placed by counting the checkpoints that the method
offers, and are drawn from a seed, so that the check is repeatable.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from pydantic import Field

from imitbench.bench.checkpoint import generator_states
from imitbench.bench.implementation import make_learner
from imitbench.bench.job import Job
from imitbench.bench.learner import Callback, Checkpoint, Learner, LearnerWrapper, no_checkpoint
from imitbench.bench.seeding import derive_seed
from imitbench.bench.stopping import RunStoppedError, catch_stop_signals
from imitbench.bench.worker import run_job
from imitbench.conformance.bitwise import (
    Difference,
    PartDifferences,
    compare_runs,
    find_differences,
)
from imitbench.executors.base import STOPPED
from imitbench.records.runs import Budget, Record, ReferenceScores, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.files import atomic_write_text
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.source_import import SourceLocation
from imitbench.util.state_file import load_state, save_state
from imitbench.util.torch_startup import use_one_thread

Kind = Literal["stopped", "killed", "damaged"]
_SIGNALS = {"stop": signal.SIGTERM, "kill": signal.SIGKILL}
_CHECKPOINTS = 10  # about this many are written in a whole training
_NEVER_S = 1e9
_MOST_NAMES = 20
_STDERR_TAIL = 500  # characters

OFFERS_NONE = (
    "train() never offers a checkpoint, so an interrupted run starts from the beginning: call "
    "checkpoint() between two steps of training, when state_dict() is complete"
)
LACKS = (
    "state_dict() seems to lack something that training depends on: an optimizer, a generator, a "
    "buffer, the environments?"
)
NOT_REPEATABLE = (
    "two trainings differ before any interruption: something random is not seeded, or something "
    "depends on the time"
)
NOT_TRAINING = (
    "training ends in the same state, but the results differ: policy(), reward() or measures() "
    "depend on something that state_dict() lacks"
)


@dataclass(frozen=True)
class InterruptionOutcome:
    """One interruption, and its effects.

    Attributes:
        offer: Offer of a checkpoint after which it happened, counted from the start of the run.
        kind: `stopped`: SIGTERM, after which the run saves a checkpoint; `killed`: SIGKILL;
            `damaged`: as `stopped`, and then the latest checkpoint is truncated.
        resumed_at: Offer at which the run resumed; 0 for the beginning.
        unrestored: Values that `state_dict` returns, right after `load_state_dict`, differently
            from the checkpoint.
        later: Differences of the state of training, at the next interruption or at the end, from
            the run without interruption; excludes values that differ between any two trainings.
    """

    offer: int
    kind: Kind
    resumed_at: int
    unrestored: list[Difference]
    later: list[Difference]

    @property
    def lost(self) -> int:
        """Number of offers whose training had to be repeated."""
        return self.offer - self.resumed_at


@dataclass(frozen=True)
class ResumeVerdict:
    """Result of the check.

    Attributes:
        offers: Number of checkpoints that training offers.
        interruptions: All interruptions, in order.
        before: Differences of the states of training before the first interruption.
        parts: Comparison of the outputs of both runs.
        problem: Why the comparison was not possible; `None` if it was.
    """

    offers: int = 0
    interruptions: list[InterruptionOutcome] = field(default_factory=list)
    before: list[Difference] = field(default_factory=list)
    parts: list[PartDifferences] = field(default_factory=list)
    problem: str | None = None

    @property
    def exact(self) -> bool:
        """Whether the method resumed bit for bit in this check."""
        unrestored = any(interruption.unrestored for interruption in self.interruptions)
        unequal = any(part.differences for part in self.parts)
        return self.problem is None and not unrestored and not unequal

    @property
    def hint(self) -> str | None:
        """Likely cause of the problem; `None` if there is none."""
        if self.exact:
            return None
        if self.problem is not None:
            return self.problem
        for interruption in self.interruptions:
            if interruption.unrestored:
                return f"load_state_dict() does not restore {interruption.unrestored[0]}"
        # Only arrays, because single numbers may be times, which differ between any two trainings.
        for difference in self.before:
            if difference.in_array:
                return f"{NOT_REPEATABLE} ({difference})"
        for interruption in self.interruptions:
            if interruption.later:
                return f"{LACKS} After offer {interruption.offer}, {interruption.later[0]}"
        return NOT_TRAINING


class _TrialError(Exception):
    """A trial did not follow its configuration."""


def check_resume(
    spec: RunSpec,
    *,
    source_root: Path,
    sources: Mapping[str, SourceLocation] | None = None,
    references: ReferenceScores,
    folder: Path,
    kills: int = 3,
    notify: Callable[[str], None] = lambda _: None,
) -> ResumeVerdict:
    """Trains one run without interruption and once more with several, and compares.

    Args:
        spec: Specification of the run; its seed also determines the interruptions.
        source_root: Folder that holds `experts/` and `demos/`.
        sources: Locations of source outside this package, as for `Job`.
        references: References of the environment.
        folder: Empty folder for both runs.
        kills: Number of interruptions, in addition to one with a damaged checkpoint. There are
            fewer if training offers fewer checkpoints.
        notify: Called with messages about progress.

    Returns:
        Result of the check.
    """
    try:
        checker = _ResumeChecker(
            spec, source_root, references, folder.resolve(), notify, dict(sources or {})
        )
        return checker.verify(kills)
    except _TrialError as error:
        return ResumeVerdict(problem=str(error))


@dataclass
class _ResumeChecker:
    spec: RunSpec
    source_root: Path
    references: ReferenceScores
    folder: Path
    notify: Callable[[str], None]
    sources: dict[str, SourceLocation]

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(derive_seed(self.spec.seed, "interruptions"))

    def verify(self, kills: int) -> ResumeVerdict:
        twin = self._job("uninterrupted", checkpoint_s=_NEVER_S)
        wanted = kills + 1
        self.notify("training without interruption")
        seed = int(self._rng.integers(2**32))
        # One more than needed, because after the last offer there is hardly any training.
        twin_notes = self._notes(0)
        self._complete(TrialConfig(job=twin, notes=str(twin_notes), keep=wanted + 1, seed=seed))
        report = TrialReport.model_validate_json((twin_notes / "trained.json").read_bytes())
        if not report.offers and self.spec.budget.unit != "none":
            return ResumeVerdict(problem=OFFERS_NONE)
        offers = self._choose(report, wanted)
        kinds = self._kinds(len(offers))
        job = self._job("interrupted", checkpoint_s=0.0)
        every = max(1, report.offers // _CHECKPOINTS)
        for number, (offer, kind) in enumerate(zip(offers, kinds, strict=True), start=1):
            self.notify(f"{kind} after offer {offer} of {report.offers}")
            self._interrupt(job, offer, kind, number, every)
        self.notify("training to the end")
        end = len(offers) + 1
        self._complete(TrialConfig(job=job, notes=str(self._notes(end)), every=every))
        states: list[int | Literal["end"]] = [*offers, "end"]
        before, *later = [self._state_differences(i, s) for i, s in enumerate(states, start=1)]
        # For example, the duration of an episode.
        anyway = {_kind_of_name(difference) for difference in before}
        unlike = [
            [d for d in differences if _kind_of_name(d) not in anyway] for differences in later
        ]
        return ResumeVerdict(
            offers=report.offers,
            interruptions=[
                InterruptionOutcome(
                    offer, kind, *self._taken_up(number + 1), later=unlike[number - 1]
                )
                for number, (offer, kind) in enumerate(zip(offers, kinds, strict=True), start=1)
            ],
            before=before,
            parts=compare_runs(self._run("uninterrupted"), self._run("interrupted")),
        )

    def _choose(self, report: TrialReport, wanted: int) -> list[int]:
        """Returns the offers at which to interrupt, without the last one if possible."""
        kept = [offer for offer in report.kept if offer < report.offers] or report.kept
        while len(kept) > wanted:
            kept.pop(int(self._rng.integers(len(kept))))
        return kept

    def _kinds(self, count: int) -> list[Kind]:
        if count == 1:
            return ["stopped"]
        others: list[Kind] = ["killed", "stopped"]
        chosen: list[Kind] = ["damaged", *(others * count)][:count]
        return [chosen[index] for index in self._rng.permutation(count)]

    def _interrupt(self, job: str, offer: int, kind: Kind, number: int, every: int) -> None:
        sent: Literal["stop", "kill"] = "kill" if kind == "killed" else "stop"
        notes = str(self._notes(number))
        code, words = self._try(
            TrialConfig(job=job, notes=notes, every=every, interrupt_at=offer, signal=sent)
        )
        expected = STOPPED if sent == "stop" else -_SIGNALS[sent]
        directory = self._run("interrupted")
        status = directory.last_status()
        # The evaluation ends at once, too, and keeps the training.
        trained = sent == "stop" and status is not None and status.phase == "evaluate"
        if code != expected or directory.has_outcome or trained:
            self._check_failure(directory, words)
            complete = directory.is_done or trained
            happened = "it completed" if complete else f"it ended with code {code}{words}"
            raise _TrialError(
                f"the run should have been {kind} after offer {offer}, but {happened}: training "
                "must offer the same number of checkpoints each time, and must not swallow "
                "exceptions of checkpoint()"
            )
        if kind == "damaged":
            newest = max(directory.checkpoints.glob("*.state"), key=lambda path: int(path.stem))
            content = newest.read_bytes()
            newest.write_bytes(content[: len(content) // 2])

    def _complete(self, config: TrialConfig) -> None:
        code, words = self._try(config)
        [spec] = Job.read(Path(config.job)).runs
        directory = RunDirectory.of(Path(Job.read(Path(config.job)).out), spec)
        self._check_failure(directory, words)
        if code or not directory.is_done:
            raise _TrialError(f"the process that trains ended with code {code}{words}")

    def _check_failure(self, directory: RunDirectory, words: str) -> None:
        if directory.has_failed:
            failure = directory.read_failure()
            raise _TrialError(
                f"the run fails ({failure.phase}): {failure.error_type}: {failure.message}{words}"
            )

    def _try(self, config: TrialConfig) -> tuple[int, str]:
        """Runs a trial in a new process; returns its exit code and the end of its output."""
        notes = Path(config.notes)
        notes.mkdir(parents=True)
        path, errors = notes / "config.json", notes / "stderr"
        atomic_write_text(path, config.model_dump_json())
        process = _trial_processes().Process(
            target=run_trial,
            args=(str(path), str(errors), str(Path.cwd()), dict(os.environ)),
        )
        process.start()
        try:
            process.join()
        finally:
            process.kill()
            process.join()
        words = errors.read_text(errors="replace").strip() if errors.exists() else ""
        words = words[-_STDERR_TAIL:]
        assert process.exitcode is not None, "it was waited for"
        return process.exitcode, f"; end of its output: {words}" if words else ""

    def _taken_up(self, number: int) -> tuple[int, list[Difference]]:
        """Returns the offer from which a trial resumed, and values that it did not restore."""
        path = self._notes(number) / "resumed.json"
        if not path.exists():
            return 0, []
        report = ResumeReport.model_validate_json(path.read_bytes())
        return report.offer, [Difference(name, what) for name, what in report.unrestored]

    def _state_differences(self, number: int, offer: int | Literal["end"]) -> list[Difference]:
        expected, found = (
            load_state(state_file(self._notes(trial), offer)) for trial in (0, number)
        )
        listed = find_differences(expected["learner"], found["learner"])
        for name, state in expected["generators"].items():
            if find_differences(state, found["generators"][name]):
                listed.append(Difference(f"{name}", "differs: the global generator of that name"))
        return listed

    def _job(self, name: str, *, checkpoint_s: float) -> str:
        job = Job(
            out=str(self.folder / name),
            source_root=str(self.source_root.resolve()),
            sources=self.sources,
            runs=[self.spec],
            references=self.references,
            command="imitbench verify-resume",
            checkpoint_s=checkpoint_s,
        )
        return str(job.write())

    def _run(self, name: str) -> RunDirectory:
        return RunDirectory.of(self.folder / name, self.spec)

    def _notes(self, number: int) -> Path:
        """Returns the folder of a trial; 0 is the one without interruption."""
        return self.folder / "notes" / str(number)


def _trial_processes() -> ForkServerContext:
    """Returns what starts processes that do not have to import torch again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_trial.__module__, "stable_baselines3"])
    # Its own processes look for modules in the folder where they start; those that do trials go to
    # the folder of this process, without looking there.
    before = Path.cwd()
    os.chdir(before.anchor)
    try:
        resource_tracker.ensure_running()
        forkserver.ensure_running()
    finally:
        os.chdir(before)
    return context


def _kind_of_name(difference: Difference) -> str:
    """Returns the name without positions in lists."""
    return re.sub(r"\.\d+(?=\.|$)", "", difference.name)


def as_document(verification: ResumeVerdict) -> dict[str, Any]:
    """Returns the result as a JSON object, with at most the first 20 differences of each kind."""

    def named(found: list[Difference]) -> list[dict[str, str]]:
        return [
            {"name": difference.name, "what": difference.what} for difference in found[:_MOST_NAMES]
        ]

    return {
        "exact": verification.exact,
        "hint": verification.hint,
        "offers": verification.offers,
        "interruptions": [
            {
                "offer": interruption.offer,
                "kind": interruption.kind,
                "resumed_at": interruption.resumed_at,
                "lost": interruption.lost,
                "unrestored": named(interruption.unrestored),
                "later": named(interruption.later),
            }
            for interruption in verification.interruptions
        ],
        "before": named(verification.before),
        "parts": [
            {"part": part.part, "count": part.count, "differences": named(part.differences)}
            for part in verification.parts
        ],
    }


# The worker for one run of the check: the usual worker with a learner that counts the checkpoints
# that the method offers, saves its state at some of them, and at one sends a signal to itself.


class TrialConfig(Record):
    """Configuration of a trial (a JSON file).

    Attributes:
        job: Path of the job file, which has one run.
        notes: Absolute path of the folder for states and reports.
        keep: Number of offers, drawn at random, at which the state is saved.
        seed: Seed of the draw.
        every: Number of offers between two checkpoints; 0 for no checkpoints.
        interrupt_at: Offer at which to interrupt, counted from the start of the run.
        signal: `stop` sends SIGTERM, `kill` sends SIGKILL.
    """

    job: str
    notes: str
    keep: int = Field(default=0, ge=0)
    seed: int = 0
    every: int = Field(default=0, ge=0)
    interrupt_at: int | None = None
    signal: Literal["stop", "kill"] = "stop"


class TrialReport(Record):
    """Report of a trial that completed its training (`trained.json`).

    Attributes:
        offers: Number of checkpoints that were offered.
        kept: Offers at which the state was saved, ascending.
    """

    offers: int
    kept: list[int]


class ResumeReport(Record):
    """Report of a trial that resumed from a checkpoint (`resumed.json`).

    Attributes:
        offer: Offer at which the checkpoint was written.
        unrestored: Names of values that `state_dict` returns differently from the checkpoint, with
            a description of the difference.
    """

    offer: int
    unrestored: list[tuple[str, str]]


def state_file(notes: Path, offer: int | Literal["end"]) -> Path:
    """Returns the path of the state at an offer, or at the end of training."""
    return notes / f"{offer}.kept"


class InterruptibleLearner(LearnerWrapper):
    """Counts a learner's offers of checkpoints, and may interrupt it at one.

    Args:
        learner: Learner to train.
        config: Configuration of the trial.
    """

    def __init__(self, learner: Learner, config: TrialConfig) -> None:
        super().__init__(learner)
        self._config = config
        self._notes = Path(config.notes)
        self._offers = 0
        self._kept: list[int] = []
        self._rng = np.random.default_rng(config.seed)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains; is interrupted if configured, otherwise saves the final state."""
        env_steps = self.learner.train(budget, callback, lambda: self._offered(checkpoint))
        self._keep("end")
        report = TrialReport(offers=self._offers, kept=sorted(self._kept))
        atomic_write_text(self._notes / "trained.json", report.model_dump_json())
        return env_steps

    def state_dict(self) -> dict[str, Any]:
        """Returns the learner's state, and the number of offers so far."""
        return {"learner": self.learner.state_dict(), "offers": self._offers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the learner, and reports whether it then returns the same state."""
        self.learner.load_state_dict(state["learner"])
        self._offers = state["offers"]
        found = find_differences(state["learner"], self.learner.state_dict())
        report = ResumeReport(
            offer=self._offers, unrestored=[(d.name, d.what) for d in found[:_MOST_NAMES]]
        )
        atomic_write_text(self._notes / "resumed.json", report.model_dump_json())

    def _offered(self, checkpoint: Checkpoint) -> None:
        self._offers += 1
        self._sample()
        if self._offers == self._config.interrupt_at:
            self._keep(self._offers)
            os.kill(os.getpid(), _SIGNALS[self._config.signal])
            checkpoint()
        elif self._config.every and self._offers % self._config.every == 0:
            checkpoint()

    def _sample(self) -> None:
        """Saves the state at each offer with equal probability, for any number of offers."""
        if self._offers <= self._config.keep:
            self._kept.append(self._offers)
        else:
            drawn = int(self._rng.integers(self._offers))
            if drawn >= self._config.keep:
                return
            state_file(self._notes, self._kept[drawn]).unlink()
            self._kept[drawn] = self._offers
        self._keep(self._offers)

    def _keep(self, offer: int | Literal["end"]) -> None:
        state = {"learner": self.learner.state_dict(), "generators": generator_states()}
        save_state(state_file(self._notes, offer), state)


def run_trial(config: str, errors: str, folder: str, environment: Mapping[str, str]) -> NoReturn:
    """Runs a trial in this process, which nothing else uses, and ends it.

    The exit code is 0, also when the run failed; 75 when a stop was requested; 2 for a bad file.

    Args:
        config: Path of a file with a `TrialConfig`.
        errors: Path of the file that gets the output on stderr; stdout is discarded.
        folder: Working directory.
        environment: All environment variables.
    """
    os.chdir(folder)
    with Path(errors).open("wb") as file, Path(os.devnull).open("r+b") as nowhere:
        for number, opened in enumerate((nowhere, nowhere, file)):
            os.dup2(opened.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(_run_trial(Path(config)))


def _run_trial(path: Path) -> int:
    use_one_thread()
    leave_compiler_unloaded()
    try:
        config = TrialConfig.model_validate_json(path.read_bytes())
        with catch_stop_signals() as stop:
            run_job(
                Job.read(Path(config.job)),
                stop,
                lambda spec: InterruptibleLearner(make_learner(spec), config),
            )
    except RunStoppedError:
        return STOPPED
    except (OSError, ValueError) as error:
        print(f"trial: {error}", file=sys.stderr)
        return 2
    return 0
