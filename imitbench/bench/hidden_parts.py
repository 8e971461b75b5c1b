"""Hides true rewards from methods whose card does not ask for them, and actions in some regimes.

Code in the same process can always find a way to the simulator. What the harness hands out is
hidden here; `check-algo` finds methods that take another way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numpy as np

from imitbench.util.library_patches import entry_point_replaced

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

RewardView = Literal["all", "environment", "none"]
"""Which true rewards a method is given: all; those of environments, which methods of this package
use for their learning curve only; or none."""

_REWARD = "rew"  # in the names of what is about rewards


class HiddenReward(gym.Wrapper[Any, Any, Any, Any]):
    """Returns NaN for every reward, and for numbers about rewards in infos, nested ones included.

    Attributes:
        finished_return: Return of the last episode that was reset, for the learning curve.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.finished_return = self._return = 0.0
        self._counts = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        if self._counts:
            self.finished_return = self._return
        self.discard_steps()
        return self.env.reset(seed=seed, options=options)

    def discard_steps(self) -> None:
        """Leaves the steps since the last reset out of the episode's return."""
        self._return, self._counts = 0.0, False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        true = float(reward)
        self._return, self._counts = self._return + true, True
        told = {name: _hidden(name, value, true) for name, value in info.items()}
        return obs, math.nan, terminated, truncated, told


def _hidden(name: str, value: Any, true: float) -> Any:
    """Returns a value of the infos of a step as a method gets it.

    Args:
        name: Its name, after the names of the values that it is part of.
        value: Any value.
        true: The reward of the step.
    """
    if isinstance(value, Mapping):
        return {key: _hidden(f"{name} {key}", part, true) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_hidden(name, part, true) for part in value)
    named = _REWARD in name.lower()
    if named and isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return np.full(value.shape, math.nan)
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return math.nan if (named and whole) or tells_reward(name, value, true) else value


def tells_reward(name: str, value: Any, true: float) -> bool:
    """Whether a value in the infos of a step tells its reward, or a part of it.

    Args:
        name: Name of the value.
        value: Any value; only numbers can tell a reward.
        true: The reward of the step.
    """
    number = isinstance(value, float | np.floating)
    return number and (_REWARD in name.lower() or float(value) == true)


@contextmanager
def hidden_environment_rewards(env_id: str, view: RewardView) -> Iterator[None]:
    """Context in which new environments with an id hide their rewards, if `view` is `none`.

    Gymnasium's registry is changed, so that this holds for environments that the method makes
    itself, too.

    Args:
        env_id: Id of the environment. One that is not registered cannot be made either.
        view: What the method is given.
    """
    env_id = env_id.rpartition(":")[2]
    if view != "none" or env_id not in gym.registry:
        yield
        return

    def hide(create: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kwargs: HiddenReward(create(**kwargs))

    with entry_point_replaced(env_id, hide):
        yield


def hide_demo_rewards(
    demos: Sequence[TrajectoryWithRew], view: RewardView
) -> Sequence[TrajectoryWithRew]:
    """Returns demonstrations with NaN for rewards, and without infos, unless `view` is `all`.

    Args:
        demos: Whole episodes.
        view: What the method is given.
    """
    if view == "all":
        return demos
    return [
        dataclasses.replace(demo, rews=np.full(len(demo), math.nan), infos=None) for demo in demos
    ]


def hide_actions(trajectories: Sequence[TrajectoryWithRew]) -> list[TrajectoryWithRew]:
    """Returns trajectories whose actions have no entries, and without infos, which may tell them.

    Args:
        trajectories: Whole episodes.

    Returns:
        The same episodes with `acts` of shape `(steps, 0)`, dtype float32.
    """
    return [
        dataclasses.replace(trajectory, acts=np.empty((len(trajectory), 0), np.float32), infos=None)
        for trajectory in trajectories
    ]
