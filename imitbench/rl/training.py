"""Resumable training of an algorithm of Stable-Baselines3.

A training that is resumed from its state gives bitwise the same result as one without an
interruption.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from imitbench.data.policy_callable import PolicyCallable, policy_to_callable
from imitbench.policies.replay_buffer_wrapper import ReplayBufferRewardWrapper
from imitbench.policies.space_check import channels_first

# Attributes that further training depends on; not every algorithm has all of them.
_PLAIN = (
    "num_timesteps",
    "_n_updates",
    "_n_calls",
    "_total_timesteps",
    "_num_timesteps_at_start",
    "_episode_num",
    "_current_progress_remaining",
    "exploration_rate",
    "_last_obs",
    "_last_original_obs",
    "_last_episode_starts",
)
_HISTORIES = ("ep_info_buffer", "ep_success_buffer")


def check_algorithm(
    algorithm: BaseAlgorithm, venv: VecEnv, name: str, *, transposed: bool = False
) -> None:
    """Checks that an algorithm can act in an environment.

    Args:
        algorithm: An algorithm of Stable-Baselines3.
        venv: Vectorized environment.
        name: Name of the algorithm in messages.
        transposed: Whether images of the environment may be channels-last and those of the
            algorithm channels-first, which Stable-Baselines3 converts.

    Raises:
        ValueError: It is not an algorithm of Stable-Baselines3, or was created for other spaces
            or another number of environments.
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
    """Returns a policy for observations of the environment before Stable-Baselines3 wrapped it.

    Args:
        algorithm: An algorithm with an environment.

    Returns:
        The algorithm; or, if Stable-Baselines3 transposes images to channels-first, its stochastic
        policy for channels-last images.
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
    """Continues training without resetting the number of steps.

    Args:
        algorithm: The algorithm.
        timesteps: Smallest number of steps to take, over all environments.
        callback: Called before the callbacks in `learn_kwargs`.
        learn_kwargs: Arguments of `learn`; `callback` may have any form that `learn` accepts.
    """
    given = learn_kwargs.get("callback")
    others = given if isinstance(given, list) else [given]
    callbacks = [
        hook if isinstance(hook, BaseCallback) else ConvertCallback(hook)
        for hook in (callback, *others)
        if hook is not None
    ]
    options = {"reset_num_timesteps": False, **learn_kwargs, "callback": callbacks or None}
    algorithm.learn(total_timesteps=timesteps, **options)


def algorithm_state(algorithm: BaseAlgorithm) -> dict[str, Any]:
    """Returns everything that further training of an algorithm depends on.

    It does not include the environments and the global generators of torch and NumPy.

    Args:
        algorithm: Any algorithm of Stable-Baselines3, between two calls of `learn`.

    Returns:
        Tensors, arrays, numbers and `None`, in nested lists and dictionaries.
    """
    variables = algorithm._get_torch_save_params()[1]
    state = {
        "parameters": algorithm.get_parameters(),
        "variables": {name: getattr(algorithm, name).detach() for name in variables},
        "plain": {name: getattr(algorithm, name) for name in _PLAIN if hasattr(algorithm, name)},
        "histories": {name: _as_list(getattr(algorithm, name)) for name in _HISTORIES},
        # Off-policy algorithms sample their first actions from the action space.
        "action_space": algorithm.action_space.np_random.bit_generator.state,
        "replay_buffer": None,
    }
    if isinstance(algorithm, OffPolicyAlgorithm) and algorithm.replay_buffer is not None:
        state["replay_buffer"] = _buffer_state(algorithm.replay_buffer)
    scaling = getattr(algorithm, "return_scaling", None)
    if scaling is not None:
        state["return_scaling"] = scaling.state_dict()
    return copy.deepcopy(state)


def load_algorithm_state(algorithm: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Restores a state; continue with `learn(…, reset_num_timesteps=False)`.

    Args:
        algorithm: An algorithm with the same arguments.
        state: Result of `algorithm_state`.
    """
    state = copy.deepcopy(dict(state))
    algorithm.set_parameters(state["parameters"], exact_match=True, device=algorithm.device)
    with th.no_grad():
        for name, value in state["variables"].items():
            getattr(algorithm, name).copy_(value)
    for name, value in state["plain"].items():
        setattr(algorithm, name, value)
    for name, entries in state["histories"].items():
        size = algorithm._stats_window_size
        setattr(algorithm, name, None if entries is None else deque(entries, maxlen=size))
    algorithm.action_space.np_random.bit_generator.state = state["action_space"]
    if isinstance(algorithm, OffPolicyAlgorithm) and state["replay_buffer"] is not None:
        assert algorithm.replay_buffer is not None, "it has the same arguments"
        _load_buffer_state(algorithm.replay_buffer, state["replay_buffer"])
    scaling = getattr(algorithm, "return_scaling", None)
    if scaling is not None:
        scaling.load_state_dict(state["return_scaling"])


def _buffer_state(buffer: BaseBuffer) -> dict[str, Any]:
    """Returns the filled part of a ring buffer."""
    buffer = _holding_transitions(buffer)
    arrays = {
        name: {key: array[: buffer.size()] for key, array in value.items()}
        if isinstance(value, dict)
        else value[: buffer.size()]
        for name, value in vars(buffer).items()
        if isinstance(value, np.ndarray | dict) and name != "obs_shape"
    }
    return {"arrays": arrays, "pos": buffer.pos, "full": buffer.full}


def _load_buffer_state(buffer: BaseBuffer, state: Mapping[str, Any]) -> None:
    buffer = _holding_transitions(buffer)
    for name, stored in state["arrays"].items():
        own = getattr(buffer, name)
        pairs = [(own[k], stored[k]) for k in own] if isinstance(own, dict) else [(own, stored)]
        for array, values in pairs:
            array[: len(values)] = values
    buffer.pos, buffer.full = state["pos"], state["full"]


def _holding_transitions(buffer: BaseBuffer) -> BaseBuffer:
    """Returns the buffer with the transitions: the innermost one of wrapped buffers."""
    while isinstance(buffer, ReplayBufferRewardWrapper):
        buffer = buffer.replay_buffer
    return buffer


def _as_list(kept: deque[Any] | None) -> list[Any] | None:
    return None if kept is None else list(kept)
