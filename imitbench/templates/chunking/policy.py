"""A policy that plans several actions at once, and then takes them one after another.

Start here for a policy of your own. `StatefulPolicy` is for policies with a memory: recurrent ones,
and those that plan. A policy without a memory is a subclass of
`stable_baselines3.common.policies.BasePolicy` with `_predict`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution, make_proba_distribution
from torch import nn

from imitbench.policies.stateful import State, StatefulPolicy


class ChunkPolicy(StatefulPolicy):
    """Plans `chunk` actions from one observation, takes them all, and plans again.

    Each argument of the constructor is kept under its name: the policy is stored as its arguments
    and weights, and built again from them.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
        chunk: Number of actions in a plan.
        hidden_size: Units per hidden layer.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        chunk: int,
        hidden_size: int,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.chunk = chunk
        self.hidden_size = hidden_size
        inputs = spaces.flatdim(observation_space)
        outputs = spaces.flatdim(action_space)  # of the network, for one action
        self.network = nn.Sequential(
            nn.Flatten(),
            nn.Linear(inputs, hidden_size),
            nn.Tanh(),
            nn.Linear(hidden_size, hidden_size),
            nn.Tanh(),
            nn.Linear(hidden_size, chunk * outputs),
        )
        if isinstance(action_space, spaces.Box):
            self.log_std = nn.Parameter(th.zeros(outputs))

    def plan(self, observations: th.Tensor) -> Distribution:
        """Returns the distribution of the next actions: `chunk` rows for each observation.

        Args:
            observations: Shape (n, …).
        """
        heads = self.network(observations.float()).reshape(len(observations) * self.chunk, -1)
        distribution: Any = make_proba_distribution(self.action_space)
        if isinstance(self.action_space, spaces.Box):
            return distribution.proba_distribution(heads, self.log_std)  # type: ignore[no-any-return]
        return distribution.proba_distribution(heads)  # type: ignore[no-any-return]

    def initial_state(self, n_envs: int) -> State:
        """Returns empty plans, all of which are used up."""
        space = self.action_space
        dtype = th.float32 if isinstance(space, spaces.Box) else th.int64
        plans = th.zeros(n_envs, self.chunk, *(space.shape or ()), dtype=dtype, device=self.device)
        return plans, th.full((n_envs,), self.chunk, device=self.device)

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Takes the next action of each plan, and plans again where there is none left."""
        assert isinstance(observation, th.Tensor)
        plans, used = state
        fresh = self.plan(observation).get_actions(deterministic=deterministic)
        over = (used == self.chunk).reshape(-1, *[1] * (plans.ndim - 1))
        plans = th.where(over, fresh.reshape(plans.shape).to(plans.dtype), plans)
        used = th.where(used == self.chunk, 0, used)
        return plans[th.arange(len(plans)), used], (plans, used + 1)
