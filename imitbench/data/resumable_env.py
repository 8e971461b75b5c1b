"""Saves and restores the current episode of an environment with any simulator."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

State = dict[str, Any]


class ResumableEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Records the start and the actions of the current episode.

    The episode is restored by a replay: the generator's state at the reset, then the same actions.
    This works for any environment that draws its randomness from `np_random`, without access to
    the simulator's state, and takes at most the steps of one episode.

    Args:
        env: Environment to wrap; must be the outermost wrapper, so that others are replayed.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._start: State | None = None
        self._actions: list[Any] = []
        self._obs: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode and discards the previous one."""
        generator = self.unwrapped.np_random.bit_generator.state if seed is None else None
        self._start = {"seed": seed, "generator": generator, "options": copy.deepcopy(options)}
        self._actions = []
        self._obs, info = self.env.reset(seed=seed, options=options)
        return self._obs, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        self._actions.append(np.array(action))
        result = self.env.step(action)
        self._obs = result[0]
        return result

    def set_progress(self, actions: Sequence[Any], obs: Any) -> None:
        """Records steps of the current episode that were taken outside this wrapper.

        Args:
            actions: All actions since the reset.
            obs: The observation after them.
        """
        self._actions, self._obs = list(actions), obs

    def episode_state(self) -> State:
        """Returns the state from which `restore_episode` replays the current episode.

        Returns:
            Numbers, arrays and dictionaries of them; `start` is `None` before the first reset.
        """
        return {
            "start": copy.deepcopy(self._start),
            "actions": list(self._actions),
            "obs": copy.deepcopy(self._obs),
        }

    def restore_episode(self, state: Mapping[str, Any]) -> None:
        """Replays an episode up to `episode_state`, in this environment or an equal one.

        Raises:
            ValueError: The replay ended in another observation, because the environment draws
                randomness from other sources than `np_random`.
        """
        if state["start"] is None:
            return
        start = state["start"]
        if start["generator"] is not None:
            self.unwrapped.np_random.bit_generator.state = start["generator"]
        self.reset(seed=start["seed"], options=start["options"])
        for action in state["actions"]:
            self.step(action)
        if not _same(self._obs, state["obs"]):
            name = self.spec.id if self.spec is not None else type(self.unwrapped).__name__
            raise ValueError(
                f"environment {name}: the same seed and actions gave another observation, so the "
                "episode cannot be resumed; it must draw all randomness from np_random"
            )


def episode_states(venv: VecEnv) -> list[State]:
    """Returns `ResumableEnv.episode_state` of each environment.

    Args:
        venv: Vectorized environment whose environments are wrapped in `ResumableEnv`.
    """
    return venv.env_method("episode_state")


def restore_episodes(venv: VecEnv, states: Sequence[Mapping[str, Any]]) -> None:
    """Restores the current episode of each environment.

    Args:
        venv: The same number of environments, created in the same way.
        states: Result of `episode_states`.

    Raises:
        ValueError: Their number differs, or an environment cannot be resumed.
    """
    if len(states) != venv.num_envs:
        raise ValueError(f"state is of {len(states)} environments, but there are {venv.num_envs}")
    for index, state in enumerate(states):
        venv.env_method("restore_episode", state, indices=index)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return all(_same(one[key], other[key]) for key in one)
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
