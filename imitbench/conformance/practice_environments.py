"""Small artificial environments for tests of methods, one for each kind of action space."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, get_args

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.bench.hidden_parts import tells_reward
from imitbench.cards.algorithm import ActionSpace
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.library_patches import entry_point_replaced

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


HORIZON = 200
_KINDS: dict[ActionSpace, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(-2.0, 2.0, (2,), np.float32),
}


class DriftEnv(gym.Env[npt.NDArray[np.float32], Any]):
    """A point that drifts and is pushed by actions; registered with a fixed episode length.

    Args:
        kind: Kind of action space.
    """

    def __init__(self, kind: ActionSpace) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.action_space = _KINDS[kind]
        self._push = np.linspace(-0.2, 0.2, 6).reshape(2, 3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Starts at a random position near the origin."""
        super().reset(seed=seed)
        self._position = self.np_random.normal(size=3)
        return self._position.astype(np.float32), {}

    def step(
        self, action: Any
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves the point; the reward is higher near the origin."""
        push = np.resize(np.asarray(action, dtype=np.float64).ravel(), 2) @ self._push
        drift = self.np_random.normal(scale=0.1, size=3)
        self._position = np.clip(0.95 * self._position + push + drift, -10.0, 10.0)
        reward = -float(np.abs(self._position).sum())
        return self._position.astype(np.float32), reward, False, False, {}


def environment_id(kind: ActionSpace) -> str:
    """Returns the Gymnasium id of the environment with this kind of actions."""
    return f"imitbench-practice/{kind}-v0"


def practice_environment(kind: ActionSpace) -> EnvironmentSpec:
    """Returns the environment with this kind of actions."""
    return EnvironmentSpec(id=environment_id(kind), module=__name__)


for _kind in get_args(ActionSpace):
    if environment_id(_kind) not in gym.registry:
        gym.register(
            environment_id(_kind),
            entry_point=f"{__name__}:DriftEnv",
            kwargs={"kind": _kind},
            max_episode_steps=HORIZON,
        )


Poison = Literal["none", "nan", "other", "canary", "run"]
"""How true rewards are changed: not at all, to NaN, to 3 - 2 r where methods should get them, to
3 - 2 r inside the environment, so that every way to them leads to the canary, or around the
training only, see `imitbench.conformance.test_bed`."""


@dataclass
class StepCounter:
    """Counter of instrumented environments.

    Attributes:
        steps: Steps taken, over all environments.
    """

    steps: int = 0


class InstrumentedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Counts steps, and may replace rewards.

    Args:
        env: Environment to wrap.
        meter: Counter of the steps.
        poison: How rewards are changed, see `Poison`.
    """

    def __init__(self, env: gym.Env[Any, Any], meter: StepCounter, poison: Poison) -> None:
        super().__init__(env)
        if poison == "canary":
            _plant_canaries(env.unwrapped)
        self._meter = meter
        self._poison = poison

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment and returns the changed reward."""
        self._meter.steps += 1
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, poisoned(float(reward), self._poison), terminated, truncated, info


def poisoned(reward: float, poison: Poison) -> float:
    """Returns what a method gets instead of a reward."""
    if poison in ("none", "canary", "run"):
        return reward
    return float("nan") if poison == "nan" else 3.0 - 2.0 * reward


def _plant_canaries(env: gym.Env[Any, Any]) -> None:
    """Makes an environment itself return, report and remember false rewards.

    The class is replaced, not the method of the object, so that `type(env).step` is changed, too.
    """
    kind: Any = type(env)
    for name, value in list(vars(env).items()):  # tables of rewards
        if "rew" in name.lower() and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            setattr(env, name, 3.0 - 2.0 * value)

    class Canary(kind):  # type: ignore[misc]
        def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
            obs, reward, terminated, truncated, info = super().step(action)
            true = float(reward)

            def false(name: str, value: Any) -> Any:
                if tells_reward(name, value, true):
                    return poisoned(float(value), "other")
                return value

            for name, value in list(vars(self).items()):
                if "rew" in name.lower():
                    setattr(self, name, false(name, value))
            changed_info = {name: false(name, value) for name, value in info.items()}
            return obs, poisoned(true, "other"), terminated, truncated, changed_info

    Canary.__name__, Canary.__qualname__ = kind.__name__, kind.__qualname__
    env.__class__ = Canary


@contextmanager
def instrumented_spec(env_id: str, poison: Poison = "none") -> Iterator[StepCounter]:
    """Context in which every new environment with an id is instrumented.

    It replaces the entry point in Gymnasium's registry, so that methods do not notice.

    Args:
        env_id: Id of the environment, which must be registered.
        poison: How rewards are changed, see `InstrumentedEnv`.
    """
    meter = StepCounter()

    def wrap(create: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kwargs: InstrumentedEnv(create(**kwargs), meter, poison)

    with entry_point_replaced(env_id, wrap):
        yield meter


def poisoned_demos(
    demos: Sequence[TrajectoryWithRew], poison: Poison
) -> Sequence[TrajectoryWithRew]:
    """Returns demonstrations with changed rewards.

    Args:
        demos: Demonstrations to copy.
        poison: How rewards are changed, see `InstrumentedEnv`.
    """
    if poison in ("none", "canary", "run"):
        return demos

    def changed(rews: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full_like(rews, np.nan) if poison == "nan" else 3.0 - 2.0 * rews

    return [dataclasses.replace(demo, rews=changed(demo.rews)) for demo in demos]
