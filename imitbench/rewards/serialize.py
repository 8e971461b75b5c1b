"""Loads stored reward networks as reward functions, with or without their wrappers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from imitbench.errors import InputError, UnknownNameError, WrongTypeError, did_you_mean
from imitbench.rewards.base import RewardNet
from imitbench.rewards.networks import ShapedRewardNet
from imitbench.rewards.reward_function import Array, RewardFn, ValidateRewardFn
from imitbench.rewards.storage import load_reward_net
from imitbench.rewards.wrappers import (
    AddSTDRewardWrapper,
    NormalizedRewardNet,
    RewardEnsemble,
    RewardNetWrapper,
)
from imitbench.util.registry import LoaderFn, Registry
from imitbench.util.util import AnyPath, parse_path

__all__ = ["ValidateRewardFn", "load_reward", "load_zero", "reward_registry"]

reward_registry: Registry[LoaderFn[RewardFn]] = Registry()
"""Loaders of reward functions: each takes a path, an environment and keyword arguments."""


def load_reward(reward_type: str, reward_path: AnyPath, venv: VecEnv, **kwargs: Any) -> RewardFn:
    """Loads a reward function.

    Args:
        reward_type: A key of `reward_registry`:

            - `RewardNet_normalized`: normalized as during training. Statistics are fixed unless
              `update_stats=True` is given.
            - `RewardNet_unnormalized`: without normalization.
            - `RewardNet_shaped`: with its potential shaping, not normalized.
            - `RewardNet_unshaped`: without potential shaping, not normalized.
            - `RewardNet_std_added`: plus `alpha` standard deviations; statistics as above.
            - `zero`: always zero; the path is not read.
        reward_path: Folder written by `imitbench.rewards.storage.save_reward`.
        venv: Environment of the transitions, passed to the loader.
        **kwargs: Passed to `predict_processed`, by the types with normalization or standard
            deviations.

    Returns:
        The function, which checks that it returns one reward per transition.

    Raises:
        UnknownNameError: The type is unknown (also a `KeyError`).
        MissingPathError: There is no reward network at the path (also a `FileNotFoundError`).
        WrongTypeError: The network lacks the wrapper that the type requires (also a `TypeError`).
        InputError: The network is damaged.
    """
    names = list(reward_registry.keys())
    if reward_type not in names:
        raise UnknownNameError(
            f"reward_type: no '{reward_type}'; {did_you_mean(reward_type, names)}"
        )
    return reward_registry.get(reward_type)(reward_path, venv, **kwargs)


def load_zero(path: AnyPath, venv: VecEnv) -> RewardFn:
    """Returns a reward function that is always zero; the arguments are not used."""
    del path, venv
    return _zero


def _zero(state: Array, action: Array, next_state: Array, done: Array) -> Array:
    del action, next_state, done
    return np.zeros(len(state))


def _load_normalized(path: AnyPath, _venv: VecEnv, **kwargs: Any) -> RewardFn:
    net = _read(path)
    if not isinstance(net, NormalizedRewardNet):
        raise _lacks(path, net, "NormalizedRewardNet outermost")
    return _processed(net, kwargs)


def _load_std_added(path: AnyPath, _venv: VecEnv, **kwargs: Any) -> RewardFn:
    net = _read(path)
    if not any(isinstance(network, AddSTDRewardWrapper) for network in _chain(net)):
        raise _lacks(path, net, "AddSTDRewardWrapper")
    return _processed(net, kwargs)


def _load_unnormalized(path: AnyPath, _venv: VecEnv, **_kwargs: Any) -> RewardFn:
    return ValidateRewardFn(_read(path).predict)


def _load_shaped(path: AnyPath, _venv: VecEnv, **_kwargs: Any) -> RewardFn:
    net = _read(path)
    if not any(isinstance(network, ShapedRewardNet) for network in _chain(net)):
        raise _lacks(path, net, "ShapedRewardNet")
    return ValidateRewardFn(net.predict)


def _load_unshaped(path: AnyPath, _venv: VecEnv, **_kwargs: Any) -> RewardFn:
    net = _read(path)
    chain = _chain(net)
    for network in chain:
        if isinstance(network, ShapedRewardNet):
            net = network.base
    innermost = chain[-1]
    if isinstance(innermost, RewardEnsemble) and any(
        isinstance(part, ShapedRewardNet) for part in innermost.modules()
    ):
        raise InputError(
            f"{parse_path(path)}: the members of its ensemble are shaped, which cannot be undone; "
            "load them with RewardNet_unnormalized"
        )
    return ValidateRewardFn(net.predict)


def _read(path: AnyPath) -> RewardNet:
    return load_reward_net(Path(parse_path(path)))


def _chain(net: RewardNet) -> list[RewardNet]:
    """A network and all that it wraps, outermost first."""
    chain = [net]
    while isinstance(net, RewardNetWrapper):
        net = net.base
        chain.append(net)
    return chain


def _lacks(path: AnyPath, net: RewardNet, wanted: str) -> WrongTypeError:
    found = " around ".join(type(network).__name__ for network in _chain(net))
    return WrongTypeError(
        f"{parse_path(path)}: the reward network has no {wanted}, it is {found}; "
        "use another reward_type"
    )


def _processed(net: RewardNet, kwargs: dict[str, Any]) -> RewardFn:
    # A loaded reward is usually not trained further, so its statistics are fixed by default.
    kwargs = {"update_stats": False, **kwargs}
    return ValidateRewardFn(functools.partial(net.predict_processed, **kwargs))


for _name, _loader in (
    ("RewardNet_normalized", _load_normalized),
    ("RewardNet_unnormalized", _load_unnormalized),
    ("RewardNet_shaped", _load_shaped),
    ("RewardNet_unshaped", _load_unshaped),
    ("RewardNet_std_added", _load_std_added),
    ("zero", load_zero),
):
    reward_registry.register(_name, value=_loader)
