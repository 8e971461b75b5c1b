"""Rewards with one number for each state of a tabular environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from torch import nn

from imitbench.data.tabular import TabularModel
from imitbench.rewards.base import RewardNet


class TabularRewardNet(RewardNet):
    """A reward with one parameter per state, initially zero.

    Args:
        observation_space: Observation space of the environment.
        action_space: Action space of the environment; not used.
        observations: The distinct observation of each state, shape (states, size); state numbers if
            the observation space is discrete.

    Raises:
        ValueError: `observations` are outside the space, or two states have the same.
    """

    observations: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        observations: npt.NDArray[Any],
    ) -> None:
        super().__init__(observation_space, action_space)
        self._given = np.asarray(observations)
        with th.device("cpu"):  # stored networks are built on the meta device, without data
            known = self._encode_state(self._given, th.device("cpu"), th.float32).flatten(1)
        if len(np.unique(known.numpy(), axis=0)) != len(known):
            raise ValueError("observations: two states have the same; a table needs distinct ones")
        self.register_buffer("observations", known)
        self.values = nn.Parameter(th.zeros(len(known)))

    @classmethod
    def of(cls, env: Any) -> TabularRewardNet:
        """Creates the table of a tabular environment.

        Raises:
            ValueError: `env` is not tabular.
        """
        model = TabularModel.of(env)
        known = np.arange(model.states) if model.observations is None else model.observations
        return cls(env.observation_space, env.action_space, known)

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Rewards of the states with these observations; only `state` is used.

        Raises:
            ValueError: An observation belongs to no state.
        """
        del action, next_state, done
        flat = state.flatten(1)
        known = self.observations
        if flat.shape == known.shape and th.equal(flat, known):
            # Not the parameter itself, which later steps change in place.
            return self.values.clone()
        distances = th.cdist(flat, known, compute_mode="donot_use_mm_for_euclid_dist")
        closest, index = distances.min(dim=1)
        if bool((closest > 0).any()):
            raise ValueError("state: an observation belongs to no state")
        return self.values[index]

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same table, without its values."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "observations": self._given.tolist(),
        }
