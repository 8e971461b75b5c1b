"""Calls Stable-Baselines3's loaders, which unpickle.

Policy files can execute code only through this module. It is called only if the user passes
`trust=True` (`--trust` on the command line).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from imitbench.errors import InputError
from imitbench.policies.observation_statistics import ObservationStatistics

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


def unpickle_algorithm(cls: type[Algorithm], path: Path, **kwargs: Any) -> Algorithm:
    """Loads an algorithm with `cls.load`.

    Args:
        cls: Class of the algorithm.
        path: A zip of Stable-Baselines3.
        **kwargs: Passed to `cls.load`.

    Raises:
        InputError: It needs a package that is not installed.
    """
    with _unpickling(path):
        return cls.load(path, **kwargs)


def unpickle_statistics(path: Path, venv: VecEnv) -> ObservationStatistics | None:
    """Loads statistics with `VecNormalize.load`.

    Args:
        path: A `vec_normalize.pkl`.
        venv: Environments with the same observation space.

    Returns:
        The statistics; `None` if only rewards were normalized.

    Raises:
        InputError: It needs a package that is not installed, or has statistics of dictionaries.
    """
    with _unpickling(path):
        normalizer = VecNormalize.load(str(path), venv)
    if not normalizer.norm_obs:
        return None
    statistics = normalizer.obs_rms
    if isinstance(statistics, dict):
        raise InputError(
            f"{path}: statistics of dictionaries are not supported; wrap the environment in "
            "VecNormalize.load(…) and pass the result as venv"
        )
    return ObservationStatistics(
        statistics.mean, statistics.var, normalizer.epsilon, normalizer.clip_obs
    )


@contextmanager
def _unpickling(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{path}: cannot be unpickled here ({error}); install the missing package"
        ) from error
