"""The reward board of a report: what learned rewards are worth to policies trained on them.

A row has the rewards of one algorithm in one environment: the scores of the policies that came
with them, of those trained anew on them, and of those trained on the true reward, where the rewards
were learned and with other dynamics. Each learned reward is one observation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from imitbench.records.reward_scores import RewardScoreRow
from imitbench.report import text
from imitbench.report.model import Cell, Column, RewardBoardRow, RewardSummary, Table
from imitbench.stats.bootstrap import Interval, no_interval
from imitbench.stats.significance import mean_interval, welch

REWARDS = "rewards"
"""Label of the table."""
LEAST_TRUE_SCORE = 0.2
"""Mean score of policies on the true reward below which nothing follows from those on learned ones.

Policies that hardly learn from the true reward would not learn from a perfect one either.
"""
CAPTION = (
    "Mean scores, with Student's interval over rewards. Came along: the policies that were "
    "trained together with the rewards. Re-optimized: fresh policies that were trained, where "
    "they are scored, on the frozen rewards. Gain: re-optimized minus came along, of the same "
    "reward. On the true reward: fresh policies, too, with an interval over these. Hacking gap: "
    "score lost since its peak while the learned return still rose. Learned score: the learned "
    "return at the end, with 0 for random actions and 1 for the expert; where it is near 1 beside "
    "a low score, the reward prefers something else to the task."
)
NUMBERS = {
    "learner": "Came along",
    "reoptimized": "Re-optimized",
    "gain": "Gain",
    "true_reward": "On the true reward",
    "hacking_gap": "Hacking gap",
    "learned_score": "Learned score",
}
"""Numbers of a row, see `RewardBoardRow.scores`, with their headings."""
_SUMMARIZED = (
    {"learner": "learner", "reoptimized": "reoptimized"},
    {"unchanged": "learner", "transferred": "reoptimized", "gain": "gain"},
)
"""Numbers of a summary by those of cells: where rewards were learned, and with other dynamics."""
SUMMARY = "rewards-overall"
"""Label of the table over environments."""
SUMMARY_NUMBERS = {
    "learner": "Came along",
    "reoptimized": "Re-optimized",
    "true_reward": "On the true reward",
    "unchanged": "Unchanged elsewhere",
    "transferred": "Transferred",
    "gain": "Gain elsewhere",
    "true_reward_there": "On the true reward elsewhere",
}
"""Numbers of a summary, see `RewardSummary.scores`, with their headings."""
SUMMARY_CAPTION = (
    "Mean scores over environments, which weigh equally, with Student's interval over rewards. "
    "Came along: the policies that were trained together with the rewards. Re-optimized: fresh "
    "policies on the frozen rewards. Elsewhere: with other dynamics, where each reward counts with "
    "its mean over them. Unchanged: the policies that came along. Transferred: fresh policies that "
    "were trained there on the frozen rewards. Gain: transferred minus unchanged, of the same "
    "reward. On the true reward: fresh policies, too."
)
_PARTIAL = " Algorithms of fewer environments come last: their means are over fewer tasks."
_RANKS = {"gain": 2, "true_reward": 2, "hacking_gap": 3, "learned_score": 2}
_LEVEL = 0.95


@dataclass(frozen=True)
class _Cell:
    """Numbers about the rewards of one algorithm, where their policies were scored.

    Attributes:
        values: By what they are, see `RewardBoardRow.scores`, and by run.
        true: Score of policies on the true reward, which all rewards share.
    """

    values: dict[str, dict[str, float]]
    true: Interval | None


def _cells(rows: Iterable[RewardScoreRow]) -> dict[tuple[str, str, str, str], _Cell]:
    """Sorts numbers by environment, algorithm, tested environment (or empty) and optimizer."""
    values: dict[tuple[str, str, str, str], dict[str, dict[str, float]]] = {}
    learners: dict[tuple[str, str, str], dict[str, float]] = {}
    true: dict[tuple[str, str, str, str], Interval] = {}
    for row in rows:
        if row.measure not in ("score", "hacking_gap", "learned_score"):
            continue
        key = row.env, row.algo, row.tested_in or ""
        if row.behavior == "learner":
            learners.setdefault(key, {})[row.run_id] = row.value
            continue
        kind, _, optimizer = row.behavior.rpartition("_")
        if kind == "true_reward":  # the same policies for all rewards
            true[(*key, optimizer)] = Interval(row.value, row.low, row.high, _LEVEL)
        name = kind if row.measure == "score" else row.measure
        found = values.setdefault((*key, optimizer), {})
        found.setdefault(name, {})[row.run_id] = row.value
    cells = {}
    for (env, algo, tested_in, optimizer), found in sorted(values.items()):
        came = learners.get((env, algo, tested_in), {})
        fresh = found.get("reoptimized", {})
        gain = {run_id: fresh[run_id] - came[run_id] for run_id in fresh.keys() & came.keys()}
        every = {"learner": came, "gain": gain} | found
        where = env, algo, tested_in, optimizer
        cells[where] = _Cell({name: runs for name, runs in every.items() if runs}, true.get(where))
    return cells


def reward_board(rows: Iterable[RewardScoreRow]) -> tuple[RewardBoardRow, ...]:
    """Averages the scores of policies over the rewards of each algorithm.

    Args:
        rows: Numbers about rewards of runs that may be averaged; those that are not about policies
            are ignored.

    Returns:
        A row for each environment, algorithm, optimizer and tested environment, sorted.
    """
    board = []
    for (env, algo, tested_in, optimizer), cell in _cells(rows).items():
        scores = {
            name: mean_interval(list(runs.values()), level=_LEVEL)
            for name, runs in cell.values.items()
        }
        if cell.true is not None:
            scores["true_reward"] = cell.true
        rewards = len(cell.values.get("reoptimized", ()))
        board.append(RewardBoardRow(env, algo, optimizer, tested_in or None, rewards, scores))
    return tuple(board)


def reward_summaries(rows: Iterable[RewardScoreRow]) -> tuple[RewardSummary, ...]:
    """Averages the scores of policies over environments.

    Args:
        rows: As for `reward_board`.

    Returns:
        A summary for each algorithm and optimizer: those of most environments first, and among
        these those with the highest score of transferred policies. Empty if rewards were learned in
        one environment only.
    """
    cells = _cells(rows)
    if len({env for env, *_ in cells}) < 2:
        return ()
    methods: dict[tuple[str, str], dict[tuple[str, str], _Cell]] = {}
    for (env, algo, tested_in, optimizer), cell in cells.items():
        methods.setdefault((algo, optimizer), {})[env, tested_in] = cell
    return tuple(sorted((_summary(*names, own) for names, own in methods.items()), key=_rank))


def _summary(
    algorithm: str, optimizer: str, cells: Mapping[tuple[str, str], _Cell]
) -> RewardSummary:
    """Averages the cells of one algorithm, by environment and tested environment (or empty)."""
    scores: dict[str, Interval] = {}
    gain_p = math.nan
    for elsewhere, names in enumerate(_SUMMARIZED):
        groups: dict[str, list[_Cell]] = {}
        for (env, tested_in), cell in cells.items():
            if bool(tested_in) == bool(elsewhere):
                groups.setdefault(env, []).append(cell)
        for name, value in names.items():
            found = [
                _over_tests([cell.values.get(value, {}) for cell in group])
                for group in groups.values()
            ]
            if found and all(found):
                scores[name], p_value = _over_environments(found)
                if name == "gain":
                    gain_p = p_value
        true = [
            [cell.true.point for cell in group if cell.true is not None]
            for group in groups.values()
        ]
        if true and all(true):
            name = "true_reward_there" if elsewhere else "true_reward"
            scores[name] = no_interval(float(np.mean([np.mean(points) for points in true])), _LEVEL)
    own = [
        cell.values.get("reoptimized", {})
        for (_, tested_in), cell in cells.items()
        if not tested_in
    ]
    return RewardSummary(algorithm, optimizer, len(own), sum(map(len, own)), scores, gain_p)


def _over_tests(cells: Sequence[Mapping[str, float]]) -> list[float]:
    """Returns the mean of each run over cells; of the runs that all cells have."""
    shared = sorted(set.intersection(*(set(values) for values in cells)))
    return [float(np.mean([values[run_id] for values in cells])) for run_id in shared]


def _over_environments(by_environment: Sequence[Sequence[float]]) -> tuple[Interval, float]:
    """Returns the mean over environments, which are fixed and weigh equally, and p of its being 0.

    The test is Welch's, against values of 0 without spread.
    """
    values = {str(index): found for index, found in enumerate(by_environment)}
    zeros = {key: [0.0] * len(found) for key, found in values.items()}
    test = welch(values, zeros, level=_LEVEL)
    return Interval(test.difference, test.low, test.high, _LEVEL), test.p_value


def _rank(summary: RewardSummary) -> tuple[int, float, str]:
    score = summary.scores.get("transferred") or summary.scores.get("reoptimized")
    return -summary.environments, -score.point if score else math.inf, summary.algorithm


def inconclusive(rows: Iterable[RewardBoardRow]) -> str:
    """Says where the board decides nothing, because the true reward was not learned from either.

    Returns:
        A sentence with the scores below `LEAST_TRUE_SCORE`; empty if there are none.
    """
    found = {
        f"{row.tested_in or row.environment} ({row.optimizer.upper()}: {text.score(true.point)})"
        for row in rows
        if (true := row.scores.get("true_reward")) and true.point < LEAST_TRUE_SCORE
    }
    if not found:
        return ""
    return (
        "Nothing can be concluded about rewards where policies that were trained on the true "
        f"reward score below {LEAST_TRUE_SCORE} themselves: {', '.join(sorted(found))}; "
        "use a larger budget."
    )


def reward_table(rows: Sequence[RewardBoardRow]) -> Table:
    """Returns the board as a table."""
    several = len({row.optimizer for row in rows}) > 1

    columns = [
        Column("Environment", "name", rank=1, above=True),
        Column("Algorithm", "name"),
        Column("Scored in", "name", rank=1),
        *([Column("Trained by", "text", rank=2)] if several else []),
        Column("Rewards", rank=4),
        *(
            Column(heading, "interval", rank=_RANKS.get(name, 0))
            for name, heading in NUMBERS.items()
        ),
    ]
    caption = " ".join(filter(None, (CAPTION, inconclusive(rows))))
    return Table(
        title="Reward board",
        columns=tuple(columns),
        rows=tuple(
            (
                Cell(row.environment),
                Cell(row.algorithm),
                Cell((row.tested_in or "the same").removeprefix(row.environment)),
                *([Cell(row.optimizer.upper())] if several else []),
                Cell.count(row.rewards),
                *(_shown(row.scores, name) for name in NUMBERS),
            )
            for row in rows
        ),
        names=3,
        caption=caption,
        print_caption=caption,
        label=REWARDS,
        grouped=True,
    )


def summary_table(summaries: Sequence[RewardSummary]) -> Table:
    """Returns the summaries as a table."""
    several = len({summary.optimizer for summary in summaries}) > 1
    most = max((summary.environments for summary in summaries), default=0)
    known = {name for summary in summaries for name in summary.scores}
    numbers = {name: said for name, said in SUMMARY_NUMBERS.items() if name in known}
    columns = [
        Column("Algorithm", "name"),
        *([Column("Trained by", "text", rank=2)] if several else []),
        Column("Environments", "text", rank=1),
        *(
            Column(heading, "interval", rank=3 if "true" in name else 0)
            for name, heading in numbers.items()
        ),
    ]
    partial = any(summary.environments < most for summary in summaries)
    caption = f"{SUMMARY_CAPTION}{_PARTIAL * partial}"
    return Table(
        title="Reward board over environments",
        columns=tuple(columns),
        rows=tuple(
            (
                Cell(summary.algorithm),
                *([Cell(summary.optimizer.upper())] if several else []),
                Cell(f"{summary.environments} of {most}"),
                *(_shown(summary.scores, name) for name in numbers),
            )
            for summary in summaries
        ),
        caption=caption,
        print_caption=caption,
        label=SUMMARY,
    )


def _shown(scores: Mapping[str, Interval], name: str) -> Cell:
    interval = scores.get(name)
    return Cell(text.NOTHING) if interval is None else Cell(_ends(interval), interval.point)


def _ends(interval: Interval) -> str:
    point = text.score(interval.point)
    if not interval.known:
        return point
    return f"{point} [{text.score(interval.low)}, {text.score(interval.high)}]"
