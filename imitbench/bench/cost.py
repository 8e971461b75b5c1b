"""How long a plan will take, roughly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from imitbench.bench.plan import Plan
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError
from imitbench.records.runs import RunSpec

_SETUP_S = 1.0  # building environments, reading demonstrations, writing results

History = Mapping[tuple[str, str, str, int], float]
"""Median seconds of finished runs by (algorithm, environment, budget unit, amount)."""


def expected_seconds(
    run: RunSpec, algorithm: AlgorithmCard, environment: EnvironmentCard, history: History
) -> float:
    """Expected seconds of one run on one core.

    Finished runs of the same cell and budget tell best; without any, the rates on the cards do.
    """
    budget = run.budget
    known = history.get((run.algo_label, run.environment.id, budget.unit, budget.amount))
    if known is not None:
        return known
    training = budget.amount / 1000 * algorithm.seconds_per_1000
    if budget.unit == "env_steps":
        training += budget.amount / environment.steps_per_second
    steps = 2 * run.protocol.episodes * environment.max_episode_steps
    return _SETUP_S + training + steps / environment.steps_per_second


class DurationEstimates:
    """Expected seconds of a plan's runs.

    Args:
        plan: The plan.
        out: Results folder, whose finished runs tell best.
    """

    def __init__(self, plan: Plan, out: Path) -> None:
        self._cards = {card.name: card for card, _ in plan.algorithms}
        self._environments = plan.environments
        self._history = _history(out)

    def seconds(self, run: RunSpec) -> float:
        """Expected seconds of one run on one core."""
        environment = self._environments[run.environment.id]
        return expected_seconds(run, self._cards[run.algo], environment, self._history)


def _history(out: Path) -> History:
    from imitbench.store import database

    try:
        with database.reader(out) as connection:
            return database.read_durations(connection)
    except InputError:
        return {}
