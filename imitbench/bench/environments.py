"""Builds the environments that a specification names."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from imitbench.errors import InputError
from imitbench.store.records import EnvironmentSpec

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


def make_environment(spec: EnvironmentSpec) -> gym.Env[Any, Any]:
    """Builds one environment.

    Raises:
        InputError: The environment is not installed or not registered.
    """
    try:
        if spec.module:
            importlib.import_module(spec.module)
        with warnings.catch_warnings():
            # Rounding the declared bounds of a Box to its dtype is no news to anybody.
            warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")
            kwargs: dict[str, Any] = dict(spec.kwargs)
            return gym.make(spec.id, disable_env_checker=True, **kwargs)
    except (ImportError, gym.error.Error) as error:
        raise InputError(
            f"environment {spec.id}: cannot be made ({str(error).splitlines()[0]}); "
            "run `imitbench doctor` to see what is missing"
        ) from error


def make_training_environments(spec: EnvironmentSpec, count: int, seed: int) -> VecEnv:
    """Builds environments stepped in this process, seeded `seed`, `seed + 1`, ….

    Their episodes can be resumed, see `imitbench.data.resumable_env`.
    """
    from stable_baselines3.common.monitor import Monitor

    from imitbench.data.resumable_env import ResumableEnv
    from imitbench.util.serial_vec_env import SerialVecEnv

    venv = SerialVecEnv(
        [lambda: ResumableEnv(Monitor(make_environment(spec))) for _ in range(count)]
    )
    venv.seed(seed)
    return venv
