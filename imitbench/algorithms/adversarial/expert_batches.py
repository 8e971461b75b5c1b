"""Batches of expert and generator that the discriminator is trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data import types
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]
FIELDS = ("obs", "acts", "next_obs", "dones")


class ExpertBatches:
    """Batches of expert transitions without end: passes in a new random order each.

    Args:
        transitions: The data.
        batch_size: Transitions in each batch; the rest of a pass is left out.
        rng: Source of the orders.

    Raises:
        ValueError: There is less data than one batch.
    """

    def __init__(
        self, transitions: types.Transitions, batch_size: int, rng: np.random.Generator
    ) -> None:
        base.check_enough(transitions, batch_size)
        self._data = {name: getattr(transitions, name) for name in FIELDS}
        self._batch_size = batch_size
        self._rng = rng
        self._order: Array = np.empty(0, dtype=np.int64)

    @property
    def transitions(self) -> types.TransitionsMinimal:
        """Observations and actions of all data."""
        obs, acts = self._data["obs"], self._data["acts"]
        return types.TransitionsMinimal(obs=obs, acts=acts, infos=np.array([{}] * len(acts)))

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of each entry of the observations, flat, float64."""
        flat = self._data["obs"].reshape(len(self._data["obs"]), -1).astype(np.float64)
        return flat.mean(axis=0), flat.var(axis=0)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return self

    def __next__(self) -> dict[str, Array]:
        """The next batch: `obs`, `acts`, `next_obs` and `dones`."""
        if len(self._order) < self._batch_size:
            self._order = self._rng.permutation(len(self._data["acts"]))
        index, self._order = np.split(self._order, [self._batch_size])
        return {name: array[index] for name, array in self._data.items()}

    def state_dict(self) -> dict[str, Any]:
        """What is left of the current pass."""
        return {"size": len(self._data["acts"]), "order": self._order.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave.

        Raises:
            ValueError: It belongs to another amount of data.
        """
        size = len(self._data["acts"])
        if state["size"] != size:
            raise ValueError(f"state is of {state['size']} transitions, but there are {size}")
        self._order = np.array(state["order"])


def given_batches(
    batches: Iterable[types.TransitionMapping], batch_size: int
) -> Iterator[dict[str, Array]]:
    """Batches that the user made, again and again.

    Raises:
        ValueError: A batch has another size or lacks a field, or there are none left.
    """
    checked = base.make_data_loader(batches, batch_size)
    while True:
        empty = True
        for batch in checked:
            empty = False
            yield as_fields(batch, "demonstrations", batch_size)
        if empty:
            raise ValueError(
                "demonstrations: a pass has no batches (an iterator gives a single pass)"
            )


def endless_batches(
    demonstrations: base.AnyTransitions,
    batch_size: int,
    venv: VecEnv,
    rng: np.random.Generator,
) -> Iterator[dict[str, Array]]:
    """Batches of demonstrations in whatever form they come: `ExpertBatches` unless as batches.

    Args:
        demonstrations: Trajectories, transitions, or an iterable of batches of `batch_size`.
        batch_size: Transitions in each batch.
        venv: Environment whose spaces they must fit.
        rng: Source of the orders.

    Raises:
        ValueError: They are empty, not finite, fewer than a batch, of other shapes, or without
            next observations.
    """
    given = base.as_transitions(demonstrations)
    if not isinstance(given, types.TransitionsMinimal):
        return given_batches(given, batch_size)
    if not isinstance(given, types.Transitions):
        raise ValueError("demonstrations: transitions need next_obs and dones")
    for obs in (given.obs, given.next_obs):
        check_fit(obs, given.acts, venv.observation_space, venv.action_space)
    return ExpertBatches(given, batch_size, rng)


def as_fields(samples: Mapping[str, Any], name: str, size: int) -> dict[str, Array]:
    """The four fields of a batch as arrays.

    Args:
        samples: Arrays or tensors under at least `obs`, `acts`, `next_obs` and `dones`.
        name: What the caller calls them.
        size: How many samples there must be.

    Raises:
        ValueError: A field is missing or has another length.
    """
    for field in FIELDS:
        if field not in samples:
            raise ValueError(f"{name} has no '{field}'; it needs {', '.join(FIELDS)}")
        if len(samples[field]) != size:
            raise ValueError(
                f"{name} has {len(samples[field])} entries in '{field}', not demo_batch_size {size}"
            )
    # Dictionary observations were refused when the algorithm was built.
    return {field: np.asarray(safe_to_numpy(samples[field])) for field in FIELDS}
