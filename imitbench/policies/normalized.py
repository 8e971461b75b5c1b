"""A policy that normalizes observations with fixed statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import BasePolicy


class NormalizedPolicy(BasePolicy):
    """Acts on `clip((obs - mean) / sqrt(var + epsilon), -clip_obs, clip_obs)`.

    This is the input that `VecNormalize` of Stable-Baselines3 passes to a policy. Here, the
    statistics are fixed and part of the policy, so that it acts in the unwrapped environment.

    Args:
        policy: Policy that acts on normalized observations.
        mean: Mean of observations, shape `observation_shape`.
        var: Variance of observations, shape `observation_shape`.
        epsilon: Added to the variance.
        clip_obs: Largest absolute value of a normalized observation.

    Raises:
        ValueError: Statistics and observations have different shapes.
    """

    mean: th.Tensor
    var: th.Tensor

    def __init__(
        self,
        policy: BasePolicy,
        mean: npt.NDArray[Any],
        var: npt.NDArray[Any],
        *,
        epsilon: float = 1e-8,
        clip_obs: float = 10.0,
    ) -> None:
        super().__init__(
            policy.observation_space, policy.action_space, squash_output=policy.squash_output
        )
        for name, value in (("mean", mean), ("var", var)):
            if np.shape(value) != policy.observation_space.shape:
                raise ValueError(
                    f"{name}: has shape {np.shape(value)}, but observations have "
                    f"{policy.observation_space.shape}"
                )
        self.policy = policy
        self.epsilon, self.clip_obs = epsilon, clip_obs
        # As in `VecNormalize`, in double precision.
        self.register_buffer("mean", th.as_tensor(mean, dtype=th.float64))
        self.register_buffer("var", th.as_tensor(var, dtype=th.float64))
        self.to(policy.device)

    def normalize(self, observation: th.Tensor) -> th.Tensor:
        """Normalizes a batch of observations, shape (batch, …); float32."""
        scaled = (observation - self.mean) / th.sqrt(self.var + self.epsilon)
        return scaled.clip(-self.clip_obs, self.clip_obs).to(th.float32)

    def forward(self, observation: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """Chooses actions.

        Args:
            observation: Observations of the environment, shape (batch, …).
            deterministic: Whether to take the most likely actions.
        """
        return self._predict(observation, deterministic)

    def _predict(
        self, observation: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        if isinstance(observation, dict):
            raise ValueError("observation: must be an array, not a dictionary")
        return self.policy._predict(self.normalize(observation), deterministic)
