"""Simple reward networks to test other code with."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch as th

from imitbench.rewards.base import RewardNet
from imitbench.rewards.networks import BasicRewardNet
from imitbench.rewards.wrappers import RewardEnsemble


class MockRewardNet(RewardNet):
    """Gives the same reward to every transition.

    Args:
        observation_space: Space of the observations.
        action_space: Space of the actions.
        value: The reward.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        value: float = 0.0,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.value = value

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Returns `value` for each of n transitions, shape (n,)."""
        return th.full((len(state),), self.value, dtype=th.float32, device=state.device)


def make_ensemble(
    obs_space: gym.Space[Any], action_space: gym.Space[Any], num_members: int = 2, **kwargs: Any
) -> RewardEnsemble:
    """Creates an ensemble of `BasicRewardNet`.

    Args:
        obs_space: Space of the observations.
        action_space: Space of the actions.
        num_members: Number of networks, at least 2.
        **kwargs: Further arguments of each network.

    Raises:
        ValueError: There are fewer than 2 networks.
    """
    members = [BasicRewardNet(obs_space, action_space, **kwargs) for _ in range(num_members)]
    return RewardEnsemble(obs_space, action_space, members)
