"""Reads the learning curves of all runs in a results folder, for exports to other programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from imitbench.bench.checkpoint import read_curve
from imitbench.errors import InputError
from imitbench.records.runs import RunResult, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import check_suites, run_directories
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import Names, split_names


@dataclass(frozen=True)
class LoggedCurve:
    """Learning curve and result of one run.

    Attributes:
        directory: Directory of the run.
        spec: Specification of the run.
        points: Its learning curve so far, each point with a `step`.
        result: Its result; `None` for an incomplete run.
    """

    directory: RunDirectory
    spec: RunSpec
    points: list[Mapping[str, float]]
    result: RunResult | None

    @property
    def outcome(self) -> dict[str, float]:
        """Final numbers by name; empty for an incomplete run."""
        if self.result is None:
            return {}
        score = self.result.references.score(self.result.raw_return)
        return {
            "result/raw_return": self.result.raw_return,
            **({} if math.isnan(score) else {"result/score": score}),
            "result/deterministic_return": self.result.deterministic_return,
            "result/mean_length": self.result.mean_length,
            **{f"result/{name}": value for name, value in self.result.measures.items()},
        }

    @property
    def last_step(self) -> int:
        """Number of budget units that the curve covers."""
        return int(self.points[-1]["step"]) if self.points else self.spec.budget.amount


def read_curves(out: Path, *, notify: Notify, suite: Names = None) -> Iterator[LoggedCurve]:
    """Reads the runs of a results folder, one at a time.

    Args:
        out: Results folder.
        notify: Called with messages about runs that cannot be read.
        suite: Suites to read; `None` for all.

    Raises:
        InputError: There is no such folder, or it has no runs of a suite.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    wanted = split_names("--suite", suite)
    check_suites(out, wanted)
    for path in sorted(run_directories(out)):
        directory = RunDirectory(out / path)
        try:
            spec = directory.read_spec()
            if wanted and spec.suite not in wanted:
                continue
            result = directory.read_result() if directory.is_done else None
            points = directory.read_curve()
        except InputError as error:
            notify(f"skipped: {error}")
            continue
        if not (points or result):  # it is about to resume
            points = read_curve(directory.checkpoints)
        yield LoggedCurve(directory, spec, points, result)
