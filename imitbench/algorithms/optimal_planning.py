"""Optimal planning on tabular environments: value iteration over a finite horizon.

Source: Puterman 1994, "Markov Decision Processes", section 4.5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from imitbench.data.tabular import TabularModel

Floats = npt.NDArray[np.float64]


def optimal_policy(model: TabularModel, rewards: Floats | None = None) -> tuple[Floats, Floats]:
    """Computes the policy with the highest expected undiscounted return.

    Args:
        model: Dynamics of the environment.
        rewards: Rewards, shape (states,), (states, actions) or (states, actions, states); the
            environment's own when `None`.

    Returns:
        The policy, shape (horizon, states, actions), deterministic, with ties going to the first
        action; and the values of states, shape (horizon, states).

    Raises:
        ValueError: `rewards` have another shape or are not finite.
    """
    if rewards is not None:
        model.check_rewards(rewards, "rewards")
    by_action = model.rewards_by_action(model.rewards if rewards is None else rewards)
    policy = np.zeros((model.horizon, model.states, model.actions))
    values = np.zeros((model.horizon + 1, model.states))
    states = np.arange(model.states)
    # Actions whose values differ only by rounding are ties.
    rounding = 1e-12 * max(1.0, float(np.abs(by_action).max())) * model.horizon
    for step in reversed(range(model.horizon)):
        action_values = by_action + model.transitions @ values[step + 1]
        best = action_values.max(axis=1)
        chosen = (action_values >= best[:, None] - rounding).argmax(axis=1)
        policy[step, states, chosen] = 1
        values[step] = best
    return policy, values[:-1]
