"""What every reward is to its users: a function of a batch of transitions."""

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
            state: Observations that the actions were chosen on, shape `(n, *observation_shape)`.
            action: Actions, shape `(n, *action_shape)`.
            next_state: Observations after the actions, same shape as `state`; at the end of an
                episode its last observation, not the first one of the next.
            done: Whether the episode ended with the transition, shape `(n,)`.

        Returns:
            Rewards, shape `(n,)`.
        """


class ValidateRewardFn:
    """A reward function that checks that another one gives one reward per transition.

    Args:
        reward_fn: The other one.
    """

    def __init__(self, reward_fn: RewardFn) -> None:
        self.reward_fn = reward_fn

    def __call__(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Computes rewards; arguments as in `RewardFn`.

        Raises:
            ValueError: They have another shape than `(n,)`.
        """
        rewards = self.reward_fn(state, action, next_state, done)
        check_reward_shape(np.shape(rewards), len(state))
        return rewards


def check_reward_shape(shape: tuple[int, ...], number: int) -> None:
    """Checks that there is one reward per transition.

    Args:
        shape: Shape of the rewards.
        number: How many transitions there are.

    Raises:
        ValueError: There are more, fewer, or they are no vector.
    """
    if shape != (number,):
        raise ValueError(f"rewards have shape {tuple(shape)}; they need ({number},), one each")
