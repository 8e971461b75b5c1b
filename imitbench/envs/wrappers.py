"""Wrappers that disturb an environment, so that the robustness of methods can be measured.

`FlattenObservation` changes only the form of observations. The others change neither spaces, nor
rewards, nor the length of a step. All their randomness is that of
the environment: at each reset, after the environment has drawn its own start, a wrapper seeds its
generator from `np_random`. Episodes with the same seed have the same disturbances, start as those
of the undisturbed environment, and can be replayed.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitbench.cards.wrappers import (
    DelayedActions,
    EnvironmentWrapper,
    FlattenObservation,
    ObservationNoise,
    RandomStart,
    StickyActions,
)

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class Disturbance(gym.Wrapper[Any, Any, Any, Any]):
    """Base of the wrappers: gives each episode a generator of its own.

    Args:
        env: Environment to wrap.
        settings: What the card says of the wrapper.

    Attributes:
        generator: Randomness of the current episode.
    """

    def __init__(self, env: gym.Env[Any, Any], settings: Any) -> None:
        super().__init__(env)
        self.settings = settings
        self.generator = np.random.default_rng(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        own = int(self.unwrapped.np_random.integers(2**63))
        self.generator = np.random.default_rng(own)
        return self.begin(obs, info)

    def begin(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the wrapper, whose generator is seeded.

        Args:
            obs: First observation of the wrapped environment.
            info: Its info.

        Returns:
            First observation and info of the episode.
        """
        return obs, info


class ObservationNoiseWrapper(Disturbance):
    """See `imitbench.cards.wrappers.ObservationNoise`.

    Observations stay within the bounds of their space.

    Raises:
        ValueError: Observations are not a box of floating-point numbers.
    """

    settings: ObservationNoise

    def __init__(self, env: gym.Env[Any, Any], settings: ObservationNoise) -> None:
        super().__init__(env, settings)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ValueError(f"adds to observations that are boxes of floats, not {space}")
        self._low, self._high = space.low, space.high

    def begin(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Begins with a noisy observation."""
        return self._noisy(obs), info

    def step(self, action: Any) -> Step:
        """Steps the environment."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._noisy(obs), reward, terminated, truncated, info

    def _noisy(self, obs: Any) -> Any:
        noise = self.generator.normal(0.0, self.settings.std, np.shape(obs))
        # Not `np.clip` alone: an observation may be beyond its declared bounds without noise.
        low, high = np.minimum(self._low, obs), np.maximum(self._high, obs)
        return np.clip(obs + noise, low, high).astype(np.asarray(obs).dtype)


class StickyActionsWrapper(Disturbance):
    """See `imitbench.cards.wrappers.StickyActions`."""

    settings: StickyActions
    _last: Any = None

    def begin(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Forgets the last action."""
        self._last = None
        return obs, info

    def step(self, action: Any) -> Step:
        """Steps the environment with this action or with that of the step before."""
        # Drawn in each step, so that the number of draws does not depend on the outcomes.
        sticks = self.generator.random() < self.settings.probability
        if self._last is None or not sticks:
            self._last = copy.deepcopy(action)  # callers may reuse an array
        return self.env.step(copy.deepcopy(self._last))


class DelayedActionsWrapper(Disturbance):
    """See `imitbench.cards.wrappers.DelayedActions`.

    Raises:
        ValueError: Actions are not numbers.
    """

    settings: DelayedActions

    def __init__(self, env: gym.Env[Any, Any], settings: DelayedActions) -> None:
        super().__init__(env, settings)
        self._neutral = _neutral_action(env.action_space)
        self._waiting: deque[Any] = deque()

    def begin(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Fills the delay with neutral actions."""
        self._waiting = deque([self._neutral] * self.settings.steps)
        return obs, info

    def step(self, action: Any) -> Step:
        """Steps the environment with an earlier action."""
        self._waiting.append(copy.deepcopy(action))
        return self.env.step(copy.deepcopy(self._waiting.popleft()))


class RandomStartWrapper(Disturbance):
    """See `imitbench.cards.wrappers.RandomStart`.

    If the episode ends among these actions, it begins anew without any.
    """

    settings: RandomStart

    def begin(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Takes the random actions."""
        count = int(self.generator.integers(self.settings.steps + 1))
        # A copy, as policies may sample from the space of the environment itself.
        space = copy.deepcopy(self.env.action_space)
        space.seed(int(self.generator.integers(2**31)))
        ended = False
        for _ in range(count):
            obs, _, terminated, truncated, info = self.env.step(space.sample())
            if ended := terminated or truncated:
                break
        if self.env.has_wrapper_attr("discard_steps"):  # what sums rewards must not count these
            self.env.get_wrapper_attr("discard_steps")()
        return self.env.reset() if ended else (obs, info)


def _flattened(env: gym.Env[Any, Any], settings: FlattenObservation) -> gym.Env[Any, Any]:
    """See `imitbench.cards.wrappers.FlattenObservation`.

    Raises:
        ValueError: Observations are not dictionaries of boxes, or lack an entry.
    """
    space = env.observation_space
    found = dict(space.spaces) if isinstance(space, spaces.Dict) else {}
    if not found or not all(isinstance(entry, spaces.Box) for entry in found.values()):
        raise ValueError(f"flattens observations that are dictionaries of boxes, not {space}")
    if settings.entries is not None:
        absent = sorted(set(settings.entries) - set(found))
        if absent:
            raise ValueError(f"entries: observations have no {absent[0]}, but {', '.join(found)}")
        env = gym.wrappers.FilterObservation(env, sorted(set(settings.entries)))
    return gym.wrappers.FlattenObservation(env)


WRAPPERS: dict[type, Callable[[gym.Env[Any, Any], Any], gym.Env[Any, Any]]] = {
    ObservationNoise: ObservationNoiseWrapper,
    StickyActions: StickyActionsWrapper,
    DelayedActions: DelayedActionsWrapper,
    RandomStart: RandomStartWrapper,
    FlattenObservation: _flattened,
}
"""The wrapper of each entry of a card."""


def disturbed(env: gym.Env[Any, Any], wrappers: Sequence[EnvironmentWrapper]) -> gym.Env[Any, Any]:
    """Wraps an environment without a time limit.

    Args:
        env: The environment. A time limit goes around all wrappers, as the steps of a random start
            do not count.
        wrappers: From the innermost to the outermost.

    Raises:
        ValueError: A wrapper does not fit the spaces; the message begins with its name.
    """
    for settings in wrappers:
        try:
            env = WRAPPERS[type(settings)](env, settings)
        except ValueError as error:
            raise ValueError(f"{settings.name} {error}") from error
    return env


def _neutral_action(space: gym.Space[Any]) -> Any:
    """Returns what of an action space is closest to zero."""
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Discrete):
        first, last = int(space.start), int(space.start + space.n - 1)
        return np.int64(min(max(0, first), last))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        zeros = np.zeros(space.shape, space.dtype)
        return zeros if isinstance(space, spaces.MultiBinary) else zeros + space.start
    raise ValueError(f"delays actions that are numbers, not {space}")
