"""Groups similar failures of a results folder, since many runs often fail for the same reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from imitbench.errors import InputError
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories

_LAST_LINES = 6
_PATTERNS = (
    # Addresses of objects; this pattern must precede that of numbers.
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "ADDRESS"),
    # Absolute paths, and relative ones that are deep enough not to be the id of an environment.
    (re.compile(r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.@+~=-]+)+/?"), "PATH"),
    (re.compile(r"(?<![\w/.])[\w.@+~=-]+(?:/[\w.@+~=-]+){2,}/?"), "PATH"),
    (re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b"), "ID"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[a-zA-Z%]{0,3}(?:\W|$))"), "N"),
    (re.compile(r"\bN(?:,\s*N)+\b"), "N, …"),
)


@dataclass
class FailureGroup:
    """Failures with the same error, phase and normalized message.

    Attributes:
        error_type: Class of the error.
        message: Message with placeholders for numbers, ids and paths.
        phase: Phase of the runs that failed.
        runs: The runs with their failures, in the order of their paths.
    """

    error_type: str
    message: str
    phase: str
    runs: list[tuple[RunSpec, RunFailure]] = field(default_factory=list)

    @property
    def cells(self) -> Counter[tuple[str, str]]:
        """Number of failures by algorithm and environment."""
        return Counter((spec.algo_label, spec.environment.id) for spec, _ in self.runs)

    @property
    def example(self) -> str:
        """The original message of the first run."""
        return self.runs[0][1].message

    @property
    def last_lines(self) -> list[str]:
        """The last lines of the first run's traceback."""
        lines = [line for line in self.runs[0][1].traceback.splitlines() if line.strip()]
        return lines[-_LAST_LINES:]


@dataclass(frozen=True)
class Failures:
    """All failures of a results folder.

    Attributes:
        groups: Groups of failures, the most frequent first.
        unreadable: A message for each recorded failure that cannot be read.
    """

    groups: list[FailureGroup]
    unreadable: list[str]


def read_failure_groups(out: Path, wanted: Callable[[RunSpec], bool] = lambda _: True) -> Failures:
    """Reads the failures of runs whose last attempt failed.

    Args:
        out: Root of the results folder.
        wanted: Whether to include a run.

    Raises:
        InputError: The folder does not exist.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    found: list[tuple[RunSpec, RunFailure]] = []
    unreadable = []
    for path in run_directories(out):
        directory = RunDirectory(out / path)
        if not directory.has_failed:
            continue
        try:
            spec, failure = directory.read_spec(), directory.read_failure()
        except InputError as error:
            unreadable.append(str(error))
            continue
        if wanted(spec):
            found.append((spec, failure))
    return Failures(group_failures(found), unreadable)


def group_failures(failures: Iterable[tuple[RunSpec, RunFailure]]) -> list[FailureGroup]:
    """Groups failures whose messages differ only in numbers, ids and paths.

    Returns:
        Groups, the largest first; groups of equal size in order of their first failure.
    """
    groups: dict[tuple[str, str, str], FailureGroup] = {}
    for spec, failure in failures:
        key = failure.error_type, normalized(failure.message), failure.phase
        groups.setdefault(key, FailureGroup(*key)).runs.append((spec, failure))
    return sorted(groups.values(), key=lambda group: -len(group.runs))


def normalized(message: str) -> str:
    """Replaces what differs between runs in a message: numbers, ids, addresses, paths."""
    for pattern, stand_in in _PATTERNS:
        message = pattern.sub(stand_in, message)
    return message
