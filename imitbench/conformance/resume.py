"""Checks that a method resumes bit for bit: compares a run with the same run interrupted.

Every interruption is real: the training process is stopped or killed, and another process resumes
from the files on disk. Interruptions are placed by counting the checkpoints that the method
offers, and are drawn from a seed, so that the check is repeatable.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitbench.bench.job import Job
from imitbench.bench.seeding import derive_seed
from imitbench.conformance.bitwise import (
    Difference,
    PartDifferences,
    compare_runs,
    find_differences,
)
from imitbench.conformance.resume_trial import (
    SIGNALS,
    ResumeReport,
    TrialConfig,
    TrialReport,
    run_trial,
    state_file,
)
from imitbench.executors.base import STOPPED
from imitbench.records.runs import ReferenceScores, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.files import atomic_write_text
from imitbench.util.source_import import SourcePlace
from imitbench.util.state_file import load_state

Kind = Literal["stopped", "killed", "damaged"]
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
        unrestored = any(each.unrestored for each in self.interruptions)
        unequal = any(part.differences for part in self.parts)
        return self.problem is None and not unrestored and not unequal

    @property
    def hint(self) -> str | None:
        """Likely cause of the problem; `None` if there is none."""
        if self.exact:
            return None
        if self.problem is not None:
            return self.problem
        for each in self.interruptions:
            if each.unrestored:
                return f"load_state_dict() does not restore {each.unrestored[0]}"
        # Only arrays, because single numbers may be times, which differ between any two trainings.
        for difference in self.before:
            if difference.in_array:
                return f"{NOT_REPEATABLE} ({difference})"
        for each in self.interruptions:
            if each.later:
                return f"{LACKS} After offer {each.offer}, {each.later[0]}"
        return NOT_TRAINING


class _TrialError(Exception):
    """A trial did not follow its configuration."""


def check_resume(
    spec: RunSpec,
    *,
    source_root: Path,
    sources: Mapping[str, SourcePlace] | None = None,
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
        return _ResumeChecker(spec, source_root, references, folder, notify, sources).verify(kills)
    except _TrialError as error:
        return ResumeVerdict(problem=str(error))


class _ResumeChecker:
    def __init__(
        self,
        spec: RunSpec,
        source_root: Path,
        references: ReferenceScores,
        folder: Path,
        notify: Callable[[str], None],
        sources: Mapping[str, SourcePlace] | None,
    ) -> None:
        self._spec = spec
        self._source_root = source_root
        self._references = references
        self._folder = folder.resolve()
        self._notify = notify
        self._sources = dict(sources or {})
        self._rng = np.random.default_rng(derive_seed(spec.seed, "interruptions"))

    def verify(self, kills: int) -> ResumeVerdict:
        twin = self._job("uninterrupted", checkpoint_s=_NEVER_S)
        wanted = kills + 1
        self._notify("training without interruption")
        seed = int(self._rng.integers(2**32))
        # One more than needed, because after the last offer there is hardly any training.
        self._complete(TrialConfig(job=twin, notes=self._notes(), keep=wanted + 1, seed=seed))
        report = TrialReport.model_validate_json((self._twin_notes / "trained.json").read_bytes())
        if not report.offers and self._spec.budget.unit != "none":
            return ResumeVerdict(problem=OFFERS_NONE)
        offers = self._choose(report, wanted)
        kinds = self._kinds(len(offers))
        job = self._job("interrupted", checkpoint_s=0.0)
        every = max(1, report.offers // _CHECKPOINTS)
        for number, (offer, kind) in enumerate(zip(offers, kinds, strict=True), start=1):
            self._notify(f"{kind} after offer {offer} of {report.offers}")
            self._interrupt(job, offer, kind, number, every)
        self._notify("training to the end")
        end = len(offers) + 1
        self._complete(TrialConfig(job=job, notes=self._notes(end), every=every))
        states: list[int | Literal["end"]] = [*offers, "end"]
        before, *later = [self._state_differences(i, s) for i, s in enumerate(states, start=1)]
        # For example, the duration of an episode.
        anyway = {_kind_of_name(difference) for difference in before}
        unlike = [[d for d in each if _kind_of_name(d) not in anyway] for each in later]
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
        signal: Literal["stop", "kill"] = "kill" if kind == "killed" else "stop"
        notes = self._notes(number)
        code, words = self._try(
            TrialConfig(job=job, notes=notes, every=every, interrupt_at=offer, signal=signal)
        )
        expected = STOPPED if signal == "stop" else -SIGNALS[signal]
        directory = self._run("interrupted")
        if code != expected or directory.has_outcome:
            self._check_failure(directory, words)
            happened = "it completed" if directory.is_done else f"it ended with code {code}{words}"
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
        path = Path(self._notes(number)) / "resumed.json"
        if not path.exists():
            return 0, []
        report = ResumeReport.model_validate_json(path.read_bytes())
        return report.offer, [Difference(name, what) for name, what in report.unrestored]

    def _state_differences(self, number: int, offer: int | Literal["end"]) -> list[Difference]:
        expected, found = (
            load_state(state_file(notes, offer))
            for notes in (self._twin_notes, Path(self._notes(number)))
        )
        listed = find_differences(expected["learner"], found["learner"])
        for name, state in expected["generators"].items():
            if find_differences(state, found["generators"][name]):
                listed.append(Difference(f"{name}", "differs: the global generator of that name"))
        return listed

    def _job(self, name: str, *, checkpoint_s: float) -> str:
        job = Job(
            out=str(self._folder / name),
            source_root=str(self._source_root.resolve()),
            sources=self._sources,
            runs=[self._spec],
            references=self._references,
            command="imitbench verify-resume",
            checkpoint_s=checkpoint_s,
        )
        return str(job.write())

    def _run(self, name: str) -> RunDirectory:
        return RunDirectory.of(self._folder / name, self._spec)

    def _notes(self, number: int = 0) -> str:
        return str(self._folder / "notes" / str(number))

    @property
    def _twin_notes(self) -> Path:
        return Path(self._notes(0))


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
        return [{"name": each.name, "what": each.what} for each in found[:_MOST_NAMES]]

    return {
        "exact": verification.exact,
        "hint": verification.hint,
        "offers": verification.offers,
        "interruptions": [
            {
                "offer": each.offer,
                "kind": each.kind,
                "resumed_at": each.resumed_at,
                "lost": each.lost,
                "unrestored": named(each.unrestored),
                "later": named(each.later),
            }
            for each in verification.interruptions
        ],
        "before": named(verification.before),
        "parts": [
            {"part": part.part, "count": part.count, "differences": named(part.differences)}
            for part in verification.parts
        ],
    }
