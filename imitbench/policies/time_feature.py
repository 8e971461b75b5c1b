"""A policy that also observes the remaining fraction of the episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

DEFAULT_STEPS = 1000
"""Default of `TimeFeatureWrapper` for environments without a time limit."""


class TimeFeaturePolicy(BasePolicy):
    """Appends `1 - t / max_steps` to observations at step `t` of an episode, then acts.

    This is the feature of `TimeFeatureWrapper` of sb3-contrib. Here, it is part of the policy,
    which acts in the unwrapped environment. Steps are counted in the state that `predict` takes
    and returns; without that state, every step counts as the first.

    Args:
        policy: Policy that acts on vectors with the feature.
        max_steps: Time limit of the environment, in steps.

    Raises:
        ValueError: The policy does not observe vectors, or `max_steps` is not positive.
    """

    def __init__(self, policy: BasePolicy, max_steps: int) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps: must be positive, not {max_steps}")
        super().__init__(
            without_time(policy.observation_space),
            policy.action_space,
            squash_output=policy.squash_output,
        )
        self.policy = policy
        self.max_steps = max_steps
        self.to(policy.device)

    def predict(
        self,
        observation: npt.NDArray[Any] | dict[str, npt.NDArray[Any]],
        state: tuple[npt.NDArray[Any], ...] | None = None,
        episode_start: npt.NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[npt.NDArray[Any], tuple[npt.NDArray[Any], ...] | None]:
        """Chooses actions.

        Args:
            observation: One observation, shape (size,), or a batch, shape (batch, size).
            state: State returned by the previous call; `None` at the first step.
            episode_start: Whether episodes start with this observation, shape (batch,), bool.
            deterministic: Whether to take the most likely actions.

        Returns:
            The actions, and the state for the next call.
        """
        given = np.asarray(observation)
        single = given.ndim == 1
        batch = np.atleast_2d(given)
        steps = np.zeros(len(batch)) if state is None else state[0]
        if episode_start is not None:
            steps = np.where(episode_start, 0.0, steps)
        left = 1.0 - steps / self.max_steps
        shown = np.column_stack([batch, left]).astype(self.policy.observation_space.dtype)
        actions, _ = self.policy.predict(shown, deterministic=deterministic)
        return (actions[0] if single else actions), (steps + 1.0,)

    def _predict(
        self, observation: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        raise ValueError("a policy with a time feature needs predict(), which counts the steps")

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: an observation alone does not determine the step.

        Raises:
            ValueError: Always.
        """
        raise ValueError("a policy with a time feature needs predict(), which counts the steps")


def with_time(space: gym.Space[Any]) -> spaces.Box:
    """Returns the observation space with the feature.

    Raises:
        ValueError: Observations are not vectors.
    """
    box = _vectors(space)
    return spaces.Box(
        np.append(box.low, 0.0).astype(box.dtype),
        np.append(box.high, 1.0).astype(box.dtype),
        dtype=box.dtype.type,
    )


def without_time(space: gym.Space[Any]) -> spaces.Box:
    """Returns the observation space without the feature.

    Raises:
        ValueError: Observations are not vectors.
    """
    box = _vectors(space)
    return spaces.Box(box.low[:-1], box.high[:-1], dtype=box.dtype.type)


def _vectors(space: gym.Space[Any]) -> spaces.Box:
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"a time feature requires vector observations, not {space}")
    return space
