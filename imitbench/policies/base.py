"""Policy classes for the algorithms, and policies that are not trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common import policies, torch_layers
from stable_baselines3.sac import policies as sac_policies
from torch import nn

from imitbench.util.networks import RunningNorm


class NonTrainablePolicy(policies.BasePolicy, ABC):
    """Base of hand-written policies; subclasses implement `_choose_action`.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(observation_space=observation_space, action_space=action_space)

    @abstractmethod
    def _choose_action(self, obs: Any) -> npt.NDArray[Any] | int:
        """Chooses an action for one observation.

        Args:
            obs: One observation, an array or a dictionary of arrays.
        """

    def _predict(
        self, obs: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        return th.as_tensor(np.stack([self._choose_action(single) for single in _unbatch(obs)]))

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: this policy cannot be trained.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be trained; use predict()")


HardCodedPolicy = NonTrainablePolicy
"""Name in older versions of the reference API."""


class RandomPolicy(NonTrainablePolicy):
    """Samples actions uniformly; seeded with `policy.action_space.seed(…)`."""

    def _choose_action(self, obs: Any) -> npt.NDArray[Any] | int:
        action: npt.NDArray[Any] | int = self.action_space.sample()
        return action


class ZeroPolicy(NonTrainablePolicy):
    """Always chooses the action zero, or the first one of a discrete space.

    Raises:
        ValueError: Zero is not in the action space.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, action_space)
        dtype = action_space.dtype or np.float32
        self._zero: npt.NDArray[Any] = np.zeros(action_space.shape or (), dtype=dtype)
        if isinstance(action_space, spaces.Discrete):
            self._zero += dtype.type(action_space.start)  # type: ignore[union-attr]
        if not action_space.contains(self._zero[()]):
            raise ValueError(f"action_space: zero is not an action of {action_space}")

    def _choose_action(self, obs: Any) -> npt.NDArray[Any] | int:
        return self._zero


class FeedForward32Policy(policies.ActorCriticPolicy):
    """A policy with two shared hidden layers of 32 units, as in the paper on AIRL.

    Args:
        *args: Passed to `ActorCriticPolicy`.
        **kwargs: Passed to `ActorCriticPolicy`; `net_arch` is fixed.

    Source: Fu, Luo and Levine 2018, "Learning Robust Rewards with Adversarial Inverse
    Reinforcement Learning".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "net_arch": [32, 32]})


class SAC1024Policy(sac_policies.SACPolicy):
    """A SAC policy whose actor and critics have two hidden layers of 1024 units.

    Args:
        *args: Passed to `SACPolicy`.
        **kwargs: Passed to `SACPolicy`; `net_arch` is fixed.

    Source: Lee, Smith and Abbeel 2021, "PEBBLE: Feedback-Efficient Interactive Reinforcement
    Learning via Relabeling Experience and Unsupervised Pre-training".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "net_arch": [1024, 1024]})


class NormalizeFeaturesExtractor(torch_layers.FlattenExtractor):
    """Flattens observations, then normalizes them.

    Args:
        observation_space: That of the environment.
        normalize_class: Layer constructed from the number of features, such as `RunningNorm`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        normalize_class: type[nn.Module] = RunningNorm,
    ) -> None:
        super().__init__(observation_space)
        self.normalize = normalize_class(self.features_dim)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Returns normalized features, shape (batch, features)."""
        features: th.Tensor = self.normalize(super().forward(observations))
        return features


def _unbatch(obs: th.Tensor | dict[str, th.Tensor]) -> list[Any]:
    """Splits a batch into single observations."""
    if isinstance(obs, dict):
        arrays = {key: value.cpu().numpy() for key, value in obs.items()}
        count = len(next(iter(arrays.values())))
        return [{key: value[i] for key, value in arrays.items()} for i in range(count)]
    return list(obs.cpu().numpy())
