"""Normalization of observations by fixed statistics, which are read without unpickling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import BasePolicy

from imitbench.errors import InputError
from imitbench.policies.pickled_values import ADMITTED, array_of
from imitbench.policies.sb3_zip import TRUST_HINT
from imitbench.untrusted.files import read_content
from imitbench.util.safe_unpickler import (
    PickledObject,
    RefusedPickleError,
    names_in,
    read_safely,
)

_WRAPPER = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
_STATISTICS = "stable_baselines3.common.running_mean_std.RunningMeanStd"
_OURS = names_in(modules=(), names={_WRAPPER, _STATISTICS})
# The file also holds the last observations of all environments, which may be images.
_MAX_BYTES = 64 * 2**20


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


@dataclass(frozen=True)
class ObservationStatistics:
    """Statistics of `VecNormalize`, for `clip((obs - mean) / sqrt(var + epsilon))`.

    Attributes:
        mean: Mean of observations, shape `observation_shape`, float64.
        var: Variance of observations, shape `observation_shape`, float64.
        epsilon: Added to the variance.
        clip_obs: Largest absolute value of a normalized observation.
    """

    mean: npt.NDArray[np.float64]
    var: npt.NDArray[np.float64]
    epsilon: float
    clip_obs: float

    def applied_to(self, policy: BasePolicy, where: str) -> NormalizedPolicy:
        """Wraps a policy so that it acts on unnormalized observations.

        Args:
            policy: Policy that acts on normalized observations.
            where: Name of the statistics in messages.

        Raises:
            InputError: The shapes of statistics and observations differ.
        """
        shape = policy.observation_space.shape
        if self.mean.shape != shape:
            raise InputError(
                f"{where}: statistics of observations of shape {self.mean.shape}, but the policy "
                f"takes {shape}; is it another policy's file?"
            )
        return NormalizedPolicy(
            policy, self.mean, self.var, epsilon=self.epsilon, clip_obs=self.clip_obs
        )


def read_observation_statistics(path: Path) -> ObservationStatistics | None:
    """Reads a file of Stable-Baselines3's `VecNormalize.save`, without executing code from it.

    Args:
        path: A `vec_normalize.pkl`.

    Returns:
        The statistics; `None` if only rewards were normalized.

    Raises:
        InputError: The file cannot be read, has another type, contains objects that such files do
            not need, or is not supported.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: {path.stat().st_size:,} bytes are too many for statistics")
        data = read_content(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    try:
        return _statistics(read_safely(data, lambda name: _OURS(name) or ADMITTED(name)))
    except RefusedPickleError as error:
        raise InputError(
            f"{path}: the VecNormalize statistics cannot be read without unpickling: {error}; "
            f"{TRUST_HINT}"
        ) from error


def _statistics(found: Any) -> ObservationStatistics | None:
    if not (isinstance(found, PickledObject) and found.kind == _WRAPPER):
        what = found.kind if isinstance(found, PickledObject) else type(found).__name__
        raise RefusedPickleError(f"it contains {what}")
    attributes = found.attributes
    if attributes.get("norm_obs", True) is False:
        return None
    of_observations = attributes.get("obs_rms")
    if isinstance(of_observations, dict):
        raise RefusedPickleError("statistics of dictionary observations are not supported")
    if not (isinstance(of_observations, PickledObject) and of_observations.kind == _STATISTICS):
        raise RefusedPickleError("it has no statistics of observations")
    parts = of_observations.attributes
    mean, var = (_finite(name, parts.get(name)) for name in ("mean", "var"))
    if mean.shape != var.shape or (var < 0).any():
        raise RefusedPickleError("mean and variance are inconsistent")
    epsilon, clip = (_number(name, attributes.get(name)) for name in ("epsilon", "clip_obs"))
    return ObservationStatistics(mean, var, epsilon, clip)


def _finite(name: str, value: Any) -> npt.NDArray[np.float64]:
    array: npt.NDArray[np.float64] = array_of(value).astype(np.float64)
    if not np.isfinite(array).all():
        raise RefusedPickleError(f"obs_rms.{name} is not finite")
    return array


def _number(name: str, value: Any) -> float:
    array = array_of(value)
    # An infinite bound means no clipping, so that only NaN is refused.
    if array.ndim or math.isnan(array) or array < 0:
        raise RefusedPickleError(f"{name} is not a positive number")
    return float(array)
