"""Reads a folder of published results, and checks it against its manifest and digests.

The same checks serve code that uses the results and stops at the first problem, and code that
reports all problems.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from imitbench.errors import InputError
from imitbench.published.disclosure import Disclosure, read_disclosures
from imitbench.published.findings import Check, Findings, StrictFindings
from imitbench.published.results_folder import (
    MANIFEST_FILE,
    RACES,
    Manifest,
    ResultLine,
    curve_file,
    episodes_file,
    is_plain,
    parse_curve,
    parse_episodes,
    rewards_file,
    summarize_suite,
    text_digest,
)
from imitbench.published.run_checks import check_curve, check_rewards, check_scores
from imitbench.records.curves import LearningCurve
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun
from imitbench.records.reward_scores import RewardScores
from imitbench.records.runs import Record, RunFailure, RunResult, RunSpec
from imitbench.store.races import RegisteredRace, parse_race, restore
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted import gate
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

PACKED_FILE = "files.tar.xz"
"""In wheels, the files that the manifest of this package's own results lists; see `setup.py`."""

_MAX_BYTES = 2**30
_EXPORT_AGAIN = "export the results again"
_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True)
class LocatedRun:
    """A run, and where its line is.

    Attributes:
        where: File and number of the line.
        run: The published run.
    """

    where: str
    run: PublishedRun


@dataclass(frozen=True)
class Submission:
    """The readable content of a folder of published results.

    Attributes:
        folder: Folder of the submission.
        manifest: Its manifest; `None` if that is malformed.
        runs: Runs whose lines and episodes could be read.
        races: Registered races whose designs could be read.
        disclosures: Statements of how hyper-parameters were chosen.
    """

    folder: Path
    manifest: Manifest | None = None
    runs: list[LocatedRun] = field(default_factory=list)
    races: list[RegisteredRace] = field(default_factory=list)
    disclosures: list[Disclosure] = field(default_factory=list)

    @property
    def published(self) -> list[PublishedRun]:
        """The runs alone."""
        return [run.run for run in self.runs]

    @property
    def digest(self) -> str:
        """SHA-256 over all that the manifest says; empty if that is malformed."""
        return self.manifest.own_digest if self.manifest else ""


class _FormatMarker(BaseModel):
    format: Literal["imitbench-results"]


def is_submission(folder: Path) -> bool:
    """Whether a folder has the manifest of published results, valid or not."""
    try:
        _FormatMarker.model_validate_json(_read(folder, MANIFEST_FILE))
    except (InputError, ValidationError):
        return False
    return True


def check_no_submission(out: Path) -> None:
    """Checks that a results folder may be written to.

    Raises:
        InputError: It has published results, which would not be valid any more.
    """
    if is_submission(out):
        raise InputError(f"--out {out}: holds published results; name another folder")


def read_submission(folder: Path, findings: Findings) -> Submission:
    """Reads what `imitbench.published.results_folder.export_results` wrote.

    Checks the manifest, the digests, the lines and identities of runs, their episodes, and that
    the numbers stated follow from these.

    Raises:
        InputError: The folder has no published results.
    """
    text = _read(folder, MANIFEST_FILE)
    try:
        _FormatMarker.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            f"{folder / MANIFEST_FILE}: {first_problem(error)}; the folder has no published results"
        ) from error
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        findings.fail("manifest", MANIFEST_FILE, first_problem(error), _EXPORT_AGAIN)
        return Submission(folder)
    if manifest.digest is None:
        # Without it nothing tells an early version's manifest from a changed one.
        findings.fail("digests", MANIFEST_FILE, "has no digest of its own", _EXPORT_AGAIN)
    elif manifest.digest != manifest.own_digest:
        findings.fail("digests", MANIFEST_FILE, "was changed after the export", _EXPORT_AGAIN)
    texts = _read_files(folder, manifest, findings)
    reader = _SubmissionReader(manifest, texts, findings)
    runs, races = reader.read(), reader.read_races()
    reader.check_leftovers()
    _check_summaries(manifest, runs, findings)
    return Submission(folder, manifest, runs, races, read_disclosures(folder, findings))


def _check_summaries(manifest: Manifest, runs: Sequence[LocatedRun], findings: Findings) -> None:
    """Checks that the manifest names what the runs have, and nothing else."""

    def fail(what: str) -> None:
        findings.fail("manifest", MANIFEST_FILE, what, _EXPORT_AGAIN)

    for suite, summary in manifest.suites.items():
        found = summarize_suite((run.run for run in runs), suite)
        if not found.runs + found.failures:
            fail(f"suites.{one_line(suite, 60)} has no readable run")
        elif summary != found:
            fail(f"suites.{one_line(suite, 60)} does not match the runs in the files")


def _read_files(folder: Path, manifest: Manifest, findings: Findings) -> dict[str, str]:
    texts = {}
    packed = _unpack(folder)
    for name, digest in manifest.files.items():
        if not all(is_plain(part) for part in name.split("/")):
            findings.fail("files", MANIFEST_FILE, f"{one_line(name)!r} is not a valid file name")
            continue
        try:
            texts[name] = packed[name] if name in packed else _read(folder, name)
        except InputError as error:
            what = str(error).removeprefix(f"{folder / name}: ")
            findings.fail("files", one_line(name), what)
            continue
        if text_digest(texts[name]) != digest:
            findings.fail(
                "digests",
                one_line(name),
                "does not have the digest in the manifest",
                "fetch it again",
            )
    return texts


def _unpack(folder: Path) -> dict[str, str]:
    path = folder / PACKED_FILE
    # An archive of somebody else could expand without limits.
    if not (path.exists() and gate.is_bundled(path)):
        return {}
    texts = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None, "it has only files"
            texts[member.name] = stream.read().decode()
    return texts


class _SubmissionReader:
    """Reads the lines of the files that a manifest lists."""

    def __init__(self, manifest: Manifest, texts: dict[str, str], findings: Findings) -> None:
        self._manifest = manifest
        self._texts = texts
        self._findings = findings
        self._known: set[str] = set()
        self._used: set[str] = set()
        self._stated: set[str] = set()

    def read(self) -> list[LocatedRun]:
        """Returns every readable run."""
        found = []
        for kind in ("runs", "failures"):
            for suite in self._manifest.suites:
                name = f"{kind}/{suite}.jsonl"
                if name not in self._texts:
                    continue
                self._used.add(name)
                lines = self._texts[name].removesuffix("\n").split("\n")
                for number, text in enumerate(lines, start=1):
                    where = f"{name}, line {number}"
                    run = self._run(text, kind, suite, where)
                    if run is not None:
                        found.append(LocatedRun(where, run))
        return self._with_rewards(found)

    def _with_rewards(self, runs: Sequence[LocatedRun]) -> list[LocatedRun]:
        """Returns the runs with the numbers about their rewards."""
        found = {located.run.spec.run_id: located for located in runs}
        for suite in self._manifest.suites:
            name = rewards_file(suite)
            if name not in self._texts:
                continue
            self._used.add(name)
            lines = self._texts[name].removesuffix("\n").split("\n")
            for number, text in enumerate(lines, start=1):
                where = f"{name}, line {number}"
                parse = partial(RewardScores.model_validate_json, text)
                scores = self._validated(parse, where, "rewards")
                if scores is None:
                    continue
                located = found.get(scores.run_id)
                if located is None or located.run.spec.suite != suite:
                    what = f"run {one_line(scores.run_id, 40)} is none of suite {one_line(suite)}"
                    self._findings.fail("rewards", where, what, _EXPORT_AGAIN)
                elif located.run.rewards is not None:
                    what = f"run {scores.run_id} has two lines"
                    self._findings.fail("rewards", where, what, _EXPORT_AGAIN)
                else:
                    run = replace(located.run, rewards=scores)
                    check_rewards(run, where, self._findings)
                    found[scores.run_id] = replace(located, run=run)
        return list(found.values())

    def read_races(self) -> list[RegisteredRace]:
        """Returns every readable design of a race."""
        found = []
        for name, text in self._texts.items():
            if not fnmatchcase(name, f"{RACES}/*.json"):
                continue
            self._used.add(name)
            try:
                found.append(parse_race(text, PurePosixPath(name).stem, one_line(name)))
            except InputError as error:
                what = str(error).removeprefix(f"{one_line(name)}: ")
                self._findings.fail("races", one_line(name), what)
        return found

    def check_leftovers(self) -> None:
        """Adds a problem for each file in the manifest that belongs to no run."""
        for name in sorted(self._texts.keys() - self._used):
            self._findings.fail("files", one_line(name), "belongs to no listed run", _EXPORT_AGAIN)
        for name in sorted(self._manifest.provenances.keys() - self._stated):
            self._findings.fail(
                "manifest",
                MANIFEST_FILE,
                f"provenances.{one_line(name, 60)} belongs to no run",
                _EXPORT_AGAIN,
            )

    def _run(self, text: str, kind: str, suite: str, where: str) -> PublishedRun | None:
        line = self._validated(lambda: ResultLine.model_validate_json(text), where)
        if line is None:
            return None
        spec = line.spec
        self._stated.add(line.provenance)
        # If the line is wrong, only that is a problem, not also that its episodes belong to no run.
        self._used |= {f"episodes/{suite}/{line.run_id}.csv", curve_file(suite, line.run_id)}
        if not self._is_identified(line, suite, where):
            return None
        self._used.add(episodes_file(spec))
        provenance = self._manifest.provenances.get(line.provenance)
        if provenance is None:
            name = one_line(line.provenance)
            self._findings.fail("lines", where, f"the manifest has no provenance {name!r}")
            return None
        outcome, other, what = line.result, line.failure, "a result"
        if kind == "failures":
            outcome, other, what = line.failure, line.result, "a failure"
        if outcome is None or other is not None:
            self._findings.fail("lines", where, f"must have {what}, and nothing else")
            return None
        document: dict[str, Any] = {
            **outcome,
            "schema_version": 1,
            "run_id": spec.run_id,
            "provenance": provenance.model_dump(),
        }
        if kind == "failures":
            # A failed run has neither.
            self._used -= {episodes_file(spec), curve_file(suite, spec.run_id)}
            document["traceback"] = ""
            failure = self._validated(lambda: RunFailure.model_validate(document), where)
            return PublishedRun(spec, failure=failure) if failure else None
        result = self._validated(lambda: RunResult.model_validate(document), where)
        if result is None:
            return None
        episodes = self._episodes(episodes_file(spec), where)
        if episodes is None:
            return None
        curve = self._curve(spec, result)
        run = PublishedRun(spec, result, None, episodes, curve)
        check_scores(run, where, self._findings)
        return run

    def _is_identified(self, line: ResultLine, suite: str, where: str) -> bool:
        spec = line.spec
        if (line.run_id, line.spec_digest) != (spec.run_id, spec.digest):
            self._findings.fail(
                "identity", where, "run_id or spec_digest does not match the specification"
            )
            return False
        if spec.suite != suite:
            name = one_line(spec.suite)
            self._findings.fail("identity", where, f"belongs to suite {name!r}")
            return False
        if spec.run_id in self._known:
            self._findings.fail("identity", where, f"run {spec.run_id} occurs twice")
            return False
        self._known.add(spec.run_id)
        return True

    def _episodes(self, name: str, where: str) -> EpisodeTable | None:
        if name not in self._texts:
            self._findings.fail("episodes", where, f"there is no readable file {name}")
            return None
        try:
            return parse_episodes(self._texts[name])
        except InputError as error:
            self._findings.fail("episodes", name, str(error))
            return None

    def _curve(self, spec: RunSpec, result: RunResult) -> LearningCurve | None:
        name = curve_file(spec.suite, spec.run_id)
        if name not in self._texts:
            return None
        try:
            curve = parse_curve(self._texts[name])
        except InputError as error:
            self._findings.fail("curves", name, str(error), _EXPORT_AGAIN)
            return None
        check_curve(curve, spec, result, name, self._findings)
        return curve

    def _validated(
        self, validate: Callable[[], _R], where: str, check: Check = "lines"
    ) -> _R | None:
        try:
            return validate()
        except ValidationError as error:
            self._findings.fail(check, where, first_problem(error))
            return None


def _read(folder: Path, name: str) -> str:
    path = folder / name
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is not a file")
        if status.st_size > _MAX_BYTES:
            raise InputError(f"{path}: is larger than the limit of {_MAX_BYTES} bytes")
        with path.open(encoding="utf-8", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path}: no such file; the folder has no published results") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error, 80)})") from error


def read_strictly(folder: Path) -> Submission:
    """Reads published results, if they do not contradict themselves.

    Every file has the digest in the manifest, every specification the run's id, and every result
    the numbers that follow from its episodes.

    Raises:
        InputError: One of these conditions does not hold, or a file is missing or malformed.
    """
    return gate.checked(lambda: read_submission(folder, StrictFindings(folder)), folder)


def restore_runs(
    runs: list[PublishedRun], out: Path, races: Sequence[RegisteredRace] = ()
) -> tuple[int, int]:
    """Writes run directories of published runs, which reports read like own runs.

    Args:
        runs: Published runs.
        out: Results folder; runs that have an outcome there are not changed.
        races: Registered races, whose designs are restored before the runs.

    Returns:
        Number of written runs, and number of existing ones.

    Raises:
        InputError: A name in a specification is not valid for a folder, or `out` cannot be
            written, has published results, or has another race of the same methods.
    """
    check_no_submission(out)
    for race in races:
        restore(out, race)
    made = 0
    for run in runs:
        directory = RunDirectory.of(out, run.spec)
        names = (run.spec.suite, run.spec.algo, run.spec.environment.id.replace("/", "-"))
        for name in names:
            if not is_plain(name):
                raise InputError(
                    f"run {run.spec.run_id}: {one_line(name)!r} is not a valid folder name"
                )
        try:
            made += not directory.has_outcome and _restore(run, directory)
        except OSError as error:
            raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
    return made, len(runs) - made


def _restore(run: PublishedRun, directory: RunDirectory) -> bool:
    """Writes a run directory, unless the process that held it has completed the run."""
    with directory.claim(wait=True):
        if directory.has_outcome:
            return False
        directory.begin(run.spec, rebuild=True)
        if run.failure is not None:
            directory.fail(run.failure)
        elif run.result is not None and run.episodes is not None:
            directory.write_episodes(run.episodes)
            if run.curve is not None:
                directory.write_curve(run.curve.points)
            if run.rewards is not None:
                directory.write_reward_scores(run.rewards)
            directory.finish(run.result)
        return True
