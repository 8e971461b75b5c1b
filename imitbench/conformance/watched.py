"""Environments under observation: their steps are counted, and their rewards may be poisoned.

Poison is meant to show whether a method learns from rewards that it must not see. An object that
raises when it is read would be the sharpest one, but rewards are read by everybody on the way:
the vector environment writes them into a float32 array, the monitor adds them up for the learning
curve. What reaches a learner is always an array of floats that others have read. So rewards are
replaced by NaN, which no arithmetic gets rid of; and, because `nan_to_num` does, in another
training by numbers that order actions the other way round. What is learnt must be the same to the
bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.util.library_patches import entry_point_replaced

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

Poison = Literal["none", "nan", "other"]


@dataclass
class StepCounter:
    """What environments under observation did.

    Attributes:
        steps: Steps taken, all environments together.
    """

    steps: int = 0


class InstrumentedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Counts steps, and gives other rewards.

    Args:
        env: The environment.
        meter: Where steps are counted.
        poison: What becomes of rewards.
    """

    def __init__(self, env: gym.Env[Any, Any], meter: StepCounter, poison: Poison) -> None:
        super().__init__(env)
        self._meter = meter
        self._poison = poison

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        self._meter.steps += 1
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, _poisoned(float(reward), self._poison), terminated, truncated, info


def _poisoned(reward: float, poison: Poison) -> float:
    if poison == "none":
        return reward
    return float("nan") if poison == "nan" else 3.0 - 2.0 * reward


@contextmanager
def instrumented_spec(env_id: str, poison: Poison = "none") -> Iterator[StepCounter]:
    """Puts every environment of an id that is made meanwhile under observation.

    It is done where Gymnasium looks ids up, so that no method notices.

    Args:
        env_id: The id, which must be registered.
        poison: What becomes of rewards.
    """
    meter = StepCounter()

    def wrap(create: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kwargs: InstrumentedEnv(create(**kwargs), meter, poison)

    with entry_point_replaced(env_id, wrap):
        yield meter


def poisoned_demos(
    demos: Sequence[TrajectoryWithRew], poison: Poison
) -> Sequence[TrajectoryWithRew]:
    """Demonstrations with other rewards, or the same ones.

    Args:
        demos: The demonstrations.
        poison: What becomes of their rewards.
    """
    if poison == "none":
        return demos

    def changed(rews: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full_like(rews, np.nan) if poison == "nan" else 3.0 - 2.0 * rews

    return [dataclasses.replace(each, rews=changed(each.rews)) for each in demos]
