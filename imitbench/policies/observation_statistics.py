"""Reads the statistics of a `vec_normalize.pkl` without unpickling it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.errors import InputError
from imitbench.policies.normalized import NormalizedPolicy
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
