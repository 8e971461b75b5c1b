"""Measures the learned rewards of all runs of a results folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.records.reward_scores import RewardProtocol, RewardScores
from imitbench.records.runs import RunSpec
from imitbench.records.selection import Selection
from imitbench.reward_board.optimization import Optimizations
from imitbench.reward_board.worker import Measurement, measure_all
from imitbench.rewards.storage import DESCRIPTION_FILE
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories


@dataclass(frozen=True)
class EvaluatedRun:
    """The learned reward of one run.

    Attributes:
        spec: Specification of the run.
        scores: Its numbers; `None` if they could not be measured.
        problem: Why not.
        new: Whether they were measured now, not earlier.
    """

    spec: RunSpec
    scores: RewardScores | None
    problem: str = ""
    new: bool = True


def runs_with_rewards(
    out: Path, selection: Selection, only: Collection[str] | None = None
) -> list[RunDirectory]:
    """Returns the complete runs of a results folder that have stored a reward.

    Args:
        out: Root of the results folder.
        selection: Which runs.
        only: Ids of the runs; `None` for all that are selected.

    Raises:
        InputError: There is no such folder, or no such run in it.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    found = [RunDirectory(out / path) for path in run_directories(out)]
    if only is not None:
        found = [run for run in found if run.path.name in only]
    with_rewards = [run for run in found if run.is_done and _has_reward(run)]
    chosen = [run for run in with_rewards if _selects(selection, run.read_spec())]
    if not chosen:
        which = "the selected runs" if with_rewards else "its complete runs"
        raise InputError(
            f"--out {out}: none of {which} has a stored reward; methods such as airl, gail and "
            "preference_comparisons learn one"
        )
    return chosen


def _has_reward(directory: RunDirectory) -> bool:
    return (directory.reward / DESCRIPTION_FILE).is_file()


def _selects(selection: Selection, spec: RunSpec) -> bool:
    return selection.selects(spec.suite, spec.environment.id, spec.algo_label)


def evaluate_runs(
    out: Path,
    runs: Sequence[RunDirectory],
    protocol: RewardProtocol,
    *,
    suite: str | None = None,
    again: bool = False,
    trust: bool = False,
    optimizations: Mapping[str, Optimizations] | None = None,
    options: RunOptions | None = None,
) -> Iterator[EvaluatedRun]:
    """Measures the rewards of runs, and stores the numbers in their folders.

    Args:
        out: Root of their results folder.
        runs: Complete runs with a stored reward.
        protocol: How to measure; runs that were measured so are left as they are.
        suite: Folder of the suite that has their experts; `None` for the bundled ones.
        again: Whether to measure them again; numbers about policies of optimizers that `protocol`
            does not have are kept.
        trust: Whether to import the plug-ins that made them.
        optimizations: Fresh policies that were trained on each reward, by the run's id.
        options: Where runs are measured, and how many at a time; `None` for this process.

    Yields:
        Each run in turn, once it is measured.
    """
    earlier = {directory.path: _earlier(directory, again=again) for directory in runs}
    known = {
        path: scores
        for path, scores in earlier.items()
        if not again and scores is not None and scores.protocol.covers(protocol)
    }
    wanted = [
        Measurement(
            run=str(directory.path.resolve()),
            protocol=protocol,
            suite=suite,
            trust=trust,
            optimizations=(optimizations or {}).get(directory.path.name),
        )
        for directory in runs
        if directory.path not in known
    ]
    measured = measure_all(wanted, options or RunOptions(), out)
    for directory in runs:
        spec = directory.read_spec()
        if directory.path in known:
            yield EvaluatedRun(spec, known[directory.path], new=False)
            continue
        found, before = next(measured), earlier[directory.path]
        scores = found.scores
        if scores is not None:
            scores = scores if before is None else scores.with_policies_of(before)
            directory.write_reward_scores(scores)
        yield EvaluatedRun(spec, scores, found.problem)
    next(measured, None)  # lets the workers end


def _earlier(directory: RunDirectory, *, again: bool) -> RewardScores | None:
    """Reads what was measured of a run's reward; nothing if that is malformed and done again."""
    try:
        return directory.read_reward_scores()
    except InputError:
        if not again:
            raise
        return None


def medians(
    runs: Iterable[EvaluatedRun], measure: str, behavior: str = "all"
) -> dict[tuple[str, str], float]:
    """Returns the median of a measure over the runs of each algorithm on each environment."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for score in () if run.scores is None else run.scores.scores:
            if (score.measure, score.behavior) == (measure, behavior):
                cell = run.spec.environment.id, run.spec.algo_label
                found.setdefault(cell, []).append(score.value)
    return {cell: median(values) for cell, values in found.items()}
