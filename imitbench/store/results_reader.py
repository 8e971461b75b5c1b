"""Reads results that others published, and checks that they are what they say."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.store.records import Record, RunFailure, RunResult, RunSpec
from imitbench.store.results_folder import (
    EPISODE_COLUMNS,
    MANIFEST_FILE,
    Line,
    Manifest,
    PublishedRun,
    episode_table,
    episodes_file,
    is_plain,
    text_digest,
)
from imitbench.store.run_dir import EpisodeTable, RunDirectory
from imitbench.util.text_line import one_line

_MAX_BYTES = 2**30
_TOLERANCE = 1e-9
_FLAGS = {"true": True, "false": False}
_R = TypeVar("_R", bound=Record)


def read_results(folder: Path) -> list[PublishedRun]:
    """Reads a folder that `imitbench.store.results_folder.write_results` wrote.

    Args:
        folder: The folder.

    Returns:
        Its runs. Every file has the digest in the manifest, every specification the run's id,
        and every result the mean of its episodes.

    Raises:
        InputError: Any of that does not hold, or a file is missing or malformed.
    """
    manifest = _parse(Manifest, _read(folder, MANIFEST_FILE), str(folder / MANIFEST_FILE))
    texts = {}
    for name, digest in manifest.files.items():
        if not all(is_plain(part) for part in name.split("/")):
            raise InputError(f"{folder / MANIFEST_FILE}: {one_line(name)!r} is no name of a file")
        texts[name] = _read(folder, name)
        if text_digest(texts[name]) != digest:
            raise InputError(f"{folder / name}: is not what the manifest says; fetch it again")
    found = []
    for kind in ("runs", "failures"):
        for suite in manifest.suites:
            name = f"{kind}/{suite}.jsonl"
            lines = texts.get(name, "").removesuffix("\n").split("\n")
            for number, text in enumerate(lines if name in texts else [], start=1):
                where = f"{folder / name}, line {number}"
                run = _run(text, kind, manifest, texts, where)
                if run.spec.suite != suite:
                    raise InputError(f"{where}: belongs to suite {one_line(run.spec.suite)!r}")
                found.append(run)
    return found


def restore_runs(runs: list[PublishedRun], out: Path) -> tuple[int, int]:
    """Makes run directories of published runs, which reports then read like own ones.

    Args:
        runs: The runs.
        out: Results folder; runs with an outcome there stay as they are.

    Returns:
        How many were made, and how many were there.

    Raises:
        InputError: A name in a specification is unfit for a folder, or `out` cannot be written.
    """
    made = 0
    for run in runs:
        directory = RunDirectory.of(out, run.spec)
        names = (run.spec.suite, run.spec.algo, run.spec.environment.id.replace("/", "-"))
        for name in names:
            if not is_plain(name):
                raise InputError(f"run {run.spec.run_id}: {one_line(name)!r} is no folder's name")
        if directory.has_outcome:
            continue
        try:
            _restore(run, directory)
        except OSError as error:
            raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
        made += 1
    return made, len(runs) - made


def _restore(run: PublishedRun, directory: RunDirectory) -> None:
    with directory.claim(wait=True):
        directory.begin(run.spec, afresh=True)
        if run.failure is not None:
            directory.fail(run.failure)
        elif run.result is not None and run.episodes is not None:
            directory.write_episodes(run.episodes)
            directory.finish(run.result)


def _run(
    text: str, kind: str, manifest: Manifest, texts: dict[str, str], where: str
) -> PublishedRun:
    line = _parse(Line, text, where)
    spec = line.spec
    if (line.run_id, line.spec_digest) != (spec.run_id, spec.digest):
        raise InputError(f"{where}: run_id or spec_digest is not that of the specification")
    provenance = manifest.provenances.get(line.provenance)
    if provenance is None:
        raise InputError(f"{where}: the manifest has no provenance {one_line(line.provenance)!r}")
    common: dict[str, Any] = {
        "schema_version": 1,
        "run_id": spec.run_id,
        "provenance": provenance.model_dump(),
    }
    if kind == "failures":
        document = {**(line.failure or {}), **common, "traceback": ""}
        return PublishedRun(spec, failure=_validate(RunFailure, document, where))
    result = _validate(RunResult, {**(line.result or {}), **common}, where)
    name = episodes_file(spec)
    if name not in texts:
        raise InputError(f"{where}: the manifest has no file {name}")
    episodes = _episodes(texts[name], name)
    _check_means(spec, result, episodes, where)
    return PublishedRun(spec, result, None, episodes)


def _episodes(text: str, name: str) -> EpisodeTable:
    rows = csv.DictReader(io.StringIO(text))
    if tuple(rows.fieldnames or ()) != EPISODE_COLUMNS:
        raise InputError(f"{name}: columns must be {', '.join(EPISODE_COLUMNS)}")
    try:
        read = [
            {
                "raw_return": float(row["raw_return"]),
                "length": int(row["length"]),
                "terminated": _FLAGS[row["terminated"]],
                "deterministic": _FLAGS[row["deterministic"]],
            }
            for row in rows
        ]
        return episode_table({column: [row[column] for row in read] for column in read[0]})
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, csv.Error) as error:
        raise InputError(f"{name}: no table of episodes ({one_line(repr(error), 80)})") from error


def _check_means(spec: RunSpec, result: RunResult, episodes: EpisodeTable, where: str) -> None:
    for stated, name in ((False, "raw_return"), (True, "deterministic_return")):
        returns = episodes.returns[episodes.deterministic == stated]
        claimed = getattr(result, name)
        if len(returns) != spec.protocol.episodes:
            raise InputError(
                f"{where}: {len(returns)} episodes, and the specification says "
                f"{spec.protocol.episodes}"
            )
        if not math.isclose(float(np.mean(returns)), claimed, rel_tol=_TOLERANCE, abs_tol=1e-9):
            raise InputError(f"{where}: {name} {claimed:g} is not the mean of its episodes")


def _read(folder: Path, name: str) -> str:
    path = folder / name
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: more than {_MAX_BYTES} bytes, which no such file has")
        with path.open(encoding="utf-8", newline="") as stream:
            return stream.read()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; these are no published results") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error, 80)})") from error


def _lines_of(error: ValidationError) -> Iterator[str]:
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"])
        yield f"{place}: {each['msg']}" if place else str(each["msg"])


def _parse(kind: type[_R], text: str, where: str) -> _R:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{where}: {one_line(next(_lines_of(error)))}") from error


def _validate(kind: type[_R], document: dict[str, Any], where: str) -> _R:
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{where}: {one_line(next(_lines_of(error)))}") from error
