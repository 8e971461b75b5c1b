"""How alike the states are that the expert and a policy visit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from imitbench.stats.strata import FloatArray


def state_match(expert: FloatArray, policy: FloatArray) -> float:
    """1 where both visit the same states, near 0 where they have little in common.

    It is 1 / (1 + d / √entries), with d the Fréchet distance between the Gaussians that are fitted
    to the observations of both, in units of the expert's deviations.

    Args:
        expert: The expert's observations, shape (observations, entries).
        policy: The policy's, of the same entries.

    Source: Hussenot et al. 2021, *Hyperparameter Selection for Imitation Learning*, which finds
    distances between state distributions to rank settings nearly as the true return does.
    """
    deviations = expert.std(axis=0)
    scale = np.where(deviations > 1e-8, deviations, 1.0)  # entries that never change
    squared = _frechet_squared((expert - expert.mean(axis=0)) / scale,
                               (policy - expert.mean(axis=0)) / scale)  # fmt: skip
    return float(1 / (1 + np.sqrt(squared / expert.shape[1])))


def _frechet_squared(first: FloatArray, second: FloatArray) -> float:
    """|μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½) of fitted Gaussians (Dowson and Landau 1982)."""
    one, other = (np.atleast_2d(np.cov(each, rowvar=False)) for each in (first, second))
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    # Those of Σ₁ Σ₂, of a matrix that is symmetric.
    shared = np.clip(np.linalg.eigvalsh(root @ other @ root), 0.0, None)
    apart = first.mean(axis=0) - second.mean(axis=0)
    squared = apart @ apart + np.trace(one) + np.trace(other) - 2 * np.sqrt(shared).sum()
    return max(0.0, float(squared))


class ObservationLog(gym.ObservationWrapper[Any, Any, Any]):
    """Keeps every observation of an environment.

    Args:
        env: The environment.
        seen: Where they are added, as flat arrays.
    """

    def __init__(self, env: gym.Env[Any, Any], seen: list[FloatArray]) -> None:
        super().__init__(env)
        self._seen = seen

    def observation(self, observation: Any) -> Any:
        """Keeps it, and passes it on as it is."""
        self._seen.append(np.asarray(observation, dtype=np.float64).ravel())
        return observation
