"""The reward board of a report: what learned rewards are worth to policies trained on them.

A row has the rewards of one algorithm in one environment: the scores of the policies that came
with them, of those trained anew on them, and of those trained on the true reward, where the rewards
were learned and with other dynamics. Each learned reward is one observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from imitbench.records.reward_scores import RewardScoreRow
from imitbench.report import text
from imitbench.report.model import Cell, Column, RewardBoardRow, Table
from imitbench.stats.bootstrap import Interval
from imitbench.stats.significance import welch_margins

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
_RANKS = {"gain": 2, "true_reward": 2, "hacking_gap": 3, "learned_score": 2}
_LEVEL = 0.95


def reward_board(rows: Iterable[RewardScoreRow]) -> tuple[RewardBoardRow, ...]:
    """Averages the scores of policies over the rewards of each algorithm.

    Args:
        rows: Numbers about rewards of runs that may be averaged; those that are not about policies
            are ignored.

    Returns:
        A row for each environment, algorithm, optimizer and tested environment, sorted.
    """
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
    board = []
    for (env, algo, tested_in, optimizer), found in sorted(values.items()):
        came = learners.get((env, algo, tested_in), {})
        fresh = found.get("reoptimized", {})
        gain = {run_id: fresh[run_id] - came[run_id] for run_id in fresh.keys() & came.keys()}
        every = {"learner": came, "gain": gain} | found
        scores = {name: _mean(list(by_run.values())) for name, by_run in every.items() if by_run}
        if (known := true.get((env, algo, tested_in, optimizer))) is not None:
            scores["true_reward"] = known
        board.append(RewardBoardRow(env, algo, optimizer, tested_in or None, len(fresh), scores))
    return tuple(board)


def _mean(values: Sequence[float]) -> Interval:
    """Returns a mean over rewards with Student's interval; one reward has none."""
    spread = np.array([[np.var(values, ddof=1) if len(values) > 1 else np.nan]])
    margin = float(welch_margins(spread, np.array([[len(values)]]), level=_LEVEL)[0])
    mean = float(np.mean(values))
    return Interval(mean, mean - margin, mean + margin, _LEVEL)


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

    def shown(row: RewardBoardRow, name: str) -> Cell:
        interval = row.scores.get(name)
        return Cell(text.NOTHING) if interval is None else Cell(_ends(interval), interval.point)

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
                *(shown(row, name) for name in NUMBERS),
            )
            for row in rows
        ),
        names=3,
        caption=caption,
        print_caption=caption,
        label=REWARDS,
        grouped=True,
    )


def _ends(interval: Interval) -> str:
    point = text.score(interval.point)
    if not interval.known:
        return point
    return f"{point} [{text.score(interval.low)}, {text.score(interval.high)}]"
