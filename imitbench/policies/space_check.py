"""Checks whether a policy or a reward fits the spaces of an environment."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import (
    is_image_space,
    is_image_space_channels_first,
)
from stable_baselines3.common.vec_env import DummyVecEnv, VecTransposeImage

from imitbench.errors import InputError
from imitbench.util.text_line import one_line


class Spaced(Protocol):
    """A policy or a reward, which is made for certain spaces."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]


def check_policy_fits(
    policy: BasePolicy,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    where: str,
) -> None:
    """Checks that a policy fits the spaces of an environment.

    Args:
        policy: Policy to check.
        observation_space: That of the environment.
        action_space: That of the environment.
        where: Name of the policy in the message.

    Raises:
        InputError: Type or shape of a space differ. Bounds may differ, as they do between
            versions of an environment.
    """
    _check(policy, channels_first(observation_space), action_space, where, "policy")


def check_reward_fits(
    net: Spaced,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    where: str,
) -> None:
    """Checks that a reward network fits the spaces of an environment; as `check_policy_fits`."""
    _check(net, observation_space, action_space, where, "reward")


def _check(
    made: Spaced,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    where: str,
    kind: str,
) -> None:
    for what, own, wanted in (
        ("observations", made.observation_space, observation_space),
        ("actions", made.action_space, action_space),
    ):
        if not spaces_alike(own, wanted):
            raise InputError(
                f"{where}: made for {what} {one_line(own, 100)}, but the environment has "
                f"{one_line(wanted, 100)}; use a {kind} of this environment"
            )


def channels_first(space: gym.Space[Any]) -> gym.Space[Any]:
    """Returns the space that networks observe: images with channels first, others unchanged."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: channels_first(part) for key, part in space.spaces.items()})
    if (
        isinstance(space, gym.spaces.Box)
        and is_image_space(space)
        and not is_image_space_channels_first(space)
    ):
        transposed: gym.Space[Any] = VecTransposeImage.transpose_space(space)
        return transposed
    return space


def spaces_only(policy: BasePolicy) -> DummyVecEnv:
    """Returns an environment with the spaces of a policy, for code that never steps it."""
    env: gym.Env[Any, Any] = gym.Env()
    env.observation_space, env.action_space = policy.observation_space, policy.action_space
    return DummyVecEnv([lambda: env])


def spaces_alike(own: gym.Space[Any], wanted: gym.Space[Any]) -> bool:
    """Whether elements of one space can stand for those of another; bounds may differ."""
    if type(own) is not type(wanted):
        return False
    if isinstance(own, gym.spaces.Dict) and isinstance(wanted, gym.spaces.Dict):
        return own.spaces.keys() == wanted.spaces.keys() and all(
            spaces_alike(own[key], wanted[key]) for key in own
        )
    if isinstance(own, gym.spaces.MultiDiscrete):
        return bool(own == wanted)
    return own.shape == wanted.shape and getattr(own, "n", None) == getattr(wanted, "n", None)
