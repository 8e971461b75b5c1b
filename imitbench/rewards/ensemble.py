"""Ensembles of reward networks, whose disagreement estimates their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch as th
from torch import nn

from imitbench.data.types import AnyTensor
from imitbench.rewards.base import Array, RewardNet, RewardNetWithVariance


class RewardEnsemble(RewardNetWithVariance):
    """The mean of several reward networks.

    Each member contributes its `predict_processed`, so members may be normalized separately.

    Args:
        observation_space: That of all members.
        action_space: That of all members.
        members: At least two networks.

    Raises:
        ValueError: There are fewer than two members.

    Attributes:
        members: The networks as submodules.
    """

    members: nn.ModuleList

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        members: Iterable[RewardNet],
    ) -> None:
        super().__init__(observation_space, action_space)
        self.members = nn.ModuleList(members)
        if len(self.members) < 2:
            raise ValueError(
                f"members: an ensemble needs at least 2, not {len(self.members)}: one alone has "
                "no variance"
            )

    @property
    def num_members(self) -> int:
        """Number of networks."""
        return len(self.members)

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: members are trained individually.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("an ensemble has no forward pass: call and train its members")

    def predict_th(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> th.Tensor:
        """Mean of the members, shape `(n,)`."""
        return th.as_tensor(self.predict(state, action, next_state, done), device=self.device)

    def predict(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Mean of the members, shape `(n,)`, without updating their normalizers.

        Arguments as in `predict_processed_all`.
        """
        kwargs = {"update_stats": False, **kwargs}
        return self.predict_processed(state, action, next_state, done, **kwargs)

    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Mean of the members, shape `(n,)`; arguments as in `predict_processed_all`."""
        mean: Array = self.predict_processed_all(state, action, next_state, done, **kwargs).mean(-1)
        return mean

    def predict_processed_all(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Rewards of every member.

        Arguments as in `preprocess`; keyword arguments are passed to each member's
        `predict_processed`.

        Returns:
            Rewards, shape `(n, num_members)`.
        """
        columns = [
            cast(RewardNet, member).predict_processed(state, action, next_state, done, **kwargs)
            for member in self.members
        ]
        return np.stack(columns, axis=-1)

    def predict_reward_moments(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> tuple[Array, Array]:
        """Mean and unbiased variance over the members; arguments as in `predict_processed_all`.

        Returns:
            Means and variances, each of shape `(n,)`.
        """
        rewards = self.predict_processed_all(state, action, next_state, done, **kwargs)
        return rewards.mean(-1), rewards.var(-1, ddof=1)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same ensemble."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "members": list(self.members),
        }
