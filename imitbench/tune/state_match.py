"""Similarity of the states that the expert and a policy visit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from imitbench.stats.strata import FloatArray


def state_match(expert: FloatArray, policy: FloatArray) -> float:
    """Computes the similarity of visited states: 1 if equal, near 0 if very different.

    It is 1 / (1 + d / √entries), where d is the Fréchet distance between Gaussians fitted to both
    sets of observations, in units of the expert's standard deviations.

    Args:
        expert: The expert's observations, shape (observations, entries).
        policy: The policy's observations, same number of entries.

    Source: Hussenot et al. 2021, *Hyperparameter Selection for Imitation Learning*: distances
    between state distributions rank settings almost like the true return.
    """
    deviations = expert.std(axis=0)
    scale = np.where(deviations > 1e-8, deviations, 1.0)  # constant entries
    squared = _frechet_squared((expert - expert.mean(axis=0)) / scale,
                               (policy - expert.mean(axis=0)) / scale)  # fmt: skip
    return float(1 / (1 + np.sqrt(squared / expert.shape[1])))


def _frechet_squared(first: FloatArray, second: FloatArray) -> float:
    """Returns |μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½) of fitted Gaussians.

    Source: Dowson and Landau 1982.
    """
    one, other = (np.atleast_2d(np.cov(each, rowvar=False)) for each in (first, second))
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    # The eigenvalues of Σ₁ Σ₂, from a symmetric matrix.
    shared = np.clip(np.linalg.eigvalsh(root @ other @ root), 0.0, None)
    apart = first.mean(axis=0) - second.mean(axis=0)
    squared = apart @ apart + np.trace(one) + np.trace(other) - 2 * np.sqrt(shared).sum()
    return max(0.0, float(squared))


class ObservationLog(gym.ObservationWrapper[Any, Any, Any]):
    """Records all observations of an environment.

    Args:
        env: Environment with array observations.
        seen: Receives the observations, as flat arrays.
    """

    def __init__(self, env: gym.Env[Any, Any], seen: list[FloatArray]) -> None:
        super().__init__(env)
        self._seen = seen

    def observation(self, observation: Any) -> Any:
        """Records the observation, and returns it unchanged."""
        self._seen.append(np.asarray(observation, dtype=np.float64).ravel())
        return observation
