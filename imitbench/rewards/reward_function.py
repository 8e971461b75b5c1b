"""The interface of rewards: a function of a batch of transitions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class RewardFn(Protocol):
    """A function from a batch of transitions to their rewards."""

    def __call__(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Computes rewards.

        Args:
            state: Observations before the actions, shape `(n, *observation_shape)`.
            action: Actions, shape `(n, *action_shape)`.
            next_state: Observations after the actions, same shape as `state`; at the end of an
                episode its last observation, not the first one of the next.
            done: Whether the transition ended its episode, shape `(n,)`.

        Returns:
            Rewards, shape `(n,)`.
        """


class ValidateRewardFn:
    """Checks that a reward function returns one reward per transition.

    Args:
        reward_fn: Function to call and check.
    """

    def __init__(self, reward_fn: RewardFn) -> None:
        self.reward_fn = reward_fn

    def __call__(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Computes rewards; arguments as in `RewardFn`.

        Raises:
            ValueError: Their shape is not `(n,)`.
        """
        rewards = self.reward_fn(state, action, next_state, done)
        check_reward_shape(np.shape(rewards), len(state))
        return rewards


def check_reward_shape(shape: tuple[int, ...], number: int) -> None:
    """Checks that there is one reward per transition.

    Args:
        shape: Shape of the rewards.
        number: Number of transitions.

    Raises:
        ValueError: The shape is not `(number,)`.
    """
    if shape != (number,):
        raise ValueError(f"rewards have shape {tuple(shape)}; they need ({number},), one each")
