"""Finds the sources of the database in a results folder, and detects changes in them.

The sources are the run directories and the files of imported results.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from imitbench.errors import InputError, did_you_mean
from imitbench.records.reward_scores import SCORES_FILE
from imitbench.untrusted.files import require_utf8

EXTERNAL_FOLDER = "external"
EXTERNAL_SUFFIX = ".jsonl"
LEVELS = ("suite", "algorithm", "environment", "run")
# Files of a run from which the rows of the database are made: the outcome, and further files.
_OUTCOMES = ("result.json", "error.json")
_FURTHER = ("spec.json", "episodes.parquet", "metrics.jsonl", SCORES_FILE)


@dataclass
class FolderScan:
    """Result of a walk through a results folder.

    Attributes:
        stamps: A text for each run directory with an outcome, and for each file of imported
            results, by path below the results folder. It changes when one of the files is replaced
            or written to.
        closed: Folders that could not be listed, with the reason.
    """

    stamps: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)

    def hides(self, path: str) -> bool:
        """Whether a run directory is in a folder that could not be listed."""
        return any(f"{path}/".startswith(f"{folder}/" if folder else "") for folder in self.closed)


def scan_outcomes(out: Path) -> FolderScan:
    """Walks a results folder for runs that completed or failed, and for imported results.

    Returns:
        Sources found, each kind in the order of the paths.

    Raises:
        InputError: The path of a source is not UTF-8.
    """
    found = FolderScan()
    for path in chain(run_directories(out, found.closed), _external_files(out, found.closed)):
        try:
            stamp = content_stamp(out, path)
        except OSError as error:
            found.closed[path] = str(error.strerror)
        else:
            if stamp is not None:
                require_utf8(f"{out}/{path}")  # the database stores it
                found.stamps[path] = stamp
    return found


def is_external(path: str) -> bool:
    """Whether a path below the results folder names a file of imported results."""
    return path.count("/") == 1


def _external_files(out: Path, closed: dict[str, str]) -> Iterator[str]:
    try:
        with os.scandir(out / EXTERNAL_FOLDER) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(EXTERNAL_SUFFIX)
                and entry.name[0] != "."
                and entry.is_file(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        closed[EXTERNAL_FOLDER] = str(error.strerror)
        return
    yield from (f"{EXTERNAL_FOLDER}/{name}" for name in names)


def run_directories(out: Path, closed: dict[str, str] | None = None) -> Iterator[str]:
    """Walks a results folder for folders at the depth of run directories.

    Args:
        out: Root of the results folder.
        closed: Receives the folders that cannot be listed, with the reason.

    Yields:
        Paths `suite/algorithm/environment/run` below it, in order. Skips names with a leading dot,
        and files.
    """
    yield from _below(str(out), "", len(LEVELS), {} if closed is None else closed)


def check_suites(out: Path, suites: Iterable[str]) -> None:
    """Checks that a results folder has runs of some suites.

    Raises:
        InputError: It has no folder of one of them.
    """
    for suite in suites:
        if not any((out / suite).glob("*/*/*/")):
            known = {path.split("/")[0] for path in run_directories(out)}
            raise InputError(f"--suite {suite}: has no runs in {out}; {did_you_mean(suite, known)}")


def _below(root: str, prefix: str, levels: int, closed: dict[str, str]) -> Iterator[str]:
    try:
        with os.scandir(f"{root}/{prefix}") as entries:
            names = sorted(
                entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()
            )
    except OSError as error:
        closed[prefix] = str(error.strerror)
        return
    for name in names:
        path = f"{prefix}/{name}" if prefix else name
        if levels == 1:
            yield path
        else:
            yield from _below(root, path, levels - 1, closed)


def content_stamp(out: Path, path: str) -> str | None:
    """Returns a text that changes when a source of the database is replaced or written to.

    Args:
        out: Root of the results folder.
        path: Path of a run directory or a file of imported results, below `out`.

    Returns:
        The stamp; `None` while the run has no outcome.

    Raises:
        OSError: The folder cannot be read.
    """
    folder = f"{out}/{path}"
    if is_external(path):
        return _file_stamp(folder)
    for name in _OUTCOMES:
        outcome = _file_stamp(f"{folder}/{name}")
        if outcome is not None:
            further = [_file_stamp(f"{folder}/{other}") or "-" for other in _FURTHER]
            return " ".join([name, outcome, *further])
    return None


def _file_stamp(path: str) -> str | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (creating a path object would take longer)
    except (FileNotFoundError, NotADirectoryError):
        return None
    # The inode changes even if a file is replaced within one tick of the clock.
    return f"{status.st_mtime_ns:x}.{status.st_size:x}.{status.st_ino:x}"
