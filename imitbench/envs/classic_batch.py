"""Steps many environments of a small task at once, with the results of their own `step`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitbench.envs.batch import Array, StepResults
from imitbench.envs.classic_tasks import ClassicTask


class ClassicBatch:
    """States of environments of one task; see `imitbench.envs.batch.Batch`.

    Args:
        envs: Environments of one task, without wrappers around it.
        kind: The task.
    """

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], kind: type[ClassicTask]) -> None:
        self._envs, self._task = list(envs), kind(envs[0])
        self._state = np.zeros((kind.entries, len(envs)))
        self._generators: list[np.random.Generator | None] = [None] * len(envs)
        space = self._task.task.action_space
        self._choices = int(space.n) if isinstance(space, spaces.Discrete) else None

    def load(self, index: int, *, moved: bool = True) -> None:
        """Copies the state of an environment, all of it whether it has `moved` or not."""
        del moved
        env = self._envs[index]
        self._state[:, index] = self._task.read(env)
        # Not a copy, so that the environment's next reset draws what follows.
        self._generators[index] = env.unwrapped.np_random if self._task.draws else None

    def write_back(self, index: int, *, derived: bool = False) -> None:
        """Copies a state to its environment; nothing is `derived` from it."""
        del derived
        self._task.write(self._envs[index], self._state[:, index].copy())

    def step(self, actions: Array, ids: Array | None = None) -> StepResults:
        """Steps environments; see `imitbench.envs.batch.Batch.step`.

        Raises:
            ValueError: A discrete action is not in the space. NumPy would take -1 for the last one.
        """
        if self._choices is not None and ((actions < 0) | (actions >= self._choices)).any():
            raise ValueError(f"actions are numbers from 0 to {self._choices - 1}, not {actions}")
        before = self._state if ids is None else self._state[:, ids]
        if self._task.draws:
            drawing = self._generators if ids is None else [self._generators[i] for i in ids]
            before[-1] = [rng.random() for rng in drawing if rng is not None]
        after, results = self._task.step(before, actions)
        if ids is None:
            self._state = after
        else:
            self._state[:, ids] = after
        return results
