"""Spreads a budget of comparisons and environment steps over the rounds of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitbench.util.util import oric

Schedule = Callable[[float], float]
"""Maps the share of rounds passed, in [0, 1], to an unnormalized number of comparisons."""

QUERY_SCHEDULES: dict[str, Schedule] = {
    "constant": lambda _elapsed: 1.0,
    "hyperbolic": lambda elapsed: 1.0 / (1.0 + elapsed),
    "inverse_quadratic": lambda elapsed: 1.0 / (1.0 + elapsed**2),
}
"""Schedules by name; decreasing ones spend most comparisons while the agent changes most."""


@dataclass(frozen=True)
class TrainingRound:
    """Budget of one round.

    Attributes:
        comparisons: Pairs of fragments to compare.
        timesteps: Environment steps to train the agent for.
        epoch_multiplier: Factor on the reward's training epochs.
    """

    comparisons: int
    timesteps: int
    epoch_multiplier: float = 1.0


def find_schedule(query_schedule: str | Schedule) -> Schedule:
    """Finds a schedule by name; functions pass unchanged.

    Raises:
        ValueError: `query_schedule` is neither a function nor a known name.
    """
    if callable(query_schedule):
        return query_schedule
    if query_schedule not in QUERY_SCHEDULES:
        raise ValueError(
            f"query_schedule: no schedule '{query_schedule}'; choose one of "
            f"{', '.join(QUERY_SCHEDULES)}, or pass a function of the share of rounds passed"
        )
    return QUERY_SCHEDULES[query_schedule]


def plan_comparisons(
    total: int, num_iterations: int, initial_frac: float, schedule: Schedule
) -> list[int]:
    """Spreads exactly `total` comparisons over rounds.

    Args:
        total: Comparisons of all rounds together.
        num_iterations: Number of rounds that follow the schedule.
        initial_frac: Share of the comparisons in a round before these, in [0, 1].
        schedule: Gives each round's weight.

    Returns:
        Comparisons of each round. Omits the round before the scheduled ones if its share is less
        than one comparison.

    Raises:
        ValueError: The schedule has a negative or non-finite value, or a round would have no
            comparison.
    """
    initial = int(total * initial_frac)
    weights = np.array([schedule(float(t)) for t in np.linspace(0, 1, num_iterations)])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError(
            f"query_schedule: weights must be finite, at least 0 and not all 0, not {weights}"
        )
    shares = oric(weights / weights.sum() * (total - initial)).astype(int).tolist()
    if not all(shares):
        raise ValueError(
            f"total_comparisons={total} is too small: spread over {num_iterations} iterations, "
            f"after {initial} in advance, it gives {shares}; use more comparisons or fewer "
            "iterations"
        )
    return [initial, *shares] if initial else shares


def plan_rounds(
    comparisons: list[int], total_timesteps: int, initial_epoch_multiplier: float
) -> list[TrainingRound]:
    """Adds environment steps, divided evenly; the last round gets the remainder.

    Args:
        comparisons: Comparisons of each round.
        total_timesteps: Environment steps of the agent's training in all rounds.
        initial_epoch_multiplier: Factor on the reward's training epochs in the first round.
    """
    share, rest = divmod(total_timesteps, len(comparisons))
    last = len(comparisons) - 1
    return [
        TrainingRound(
            comparisons=number,
            timesteps=share + (rest if index == last else 0),
            epoch_multiplier=initial_epoch_multiplier if index == 0 else 1.0,
        )
        for index, number in enumerate(comparisons)
    ]
