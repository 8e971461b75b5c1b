"""Loads experts in any supported format, as policies for the unwrapped environment.

Statistics of `VecNormalize` and a time feature become part of the policy, so that it acts on the
environment's original observations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from imitbench.errors import InputError
from imitbench.policies import storage
from imitbench.policies.expert_folder import ExpertFolder, PolicyKind, open_expert_folder
from imitbench.policies.foreign import is_foreign, load_foreign_policy, load_onnx_file
from imitbench.policies.lerobot_policy import load_lerobot_policy
from imitbench.policies.observation_statistics import (
    ObservationStatistics,
    read_observation_statistics,
)
from imitbench.policies.robomimic import load_robomimic_policy
from imitbench.policies.sb3_architecture import build_policy
from imitbench.policies.sb3_objects import ALGORITHMS, stored_space
from imitbench.policies.sb3_zip import Sb3Zip, read_sb3_zip
from imitbench.policies.space_check import check_policy_fits, spaces_only
from imitbench.policies.time_feature import DEFAULT_STEPS, TimeFeaturePolicy, with_time
from imitbench.policies.trusted import unpickle_algorithm, unpickle_statistics

# Attributes that only one algorithm has; DDPG is TD3 with other defaults.
_ALGORITHM_MARKS = {
    "clip_range": "ppo",
    "gae_lambda": "a2c",
    "policy_delay": "td3",
    "target_entropy": "sac",
    "exploration_rate": "dqn",
}


@dataclass(frozen=True)
class Spaces:
    """Spaces and time limit of the environment that a policy will act in.

    Attributes:
        observation_space: That of the environment.
        action_space: That of the environment.
        max_episode_steps: Time limit, in steps; `None` without one.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    max_episode_steps: int | None = None


def load_expert_policy(
    source: Path | ExpertFolder,
    env_spaces: Spaces | None = None,
    *,
    trust: bool = False,
    plugin: str | None = None,
    observation_keys: Mapping[str, str] | None = None,
) -> BasePolicy:
    """Loads an expert.

    Args:
        source: Path for `open_expert_folder`, or its result.
        env_spaces: Spaces that the policy must fit; `None` for those stated in the file.
        trust: Whether files may be unpickled, and programs executed, which can execute any code.
            Used only for parts that cannot be read otherwise.
        plugin: The method that defines the policy's class, as in `storage.load_policy`.
        observation_keys: Where policies of LeRobot and robomimic find their inputs, as in
            `observation_parts.find_parts`; other policies have one input.

    Returns:
        The policy on the CPU, in evaluation mode.

    Raises:
        InputError: There is no policy, a file is damaged, a part cannot be determined without
            unpickling, or the spaces do not fit.
    """
    found = source if isinstance(source, ExpertFolder) else open_expert_folder(source)
    asked = _Asked(found, env_spaces, trust, plugin, observation_keys or {})
    policy = _READERS[found.kind](asked)
    if env_spaces is not None:
        check_policy_fits(
            policy,
            env_spaces.observation_space,
            env_spaces.action_space,
            where=str(found.policy),
        )
    policy.set_training_mode(False)
    storage.draw_exploration(policy)
    return policy


@dataclass(frozen=True)
class _Asked:
    """What `load_expert_policy` was asked for."""

    found: ExpertFolder
    env_spaces: Spaces | None
    trust: bool
    plugin: str | None
    keys: Mapping[str, str]

    @property
    def needed_spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """Spaces of the environment, for formats that do not state them."""
        if self.env_spaces is None:
            raise InputError(
                f"{self.found.policy}: does not state its spaces; pass the environment (--env on "
                "the command line)"
            )
        return self.env_spaces.observation_space, self.env_spaces.action_space


def _own(asked: _Asked) -> BasePolicy:
    folder = asked.found.policy
    if asked.trust and is_foreign(folder):
        spaces = asked.needed_spaces if asked.env_spaces is not None else ()
        return load_foreign_policy(folder, *spaces, programs=True)
    return storage.load_policy(folder, plugin=asked.plugin, trust=asked.trust)


def _zip(asked: _Asked) -> BasePolicy:
    archive = read_sb3_zip(asked.found.policy)
    return _policy_of_zip(archive, asked.found, asked.env_spaces, asked.trust)


_READERS: dict[PolicyKind, Callable[[_Asked], BasePolicy]] = {
    "own": _own,
    "zip": _zip,
    "lerobot": lambda asked: load_lerobot_policy(
        asked.found.policy, *asked.needed_spaces, asked.keys
    ),
    "robomimic": lambda asked: load_robomimic_policy(
        asked.found.policy, *asked.needed_spaces, asked.keys
    ),
    "onnx": lambda asked: load_onnx_file(
        asked.found.policy, *asked.needed_spaces, programs=asked.trust
    ),
}
"""Reads a policy of each format; formats are listed only here."""


def algorithm_name(archive: Sb3Zip) -> str | None:
    """Returns the name of the algorithm that saved a zip, such as `ppo`; `None` if unknown."""
    return next((name for mark, name in _ALGORITHM_MARKS.items() if mark in archive.data), None)


def _policy_of_zip(
    archive: Sb3Zip, found: ExpertFolder, env_spaces: Spaces | None, trust: bool
) -> BasePolicy:
    timed, observation_space = _observation_space(archive, found, env_spaces)
    action_space = env_spaces.action_space if env_spaces else stored_space(archive, "action_space")
    try:
        for name, space in (
            ("observation_space", observation_space),
            ("action_space", action_space),
        ):
            if space is None:
                raise InputError(
                    f"{archive.path}: {name}: cannot be determined without unpickling; pass the "
                    "environment (--env on the command line)"
                )
        policy, _ = build_policy(archive, observation_space, action_space)  # type: ignore[arg-type]
    except InputError:
        if not trust:
            raise
        policy = _unpickled(archive)
    if found.statistics is not None:
        statistics = _statistics(found.statistics, policy, trust)
        if statistics is not None:
            policy = statistics.applied_to(policy, str(found.statistics))
    if timed:
        limit = env_spaces.max_episode_steps if env_spaces else None
        stated = (found.time_feature or {}).get("max_steps")
        steps = limit or (stated if isinstance(stated, int) and stated > 0 else DEFAULT_STEPS)
        policy = TimeFeaturePolicy(policy, steps)
    return policy


def _observation_space(
    archive: Sb3Zip, found: ExpertFolder, env_spaces: Spaces | None
) -> tuple[bool, gym.Space[Any] | None]:
    """Returns whether observations have a time feature, and the policy's observation space."""
    stored = stored_space(archive, "observation_space")
    stated = found.time_feature is not None
    if env_spaces is None:
        return stated, stored
    own = env_spaces.observation_space
    if isinstance(own, spaces.Box) and len(own.shape) == 1:
        longer = isinstance(stored, spaces.Box) and stored.shape == (own.shape[0] + 1,)
        if (stated and (longer or stored is None)) or (longer and _ends_with_time(stored)):
            return True, with_time(own)
    return False, own


def _ends_with_time(space: gym.Space[Any] | None) -> bool:
    """Whether the last entry has bounds 0 and 1, as the wrapper's feature has."""
    return isinstance(space, spaces.Box) and bool(space.low[-1] == 0 and space.high[-1] == 1)


def _statistics(path: Path, policy: BasePolicy, trust: bool) -> ObservationStatistics | None:
    try:
        return read_observation_statistics(path)
    except InputError:
        if not trust:
            raise
    return unpickle_statistics(path, spaces_only(policy))


def _unpickled(archive: Sb3Zip) -> BasePolicy:
    name = algorithm_name(archive)
    if name is None:
        raise InputError(
            f"{archive.path}: not saved by one of the algorithms "
            f"{', '.join(_ALGORITHM_MARKS.values())}; others cannot be loaded"
        )
    return unpickle_algorithm(ALGORITHMS[name], archive.path, device="cpu").policy
