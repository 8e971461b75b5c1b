"""Writes published results: a folder of text files that work with `diff`, from run directories.

    manifest.json                    counts, digests of all files, and provenances
    runs/<suite>.jsonl               a line per completed run: specification and outcome
    failures/<suite>.jsonl           a line per failed run
    episodes/<suite>/<run_id>.csv    every evaluation episode of a completed run
    curves/<suite>/<run_id>.csv      its learning curve: the main metric, at most 200 points
    reward_scores/<suite>.jsonl      a line per completed run whose learned reward was measured
    races/<id>.json                  the registered design of a race, if there are any
    disclosure.json                  how hyper-parameters were chosen; not in the manifest

Lines and files are sorted by content, so the same runs give the same bytes. All scores can be
computed again from the episodes and the references in the lines. Names of machines and tracebacks
are excluded, as they reveal names of user accounts.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitbench.errors import InputError
from imitbench.published.disclosure import DISCLOSURE_FILE, Disclosure, disclosure_text
from imitbench.records.bundled_cards import bundled_suite, environment_of
from imitbench.records.curves import MOST_POINTS, LearningCurve, is_known_metric, main_curve
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun, PublishedRuns
from imitbench.records.reward_scores import SCORES_FILE
from imitbench.records.runs import (
    AbbreviatedRecord,
    Provenance,
    Record,
    ReferenceScores,
    RunSpec,
    SealedRecord,
)
from imitbench.store.comparability import current_run_ids
from imitbench.store.races import RegisteredRace, read_races
from imitbench.store.run_dir import RunDirectory
from imitbench.store.run_rows import read_episode_file
from imitbench.store.scan import check_suites, run_directories
from imitbench.util.files import atomic_write_text, new_folder
from imitbench.util.name_lists import Names, split_names
from imitbench.util.text_line import one_line

MANIFEST_FILE = "manifest.json"
CURVES = "curves"
RACES = "races"
REWARDS = "reward_scores"
PATTERNS = (
    MANIFEST_FILE,
    "runs/*.jsonl",
    "failures/*.jsonl",
    "episodes/*/*.csv",
    f"{CURVES}/*/*.csv",
    f"{REWARDS}/*.jsonl",
    f"{RACES}/*.json",
    DISCLOSURE_FILE,
)
"""Shell-style patterns of the files, except cards and policies."""

STANDS_ELSEWHERE = ("run_id", "schema_version", "provenance", "traceback")
"""Fields of outcomes that lines omit, as they are stored elsewhere or not published."""

_METRIC = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,4}")
_LONGEST = 80

EPISODE_COLUMNS = ("episode", "deterministic", "raw_return", "length", "terminated")
_FLAGS = {"true": True, "false": False}


class SuiteSummary(Record):
    """Numbers of runs, algorithms and environments of one suite."""

    runs: int
    failures: int
    algorithms: list[str]
    environments: list[str]


class Manifest(AbbreviatedRecord, SealedRecord):
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

    optional = ("supersedes",)
    format: Literal["imitbench-results"] = "imitbench-results"
    version: Literal[1] = 1
    imitbench: str
    command: str
    suites: dict[str, SuiteSummary]
    provenances: dict[str, Provenance]
    files: dict[str, str]
    supersedes: str | None = None
    digest: str | None = None


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
    closed: dict[str, str] = {}
    for name in run_directories(out, closed):
        directory = RunDirectory(out / name)
        if wanted and name.split("/")[0] not in wanted:
            continue
        if not (directory.path / "spec.json").is_file():
            continue
        if not directory.has_outcome:
            unfinished += 1
            continue
        try:
            found.append(read_run(directory))
        except InputError as error:
            unreadable.append(str(error))
    unreadable += [f"{out / name}: cannot be listed ({why})" for name, why in closed.items()]
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


def export_results(
    runs: Sequence[PublishedRun],
    folder: Path,
    *,
    version: str,
    command: str,
    races: Sequence[RegisteredRace] = (),
    supersedes: str | None = None,
    curves: bool = True,
    disclosures: Sequence[Disclosure] = (),
) -> None:
    """Writes a new folder of published results, completely or not at all.

    Args:
        runs: Runs to publish.
        folder: Folder to write; must be empty or missing.
        version: Version of this package.
        command: Command line to record.
        races: Registered races to which they belong.
        supersedes: Digest of earlier results that these are, scored with newer references.
        curves: Whether to write the learning curves.
        disclosures: Statements of how the hyper-parameters of the runs were chosen.

    Raises:
        InputError: There is nothing to publish, the folder is not empty or cannot be written, or
            the name of a suite is not valid as a file name.
    """
    if not runs:
        raise InputError(f"{folder}: there are no finished runs to publish")
    texts: dict[str, str] = {}
    provenances: dict[str, Provenance] = {}
    suites = sorted({run.spec.suite for run in runs})
    for suite in suites:
        if not is_plain(suite):
            raise InputError(f"suite {suite!r}: not valid as a file name; rename the suite")
        own = [run for run in runs if run.spec.suite == suite]
        lines: dict[str, list[str]] = {"runs": [], "failures": [], REWARDS: []}
        for run in own:
            provenance = run.provenance.model_copy(update={"host": ""})
            key = text_digest(provenance.model_dump_json())[:12]
            provenances[key] = provenance
            kind = "runs" if run.result else "failures"
            lines[kind].append(_line(run, key))
            if run.episodes is not None:
                texts[episodes_file(run.spec)] = episodes_text(run.episodes)
            if run.rewards is not None:
                lines[REWARDS].append(run.rewards.model_dump_json() + "\n")
            if curves and run.curve is not None:
                texts[curve_file(suite, run.spec.run_id)] = curve_text(run.curve)
        texts |= {
            f"{kind}/{suite}.jsonl": "".join(written) for kind, written in lines.items() if written
        }
    texts |= {race_file(race): race.text() for race in races}
    manifest = Manifest(
        imitbench=version,
        command=command,
        suites={suite: summarize_suite(runs, suite) for suite in suites},
        provenances={key: provenances[key] for key in sorted(provenances)},
        files={name: text_digest(texts[name]) for name in sorted(texts)},
        supersedes=supersedes,
    )
    with new_folder(folder) as draft:
        for name, text in texts.items():
            atomic_write_text(draft / name, text)
        if disclosures:
            atomic_write_text(draft / DISCLOSURE_FILE, disclosure_text(disclosures))
        atomic_write_text(draft / MANIFEST_FILE, manifest.sealed().text())


def race_file(race: RegisteredRace) -> str:
    """Returns the path of a race's design, relative to the folder."""
    return f"{RACES}/{race.id}.json"


def rewards_file(suite: str) -> str:
    """Returns the path of the file with the numbers about rewards, relative to the folder."""
    return f"{REWARDS}/{suite}.jsonl"


def read_run(directory: RunDirectory) -> PublishedRun:
    """Reads a run that completed or failed.

    Raises:
        InputError: A file is missing or malformed.
    """
    spec = directory.read_spec()
    home = RunDirectory.of(Path(), spec).path
    if directory.path.parts[-len(home.parts) :] != home.parts:  # a copy, or an edited file
        raise InputError(f"{directory.path / 'spec.json'}: belongs to run {one_line(home)}")
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
    rewards = directory.read_reward_scores()
    if rewards is not None and rewards.run_id != spec.run_id:
        where, other = directory.path / SCORES_FILE, one_line(rewards.run_id)
        raise InputError(f"{where}: belongs to run {other}; delete the file")
    return PublishedRun(spec, directory.read_result(), None, episodes, curve, rewards)


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
    name = "result" if run.result else "failure"
    line = ResultLine(
        run_id=run.spec.run_id,
        spec_digest=run.spec.digest,
        spec=run.spec,
        provenance=provenance,
        **{name: run.outcome.model_dump(mode="json", exclude=set(STANDS_ELSEWHERE))},
    )
    return line.model_dump_json(exclude={"result", "failure"} - {name}) + "\n"


def episodes_file(spec: RunSpec) -> str:
    """Returns the path of the file with a run's episodes, relative to the folder."""
    return f"episodes/{spec.suite}/{spec.run_id}.csv"


def episodes_text(episodes: EpisodeTable) -> str:
    """Returns evaluation episodes as CSV, with the columns `EPISODE_COLUMNS`."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    columns = {
        "episode": map(str, range(len(episodes.returns))),
        "deterministic": _words(episodes.deterministic),
        "raw_return": map(repr, episodes.returns.tolist()),  # the shortest text of that number
        "length": episodes.lengths.tolist(),
        "terminated": _words(episodes.terminated),
    }
    if episodes.success is not None:
        columns["success"] = _words(episodes.success)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return sink.getvalue()


def _words(flags: Any) -> Iterator[str]:
    return ("true" if flag else "false" for flag in flags.tolist())


def episode_table(columns: Mapping[str, Sequence[Any]]) -> EpisodeTable:
    """Returns an episode table from columns by name; success is in it if all episodes have it."""
    success = columns.get("success", [None])
    return EpisodeTable(
        returns=np.array(columns["raw_return"], dtype=np.float64),
        lengths=np.array(columns["length"], dtype=np.int64),
        terminated=np.array(columns["terminated"], dtype=np.bool_),
        deterministic=np.array(columns["deterministic"], dtype=np.bool_),
        success=None if None in success else np.array(success, dtype=np.bool_),
    )


def parse_episodes(text: str) -> EpisodeTable:
    """Reads a table of evaluation episodes.

    Raises:
        InputError: The text is not such a table. The message does not name a file.
    """
    lines = csv.reader(io.StringIO(text))
    try:
        names = tuple(next(lines, ()))
        if names not in (EPISODE_COLUMNS, (*EPISODE_COLUMNS, "success")):
            raise InputError(f"columns must be {', '.join(EPISODE_COLUMNS)}, and may be success")
        rows = [row for row in lines if row]
        for number, row in enumerate(rows):
            if len(row) > len(names) or int(row[0]) != number:
                raise InputError(f"row {number + 1} is not that of episode {number}")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        flags = set(names) & {"terminated", "deterministic", "success"}
        return episode_table(
            {
                "raw_return": list(map(float, columns["raw_return"])),
                "length": list(map(int, columns["length"])),
                **{name: [_FLAGS[word] for word in columns[name]] for name in flags},
            }
        )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, csv.Error) as error:
        raise InputError(f"not a table of episodes ({one_line(repr(error), 80)})") from error


def curve_file(suite: str, run_id: str) -> str:
    """Returns the path of the file with a run's learning curve, relative to the folder."""
    return f"{CURVES}/{suite}/{run_id}.csv"


def is_publishable(metric: str) -> bool:
    """Whether published curves may have a metric of this name."""
    named = len(metric) <= _LONGEST and _METRIC.fullmatch(metric) is not None
    return named and is_known_metric(metric)


def curve_text(curve: LearningCurve) -> str:
    """Returns a learning curve as CSV, with numbers that are read as exactly the same."""
    lines = [f"step,{curve.metric}"]
    pairs = zip(curve.steps.tolist(), curve.values.tolist(), strict=True)
    lines += [f"{step},{value!r}" for step, value in pairs]
    return "\n".join(lines) + "\n"


def parse_curve(text: str) -> LearningCurve:
    """Reads a published learning curve.

    Raises:
        InputError: The text is not such a curve. The message does not name a file.
    """
    rows = csv.reader(io.StringIO(text))
    try:
        header = next(rows, [])
        if len(header) != 2 or header[0] != "step":
            raise InputError("columns must be step and a metric")
        metric = header[1]
        if not is_publishable(metric):
            raise InputError(f"unknown metric {one_line(metric, 60)!r}")
        pairs = [(int(step), float(value)) for step, value in rows]
        steps = np.array([step for step, _ in pairs], dtype=np.int64)
        values = np.array([value for _, value in pairs], dtype=np.float64)
    except InputError:
        raise
    except (ValueError, OverflowError, csv.Error) as error:
        raise InputError(f"not a learning curve ({one_line(error, 80)})") from error
    if not 1 <= steps.size <= MOST_POINTS:
        raise InputError(f"{steps.size:,} points, and a curve has 1 to {MOST_POINTS}")
    if not np.isfinite(values).all():
        raise InputError("a value is not finite")
    if (np.diff(steps) <= 0).any():
        raise InputError("steps do not ascend")
    return LearningCurve(metric, steps, values)


def text_digest(text: str) -> str:
    """Returns the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def is_plain(name: str) -> bool:
    """Whether a name is valid for a file or folder, and cannot lead outside its parent."""
    return bool(name) and not name.startswith(".") and not set(name) & set('/\\\0:*?"<>|')


def rescore(runs: Sequence[PublishedRun], where: str) -> list[PublishedRun]:
    """Returns the same runs with the references of the cards of this package.

    Returns, episodes and specifications stay; only the scale of the scores changes. Runs that were
    scored with an expert of another source keep their references. Numbers about learned rewards
    are left out where the scale changes: among them are scores whose returns are not published.

    Args:
        runs: Runs of a submission.
        where: The submission, for messages.

    Raises:
        InputError: All references are current, or none of the suites is one of this package.
    """
    scored = [_rescored(run) for run in runs]
    if scored == list(runs):
        raise InputError(
            f"{where}: its references are those of the suites of this package; nothing to rescore"
        )
    return scored


def _rescored(run: PublishedRun) -> PublishedRun:
    suite, card = bundled_suite(run.spec.suite), environment_of(run.spec)
    scale = card.scale if card is not None else None
    if suite is None or scale is None or "+" in run.outcome.references.version:
        return run
    now = ReferenceScores(
        random=scale.random,
        expert=scale.one,
        version=one_line(suite.version),
        score_one=scale.score_one,
        demonstrations=scale.demonstrations,
    )
    if run.result is not None:
        rewards = run.rewards if now == run.result.references else None
        result = run.result.model_copy(update={"references": now})
        return replace(run, result=result, rewards=rewards)
    assert run.failure is not None
    return replace(run, failure=run.failure.model_copy(update={"references": now}))
