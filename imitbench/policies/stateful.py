"""Base class of policies with a memory: recurrent ones, and those that plan chunks of actions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import BasePolicy

from imitbench.data.policy_callable import environment_actions

State = tuple[th.Tensor, ...]
"""Memory of a policy: tensors whose first dimension is the environment."""


class StatefulPolicy(BasePolicy):
    """A policy whose actions depend on earlier observations of the episode.

    The policy acts in several environments at once, and keeps no memory of its own: whoever calls
    `predict` passes the state on to the next call, and says in which environments an episode
    starts. There the memory is that of `initial_state` again. Evaluation, videos and rollouts do
    this. The convention is that of `predict` in Stable-Baselines3.
    """

    @abstractmethod
    def initial_state(self, n_envs: int) -> State:
        """Returns the memory at the start of an episode.

        Args:
            n_envs: Number of environments.

        Returns:
            Tensors of shape (n_envs, …), on the device of the policy.
        """

    @abstractmethod
    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Chooses actions for one step.

        Args:
            observation: Observations as the environments return them, shape (n_envs, …).
            state: The memory, shapes (n_envs, …); must not be changed in place.
            deterministic: Whether to take the most likely actions.

        Returns:
            The actions, shape (n_envs, …), and the memory for the next step.
        """

    def predict(
        self,
        observation: npt.NDArray[Any] | dict[str, npt.NDArray[Any]],
        state: tuple[npt.NDArray[Any], ...] | None = None,
        episode_start: npt.NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[npt.NDArray[Any], tuple[npt.NDArray[Any], ...] | None]:
        """Chooses actions in one environment, or in several.

        Args:
            observation: One observation, or a batch with one for each environment.
            state: What the previous call returned; `None` at the first step.
            episode_start: Whether an episode starts with this observation, shape (n_envs,), bool;
                `None` for none but the first step's.
            deterministic: Whether to take the most likely actions.

        Returns:
            The actions, and the state for the next call: arrays of shape (n_envs, …).

        Raises:
            ValueError: An action is not finite.
        """
        self.set_training_mode(False)
        given, vectorized = self.obs_to_tensor(observation)
        count = len(next(iter(given.values())) if isinstance(given, dict) else given)
        with th.no_grad():
            memory = self._memory(state, episode_start, count)
            actions, memory = self.act(given, memory, deterministic)
        chosen = environment_actions(self, actions)
        return (chosen if vectorized else chosen[0]), tuple(part.cpu().numpy() for part in memory)

    def _memory(
        self,
        state: tuple[npt.NDArray[Any], ...] | None,
        episode_start: npt.NDArray[Any] | None,
        count: int,
    ) -> State:
        """Returns the memory of each environment, reset where an episode starts."""
        initial = self.initial_state(count)
        if state is None:
            return initial
        earlier = tuple(th.as_tensor(part, device=self.device) for part in state)
        if episode_start is None:
            return earlier
        starts = th.as_tensor(np.array(episode_start, dtype=bool), device=self.device)
        return tuple(
            th.where(starts.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(initial, earlier, strict=True)
        )

    def _predict(
        self, observation: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        raise ValueError("a policy with a memory needs predict(), which passes it on")

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: an observation alone does not determine the action.

        Raises:
            ValueError: Always.
        """
        raise ValueError("a policy with a memory needs predict(), which passes it on")
