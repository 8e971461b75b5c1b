"""What steps many environments of one task at once: its interface and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64] | slice


@dataclass(frozen=True)
class StepResults:
    """Results of one step of several environments.

    Attributes:
        obs: Observations, shape (n, …), with the data type of the environments' own.
        rewards: Shape (n,), float64.
        terminated: Whether the episode ended in the task itself, shape (n,), bool.
        infos: Values of the environments' infos by name, each of shape (n, …); lists of n values
            where their types matter.
    """

    obs: Array
    rewards: Array
    terminated: Array
    infos: Mapping[str, Array | list[Any]]


class Batch(Protocol):
    """States of environments of one task, which are stepped together.

    The environments reset themselves, with their own random numbers; `load` then copies the state.
    """

    def load(self, index: int, *, moved: bool = True) -> None:
        """Copies the state of an environment.

        Args:
            index: Number of the environment.
            moved: Whether the next step's velocity begins where the environment is now.
        """

    def write_back(self, index: int, *, derived: bool = False) -> None:
        """Copies a state to its environment.

        Args:
            index: Number of the environment.
            derived: Whether to compute what follows from the state, for rendering.
        """

    def step(self, actions: Array, ids: Array | None = None) -> StepResults:
        """Steps environments.

        Args:
            actions: Valid ones, shape (n, …).
            ids: Their numbers, shape (n,), increasing; `None` for all.
        """


def keeps_methods(cls: type, base: type, *, inherited: bool) -> bool:
    """Whether a class changes no more of its base than attributes and the constructor.

    Args:
        cls: The class.
        base: One of its bases.
        inherited: Whether methods that the base itself inherits count, too.
    """
    methods = {
        name: value
        for name, value in ((name, getattr_static(base, name)) for name in dir(base))
        if not name.startswith("__") and (inherited or name in vars(base))
        if callable(value) or isinstance(value, property | classmethod | staticmethod)
    }
    return all(getattr_static(cls, name) is value for name, value in methods.items())
