"""Counts run directories by state, straight from the file system."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from imitbench.errors import InputError
from imitbench.store.run_dir import RunDirectory

STATES = ("done", "running", "failed", "unfinished")


@dataclass(frozen=True)
class CellStatus:
    """States of the runs of one algorithm on one environment.

    Attributes:
        suite: Name of the suite.
        algo: Algorithm, with its variant.
        env: Environment id.
        counts: Number of runs by state; `unfinished` runs were interrupted and resume when the
            same command is given again.
    """

    suite: str
    algo: str
    env: str
    counts: dict[str, int]

    def as_dict(self) -> dict[str, object]:
        """Flat form for JSON."""
        return {"suite": self.suite, "algo": self.algo, "env": self.env, **self.counts}


def survey(out: Path) -> list[CellStatus]:
    """Surveys a results folder.

    Args:
        out: Results folder.

    Returns:
        One entry per suite, algorithm and environment, sorted.

    Raises:
        InputError: There is no such folder.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    cells: dict[tuple[str, str, str], Counter[str]] = {}
    for path in out.glob("*/*/*/*/spec.json"):
        directory = RunDirectory(path.parent)
        try:
            spec = directory.read_spec()
        except InputError:
            continue
        key = (spec.suite, spec.algo_label, spec.environment.id)
        cells.setdefault(key, Counter())[_state(directory)] += 1
    return [
        CellStatus(*key, counts={state: counter[state] for state in STATES})
        for key, counter in sorted(cells.items())
    ]


def _state(directory: RunDirectory) -> str:
    if directory.is_done:
        return "done"
    if directory.is_claimed():
        return "running"
    return "failed" if directory.has_failed else "unfinished"
