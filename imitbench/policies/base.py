"""Policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common import policies, torch_layers
from stable_baselines3.sac import policies as sac_policies

from imitbench.util import networks


class NonTrainablePolicy(policies.BasePolicy):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__(observation_space=observation_space, action_space=action_space)

    def _choose_action(self, obs: Any) -> Any:
        raise NotImplementedError

    def _predict(self, obs: Any, deterministic: bool = False) -> th.Tensor:
        n = len(next(iter(obs.values()))) if isinstance(obs, dict) else len(obs)
        return th.as_tensor(np.stack([self._choose_action(None) for _ in range(n)]))

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError


class RandomPolicy(NonTrainablePolicy):
    def _choose_action(self, obs: Any) -> Any:
        return self.action_space.sample()


class ZeroPolicy(NonTrainablePolicy):
    def _choose_action(self, obs: Any) -> Any:
        return np.zeros(self.action_space.shape or (), dtype=self.action_space.dtype)


class FeedForward32Policy(policies.ActorCriticPolicy):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, net_arch=[32, 32])


class SAC1024Policy(sac_policies.SACPolicy):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, net_arch=[1024, 1024])


class NormalizeFeaturesExtractor(torch_layers.FlattenExtractor):
    def __init__(self, observation_space: Any, normalize_class: Any = networks.RunningNorm) -> None:
        super().__init__(observation_space)
        self.normalize = normalize_class(self.features_dim)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return self.normalize(super().forward(observations))
