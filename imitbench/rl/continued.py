"""Training an algorithm of Stable-Baselines3 a bit at a time, in an environment given later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from imitbench.data.policy_callable import PolicyCallable, policy_to_callable
from imitbench.policies.space_check import channels_first


def check_algorithm(
    algorithm: BaseAlgorithm, venv: VecEnv, name: str, *, transposed: bool = False
) -> None:
    """Makes sure that an algorithm can act in an environment.

    Args:
        algorithm: The algorithm.
        venv: The environment.
        name: What to call the algorithm in messages.
        transposed: Whether the algorithm may see images with their channels first that the
            environment gives with their channels last, as Stable-Baselines3 arranges it.

    Raises:
        ValueError: It is no algorithm of Stable-Baselines3, or was made for other spaces or
            another number of environments.
    """
    if not isinstance(algorithm, BaseAlgorithm):
        raise ValueError(
            f"{name} must be an algorithm of Stable-Baselines3, not a {type(algorithm).__name__}"
        )
    observations = venv.observation_space
    accepted = (observations, channels_first(observations) if transposed else observations)
    if algorithm.observation_space not in accepted:
        raise ValueError(
            f"{name} has observation_space {algorithm.observation_space}, "
            f"but venv has {observations}"
        )
    if algorithm.action_space != venv.action_space:
        raise ValueError(
            f"{name} has action_space {algorithm.action_space}, but venv has {venv.action_space}"
        )
    if algorithm.n_envs != venv.num_envs:
        raise ValueError(
            f"{name} was made for {algorithm.n_envs} environments, but venv has {venv.num_envs}"
        )


def acting_as_given(algorithm: BaseAlgorithm) -> BaseAlgorithm | PolicyCallable:
    """What acts in the environment that an algorithm was given, whose images it may have turned.

    Args:
        algorithm: An algorithm that has its environment.

    Returns:
        The algorithm itself; or, where Stable-Baselines3 puts the channels of images first for it,
        its stochastic policy for images with their channels last.
    """
    env = algorithm.get_env()
    if not isinstance(env, VecTransposeImage):
        return algorithm
    policy, transpose = policy_to_callable(algorithm, env), env.transpose_observations
    return lambda obs, state, starts: policy(transpose(obs), state, starts)


def continue_learning(
    algorithm: BaseAlgorithm,
    timesteps: int,
    callback: BaseCallback | None,
    learn_kwargs: Mapping[str, Any],
) -> None:
    """Trains on, without starting the count of steps anew.

    Args:
        algorithm: The algorithm.
        timesteps: Environment steps, over all environments; at least so many are taken.
        callback: One's own callback, called before those in `learn_kwargs`.
        learn_kwargs: Passed on to `learn`; `callback` may be in any form that `learn` takes.
    """
    given = learn_kwargs.get("callback")
    others = given if isinstance(given, list) else [given]
    callbacks = [
        each if isinstance(each, BaseCallback) else ConvertCallback(each)
        for each in (callback, *others)
        if each is not None
    ]
    options = {"reset_num_timesteps": False, **learn_kwargs, "callback": callbacks or None}
    algorithm.learn(total_timesteps=timesteps, **options)
