"""Scripted experts: policies whose actions a program of this package computes.

A suite card names a script in the expert's recipe, with its settings:

    expert:
      repo: scripted-PointMaze_UMaze-v3
      algo: scripted
      script: maze_waypoints
      env_steps: 0
      hyperparameters: {noise: 0.5}

`imitbench experts train` builds the policy and stores it as any other. The file names the class and
its settings, and only classes of `_SCRIPTS` are built from it.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium import spaces

from imitbench.cards.algorithm import Scalar
from imitbench.policies.stateful import StatefulPolicy

if TYPE_CHECKING:
    from typing_extensions import Self

_SCRIPTS = {
    "maze_waypoints": ("imitbench.policies.maze_waypoints", "MazeWaypointPolicy"),
    "pusht_planner": ("imitbench.policies.pusht_planner", "PushTPlannerPolicy"),
}
"""Module and class of each script that `imitbench.cards.suite.Script` names."""


class ScriptedPolicy(StatefulPolicy):
    """An expert that is a program.

    Besides the spaces, the constructor takes only numbers, texts and truth values, as keyword
    arguments: the settings. It checks them, as they may come from a file. Random numbers are those
    of torch's global generator, which evaluations and collections seed; with `deterministic`, there
    are none, and actions depend on the observation alone, so that methods can ask for the action in
    any state.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, action_space)

    @classmethod
    def for_environment(cls, env: gym.Env[Any, Any], **settings: Scalar) -> Self:
        """Builds the expert of an environment.

        Args:
            env: The environment, for its spaces and what else the script must know of it.
            **settings: The recipe's hyper-parameters.

        Raises:
            ValueError: The environment is not one of the script, or a setting is invalid.
            TypeError: There is no such setting.
        """
        return cls(env.observation_space, env.action_space, **settings)

    @property
    @abstractmethod
    def settings(self) -> dict[str, Scalar]:
        """The keyword arguments that build this policy again."""

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **self.settings,
        }


def check_boxes(policy: ScriptedPolicy, observed: int, acted: int) -> None:
    """Raises a `ValueError` unless a policy's spaces are boxes with so many numbers."""
    for name, space, width in (
        ("observation_space", policy.observation_space, observed),
        ("action_space", policy.action_space, acted),
    ):
        if not isinstance(space, spaces.Box) or space.shape != (width,):
            raise ValueError(f"{name}: must be a Box of {width} numbers, not {space}")


def check_number(name: str, value: Any, least: float, most: float, *, whole: bool) -> None:
    """Raises a `ValueError` unless a setting is a number within bounds, and whole if it must be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: must be a number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name}: must be {least} to {most}, not {value}")
    if whole and not isinstance(value, int):
        raise ValueError(f"{name}: must be a whole number, not {value}")


def script(name: str) -> type[ScriptedPolicy]:
    """Returns the class of a script that cards name."""
    module, class_name = _SCRIPTS[name]
    found: type[ScriptedPolicy] = getattr(importlib.import_module(module), class_name)
    return found


def scripted_class(class_name: str) -> type[ScriptedPolicy] | None:
    """Returns the class that a stored policy names; `None` if no script has it."""
    names = (name for name, (_, found) in _SCRIPTS.items() if found == class_name)
    name = next(names, None)
    return None if name is None else script(name)
