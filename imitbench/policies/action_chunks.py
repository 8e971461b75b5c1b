"""Policies that plan chunks of actions: receding horizon, temporal ensembling, history.

Each environment has a memory of its own, so that episodes may end at different steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces

from imitbench.policies.observation_parts import Part
from imitbench.policies.receding_horizon import next_actions, remember
from imitbench.policies.stateful import State, StatefulPolicy


class PartsChunkPolicy(StatefulPolicy):
    """A policy that plans several actions at once, from parts of the latest observations.

    Without ensembling, the first `executed` actions of a plan are carried out before the next plan
    is made (receding horizon). With it, a plan is made at each step, and the action is the average
    of what the plans so far say about this step, with weights exp(-`ensembling` * i), where i = 0
    is the oldest plan (Zhao et al. 2023, Algorithm 2).

    At the start of an episode the first observation stands for the missing earlier ones.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
        parts: The inputs of the policy in an observation.
        history: Number of latest observations that a plan is made from.
        planned: Number of actions in a plan.
        executed: Number of them that are carried out; 1 with ensembling.
        ensembling: Decay of the weights of newer plans; `None` without ensembling.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: spaces.Box,
        parts: Sequence[Part],
        *,
        history: int,
        planned: int,
        executed: int,
        ensembling: float | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.parts = list(parts)
        self.history, self.planned, self.executed = history, planned, executed
        self.action_size = spaces.flatdim(action_space)
        self.ensembling = ensembling
        if ensembling is not None:
            weights = th.exp(-ensembling * th.arange(planned))
            self.register_buffer("weights", weights, persistent=False)
            sums = th.cat([th.zeros(1), weights.cumsum(0)])
            self.register_buffer("weight_sums", sums, persistent=False)

    @abstractmethod
    def plan(self, inputs: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        """Plans actions.

        Args:
            inputs: By name of the feature, shape (n, history, …), the latest last.
            deterministic: Whether to take the most likely plan.

        Returns:
            The plan, beginning with the action of now, shape (n, planned, action size), in the
            units of the networks.
        """

    @abstractmethod
    def in_units_of_environment(self, actions: th.Tensor) -> th.Tensor:
        """Converts actions, shape (n, action size), from the units of the networks."""

    def initial_state(self, n_envs: int) -> State:
        """Returns an empty memory; see `StatefulPolicy`."""
        device = self.device
        rows = self.planned if self.ensembling is not None else self.executed
        actions = th.zeros(n_envs, rows, self.action_size, device=device)
        # Plans for each step of the ensemble, or the number of actions taken in the episode.
        counts = th.zeros(
            (n_envs, rows) if self.ensembling is not None else (n_envs,),
            dtype=th.long, device=device,
        )  # fmt: skip
        begun = th.zeros(n_envs, dtype=th.bool, device=device)
        seen = (
            th.zeros(n_envs, self.history, *part.feature.shape, device=device)
            for part in self.parts
        )
        return (begun, counts, actions, *seen)

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Chooses actions for one step; see `StatefulPolicy`."""
        begun, counts, actions, *seen = state
        seen = [
            remember(past, part.take(observation), ~begun)
            for part, past in zip(self.parts, seen, strict=True)
        ]
        inputs = {part.feature.name: past for part, past in zip(self.parts, seen, strict=True)}
        step = self._receding if self.ensembling is None else self._ensembled
        chosen, counts, actions = step(inputs, counts, actions, deterministic)
        chosen = self.in_units_of_environment(chosen)
        shape = self.action_space.shape
        assert shape is not None
        return chosen.reshape(-1, *shape), (th.ones_like(begun), counts, actions, *seen)

    def _receding(
        self,
        inputs: dict[str, th.Tensor],
        taken: th.Tensor,
        actions: th.Tensor,
        deterministic: bool,
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        def plan(due: th.Tensor) -> th.Tensor:
            given = {name: feature[due] for name, feature in inputs.items()}
            return self.plan(given, deterministic)[:, : self.executed]

        chosen, actions = next_actions(actions, taken, plan)
        return chosen, taken + 1, actions

    def _ensembled(
        self,
        inputs: dict[str, th.Tensor],
        counts: th.Tensor,
        average: th.Tensor,
        deterministic: bool,
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        weights, sums = self.weights, self.weight_sums
        assert isinstance(weights, th.Tensor)
        assert isinstance(sums, th.Tensor)
        plan = self.plan(inputs, deterministic)
        known, newest, total = (
            weight.unsqueeze(-1) for weight in (sums[counts], weights[counts], sums[counts + 1])
        )
        average = (average * known + plan * newest) / total
        left = th.cat([average[:, 1:], th.zeros_like(average[:, :1])], dim=1)
        counts = th.cat([counts[:, 1:] + 1, th.zeros_like(counts[:, :1])], dim=1)
        return average[:, 0], counts, left
