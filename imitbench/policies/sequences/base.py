"""Base classes of policies that are trained on windows of demonstrations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces

from imitbench.policies.receding_horizon import next_actions, remember
from imitbench.policies.sequences.encoding import (
    Array,
    Normalization,
    Normalizer,
    ObservationEncoder,
)
from imitbench.policies.stateful import State, StatefulPolicy


class WindowBatch(NamedTuple):
    """Windows of demonstrations.

    Attributes:
        obs: Shape (batch, observations, *observation_shape).
        acts: Shape (batch, actions, *action_shape).
        real: Whether an action is within its demonstration, shape (batch, actions), bool. Before
            and after, the first and the last step are repeated.
    """

    obs: th.Tensor
    acts: th.Tensor
    real: th.Tensor


class SequencePolicy(StatefulPolicy, ABC):
    """A policy that learns from windows of demonstrations.

    Args:
        observation_space: A box, choices, or an image of bytes.
        action_space: A box; choices for policies that say so.
        normalization: Statistics that normalize observations and continuous actions.
        image_features: Features of an image.

    Attributes:
        observed: Steps of the observations in a window, relative to its own step.
        acted: Steps of the actions in a window, relative to its own step.
        encoder: Maps observations to vectors.
        n_actions: Entries of an action.
        action_normalizer: Normalizes continuous actions; `None` for choices.

    Raises:
        ValueError: A space is of another kind.
    """

    own_arguments: tuple[str, ...] = ()
    """Constructor arguments of the subclass, which are also its attributes."""
    acts_in: tuple[type[gym.Space[Any]], ...] = (spaces.Box,)
    """Kinds of action space."""
    length_argument = "horizon"
    """The constructor argument that decides how long a window is."""
    observed: range
    acted: range

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        normalization: Normalization,
        image_features: int,
    ) -> None:
        if not isinstance(action_space, self.acts_in):
            needed = " or ".join(kind.__name__ for kind in self.acts_in)
            raise ValueError(
                f"action_space: {type(self).__name__} needs {needed}, not {action_space}"
            )
        super().__init__(observation_space, action_space)
        self.image_features = image_features
        self.encoder = ObservationEncoder(observation_space, normalization, image_features)
        self.n_actions = spaces.flatdim(action_space)
        self.action_normalizer = (
            Normalizer(self.n_actions, normalization)
            if isinstance(action_space, spaces.Box)
            else None
        )

    @abstractmethod
    def loss(
        self, batch: WindowBatch, rng: np.random.Generator
    ) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """The loss of a batch, with derivatives by the parameters.

        Args:
            batch: Windows with the steps `observed` and `acted`.
            rng: Source of the loss's own randomness, if it has any.

        Returns:
            A scalar, and parts of it by name, without derivatives.
        """

    def fit_normalization(self, observations: Array, actions: Array) -> None:
        """Takes the statistics of all steps of the demonstrations.

        Args:
            observations: Shape (steps, *observation_shape).
            actions: Shape (steps, *action_shape).
        """
        self.encoder.fit(observations)
        if self.action_normalizer is not None:
            self.action_normalizer.fit(actions.reshape(len(actions), -1))

    def encode_windows(self, obs: th.Tensor) -> th.Tensor:
        """Vectors of windows of observations, shape (batch, observations, size)."""
        vectors: th.Tensor = self.encoder(obs.flatten(0, 1))
        return vectors.reshape(*obs.shape[:2], -1)

    def normalized(self, acts: th.Tensor) -> th.Tensor:
        """Normalized actions of windows, shape (batch, actions, n_actions)."""
        assert self.action_normalizer is not None, "actions are continuous"
        result: th.Tensor = self.action_normalizer(acts.flatten(2).float())
        return result

    def in_units(self, actions: th.Tensor) -> th.Tensor:
        """Normalized actions, shape (n_envs, n_actions), in the units of the environment."""
        assert self.action_normalizer is not None, "actions are continuous"
        return self.action_normalizer.inverse(actions)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Loads weights and normalization.

        Raises:
            ValueError: The normalization is missing: actions would be in wrong units.
        """
        for name in self.state_dict():
            if "normalizer." in name and name not in state_dict:
                raise ValueError(
                    f"the normalization of the demonstrations is missing ('{name}'); save the "
                    "policy again with it, or train it again"
                )
        return super().load_state_dict(state_dict, *args, **kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        names = ("observation_space", "action_space", "image_features", *self.own_arguments)
        return {name: getattr(self, name) for name in names}


class ChunkPolicy(SequencePolicy):
    """Plans a chunk of actions, takes some of them, and plans again (receding horizon).

    Chunks begin with the first observation of the history, as in the diffusion policy's paper: the
    first `history - 1` actions of a plan are those that were taken before, and are left out.

    Args:
        *args: As for `SequencePolicy`.
        history: Observations that a plan depends on, the present one included. At the start of an
            episode, the first one is repeated.
        horizon: Actions in a plan.
        execute: Actions of a plan that are taken.
        **kwargs: As for `SequencePolicy`.

    Raises:
        ValueError: As `SequencePolicy`, or a plan has fewer actions than are taken.
    """

    def __init__(self, *args: Any, history: int, horizon: int, execute: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if min(history, horizon, execute) < 1:
            raise ValueError("history, horizon and execute must be at least 1")
        if history - 1 + execute > horizon:
            raise ValueError(
                f"horizon: {horizon} actions are too few; history {history} and execute {execute} "
                f"need {history - 1 + execute}"
            )
        self.history, self.horizon, self.execute = history, horizon, execute
        self.observed = range(1 - history, 1)
        self.acted = range(1 - history, 1 - history + horizon)

    @abstractmethod
    def plan(self, seen: th.Tensor, deterministic: bool) -> th.Tensor:
        """Plans normalized actions.

        Args:
            seen: Vectors of the history, the present last, shape (n, history, size).
            deterministic: Whether the plan must not be random.

        Returns:
            Shape (n, horizon, n_actions).
        """

    def initial_state(self, n_envs: int) -> State:
        """An empty history, no steps, and a plan that the first step replaces."""
        return (
            th.zeros(n_envs, self.history, self.encoder.size, device=self.device),
            th.zeros(n_envs, dtype=th.int64, device=self.device),
            th.zeros(n_envs, self.execute, self.n_actions, device=self.device),
        )

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Takes the next action of each plan, and plans again where all were taken."""
        seen, steps, plans = state
        seen = remember(seen, self.encoder(observation), steps == 0)

        def plan(due: th.Tensor) -> th.Tensor:
            fresh = self.plan(seen[due], deterministic)
            return fresh[:, self.history - 1 :][:, : self.execute]

        chosen, plans = next_actions(plans, steps, plan)
        return self.in_units(chosen), (seen, steps + 1, plans)
