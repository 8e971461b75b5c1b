"""Writes published results: a folder of text files that work with `diff`, from run directories.

    manifest.json                    counts, digests of all files, and provenances
    runs/<suite>.jsonl               a line per completed run: specification and outcome
    failures/<suite>.jsonl           a line per failed run
    episodes/<suite>/<run_id>.csv    every evaluation episode of a completed run
    curves/<suite>/<run_id>.csv      its learning curve: the main metric, at most 200 points
    races/<id>.json                  the registered design of a race, if there are any

Lines and files are sorted by content, so the same runs give the same bytes. All scores can be
computed again from the episodes and the references in the lines. Names of machines and tracebacks
are excluded, as they reveal names of user accounts.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import SerializerFunctionWrapHandler, model_serializer

from imitbench.errors import InputError
from imitbench.published.curve_files import CURVES, curve_file, curve_text, is_publishable
from imitbench.records.curves import main_curve
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun, PublishedRuns
from imitbench.records.runs import (
    Provenance,
    Record,
    RunSpec,
    canonical_digest,
)
from imitbench.store.comparability import current_run_ids
from imitbench.store.races import RegisteredRace, read_races
from imitbench.store.run_dir import RunDirectory
from imitbench.store.run_rows import read_episode_file
from imitbench.store.scan import check_suites
from imitbench.util.files import atomic_write_text, new_folder
from imitbench.util.name_lists import Names, split_names
from imitbench.util.text_line import one_line

MANIFEST_FILE = "manifest.json"
RACES = "races"
PATTERNS = (
    MANIFEST_FILE,
    "runs/*.jsonl",
    "failures/*.jsonl",
    "episodes/*/*.csv",
    f"{CURVES}/*/*.csv",
    f"{RACES}/*.json",
)
"""Shell-style patterns of the files, except cards and policies."""

STANDS_ELSEWHERE = ("run_id", "schema_version", "provenance", "traceback")
"""Fields of outcomes that lines omit, as they are stored elsewhere or not published."""

EPISODE_COLUMNS = ("episode", "deterministic", "raw_return", "length", "terminated")


class SuiteSummary(Record):
    """Numbers of runs, algorithms and environments of one suite."""

    runs: int
    failures: int
    algorithms: list[str]
    environments: list[str]


class Manifest(Record):
    """`manifest.json`.

    Attributes:
        imitbench: Version that wrote the folder.
        command: Command that wrote it.
        suites: Summaries of the suites, by name.
        provenances: Provenances of runs, by the name that lines use.
        files: SHA-256 of every other file, except cards and policies.
        supersedes: Digest of earlier results that these are, scored with newer references;
            serialized only if there are any, so that earlier digests stay valid.
        digest: SHA-256 over all of the above, and so over all published results: two folders
            with the same digest hold the same results. Folders without it are refused.
    """

    format: Literal["imitbench-results"] = "imitbench-results"
    version: Literal[1] = 1
    imitbench: str
    command: str
    suites: dict[str, SuiteSummary]
    provenances: dict[str, Provenance]
    files: dict[str, str]
    supersedes: str | None = None
    digest: str | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = write(self)
        if document.get("supersedes") is None:
            document.pop("supersedes", None)
        return document

    @property
    def own_digest(self) -> str:
        """Returns the correct value of `digest`."""
        return canonical_digest(self.model_dump(mode="json", exclude={"digest"}))


class ResultLine(Record):
    """The line of a run; it has either a result or a failure.

    Attributes:
        spec_digest: SHA-256 of the specification; the run's id is its start.
        provenance: Name of its provenance in the manifest.
        result: Fields of `RunResult`, without `STANDS_ELSEWHERE`.
        failure: Fields of `RunFailure`, without `STANDS_ELSEWHERE`.
    """

    run_id: str
    spec_digest: str
    spec: RunSpec
    result: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    provenance: str


def read_runs(out: Path, *, suite: Names = None) -> PublishedRuns:
    """Reads the run directories of a results folder.

    Args:
        out: Results folder.
        suite: Suites of the runs to read; `None` for all.

    Raises:
        InputError: There is no such folder, or it has no runs of a suite.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    wanted = split_names("--suite", suite)
    check_suites(out, wanted)
    found, unfinished, unreadable = [], 0, []
    for path in sorted(out.glob("*/*/*/*/")):
        directory = RunDirectory(path)
        if not (path / "spec.json").is_file() or (wanted and path.parts[-4] not in wanted):
            continue
        if not directory.has_outcome:
            unfinished += 1
            continue
        try:
            found.append(read_run(directory))
        except InputError as error:
            unreadable.append(str(error))
    current = current_run_ids((run.spec, run.ended_at) for run in found)
    runs = sorted((run for run in found if run.spec.run_id in current), key=_order)
    return PublishedRuns(runs, len(found) - len(runs), unfinished, unreadable)


def races_of(out: Path, runs: Iterable[PublishedRun]) -> list[RegisteredRace]:
    """Reads the registered races of a results folder to which some of these runs belong.

    Raises:
        InputError: A design cannot be read, or was changed after its registration.
    """
    runs = list(runs)
    return [race for race in read_races(out) if any(map(race.design.has, runs))]


def write_results(
    runs: Sequence[PublishedRun],
    folder: Path,
    *,
    version: str,
    command: str,
    races: Sequence[RegisteredRace] = (),
    supersedes: str | None = None,
    curves: bool = True,
) -> None:
    """Writes a folder of published results.

    Args:
        runs: Runs to publish.
        folder: Folder to write; must be empty or missing.
        version: Version of this package.
        command: Command line to record.
        races: Registered races to which they belong.
        supersedes: Digest of earlier results that these are, scored with newer references.
        curves: Whether to write the learning curves.

    Raises:
        InputError: The name of a suite is not valid as a file name.
    """
    texts: dict[str, str] = {}
    provenances: dict[str, Provenance] = {}
    suites = sorted({run.spec.suite for run in runs})
    for suite in suites:
        if not is_plain(suite):
            raise InputError(f"suite {suite!r}: not valid as a file name; rename the suite")
        own = [run for run in runs if run.spec.suite == suite]
        lines: dict[str, list[str]] = {"runs": [], "failures": []}
        for run in own:
            provenance = run.provenance.model_copy(update={"host": ""})
            key = text_digest(provenance.model_dump_json())[:12]
            provenances[key] = provenance
            kind = "runs" if run.result else "failures"
            lines[kind].append(_line(run, key))
            if run.episodes is not None:
                texts[episodes_file(run.spec)] = episodes_text(run.episodes)
            if curves and run.curve is not None:
                texts[curve_file(suite, run.spec.run_id)] = curve_text(run.curve)
        texts |= {f"{kind}/{suite}.jsonl": "".join(each) for kind, each in lines.items() if each}
    texts |= {race_file(race): race.text() for race in races}
    manifest = Manifest(
        imitbench=version,
        command=command,
        suites={suite: summarize_suite(runs, suite) for suite in suites},
        provenances={key: provenances[key] for key in sorted(provenances)},
        files={name: text_digest(texts[name]) for name in sorted(texts)},
        supersedes=supersedes,
    )
    manifest = manifest.model_copy(update={"digest": manifest.own_digest})
    for name, text in texts.items():
        atomic_write_text(folder / name, text)
    atomic_write_text(folder / MANIFEST_FILE, manifest.model_dump_json(indent=1) + "\n")


def race_file(race: RegisteredRace) -> str:
    """Returns the path of a race's design, relative to the folder."""
    return f"{RACES}/{race.id}.json"


def export_results(
    runs: Sequence[PublishedRun],
    folder: Path,
    *,
    version: str,
    command: str,
    races: Sequence[RegisteredRace] = (),
    supersedes: str | None = None,
    curves: bool = True,
) -> None:
    """Writes a new folder of published results atomically.

    Args:
        runs: Runs to publish.
        folder: Folder to write; must be empty or missing.
        version: Version of this package.
        command: Command line to record.
        races: Registered races to which they belong.
        supersedes: Digest of earlier results that these are, scored with newer references.
        curves: Whether to write the learning curves.

    Raises:
        InputError: There is nothing to publish, the folder is not empty or cannot be written, or
            the name of a suite is not valid as a file name.
    """
    if not runs:
        raise InputError(f"{folder}: there are no finished runs to publish")
    with new_folder(folder) as draft:
        write_results(
            runs,
            draft,
            version=version,
            command=command,
            races=races,
            supersedes=supersedes,
            curves=curves,
        )


def read_run(directory: RunDirectory) -> PublishedRun:
    """Reads a run that completed or failed.

    Raises:
        InputError: A file is missing or malformed.
    """
    spec = directory.read_spec()
    if spec.run_id != directory.path.name:
        raise InputError(f"{directory.path / 'spec.json'}: belongs to run {spec.run_id}")
    if not directory.is_done:
        failure = directory.read_failure()
        return PublishedRun(spec, failure=failure.model_copy(update={"traceback": ""}))
    path = directory.path / "episodes.parquet"
    columns = read_episode_file(path)
    try:
        episodes = episode_table(columns.to_pydict())
    except (ValueError, TypeError) as error:  # values are missing
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
    curve = main_curve(directory.read_curve())
    if curve is not None and not is_publishable(curve.metric):
        curve = None
    return PublishedRun(spec, directory.read_result(), None, episodes, curve)


def _order(run: PublishedRun) -> tuple[Any, ...]:
    spec = run.spec
    return spec.suite, spec.environment.id, spec.algo_label, spec.seed, spec.run_id


def summarize_suite(runs: Iterable[PublishedRun], suite: str) -> SuiteSummary:
    """Returns the summary of a suite for some runs."""
    own = [run for run in runs if run.spec.suite == suite]
    return SuiteSummary(
        runs=sum(run.result is not None for run in own),
        failures=sum(run.failure is not None for run in own),
        algorithms=sorted({run.spec.algo_label for run in own}),
        environments=sorted({run.spec.environment.id for run in own}),
    )


def _line(run: PublishedRun, provenance: str) -> str:
    name, outcome = ("result", run.result) if run.result else ("failure", run.failure)
    assert outcome is not None
    line = ResultLine(
        run_id=run.spec.run_id,
        spec_digest=run.spec.digest,
        spec=run.spec,
        provenance=provenance,
        **{name: outcome.model_dump(mode="json", exclude=set(STANDS_ELSEWHERE))},
    )
    return line.model_dump_json(exclude={"result", "failure"} - {name}) + "\n"


def episodes_file(spec: RunSpec) -> str:
    """Returns the path of the file with a run's episodes, relative to the folder."""
    return f"episodes/{spec.suite}/{spec.run_id}.csv"


def episodes_text(episodes: EpisodeTable) -> str:
    """Returns evaluation episodes as CSV, with the columns `EPISODE_COLUMNS`."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(EPISODE_COLUMNS)
    columns = zip(
        _words(episodes.deterministic),
        episodes.returns.tolist(),
        episodes.lengths.tolist(),
        _words(episodes.terminated),
        strict=True,
    )
    # The shortest text that is read as exactly the same number.
    writer.writerows(
        (number, deterministic, repr(value), length, terminated)
        for number, (deterministic, value, length, terminated) in enumerate(columns)
    )
    return sink.getvalue()


def _words(flags: Any) -> Iterator[str]:
    return ("true" if flag else "false" for flag in flags.tolist())


def episode_table(columns: Mapping[str, Sequence[Any]]) -> EpisodeTable:
    """Returns an episode table from columns by name."""
    return EpisodeTable(
        returns=np.array(columns["raw_return"], dtype=np.float64),
        lengths=np.array(columns["length"], dtype=np.int64),
        terminated=np.array(columns["terminated"], dtype=np.bool_),
        deterministic=np.array(columns["deterministic"], dtype=np.bool_),
    )


def text_digest(text: str) -> str:
    """Returns the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def is_plain(name: str) -> bool:
    """Whether a name is valid for a file or folder, and cannot lead outside its parent."""
    return bool(name) and not name.startswith(".") and not set(name) & set('/\\\0:*?"<>|')
