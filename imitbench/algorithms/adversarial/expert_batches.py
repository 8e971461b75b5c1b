"""Batches on which the discriminator is trained."""

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
    """Endless batches of expert transitions; each pass has a new random order.

    Args:
        transitions: Must have next observations.
        batch_size: Transitions in each batch; an incomplete last batch is dropped.
        rng: Draws the order of each pass.

    Raises:
        ValueError: There are fewer transitions than `batch_size`.
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
        """All observations and actions."""
        obs, acts = self._data["obs"], self._data["acts"]
        return types.TransitionsMinimal(obs=obs, acts=acts, infos=np.array([{}] * len(acts)))

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of each entry of the observations, shape (size,), float64."""
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
        """The rest of the current pass."""
        return {"size": len(self._data["acts"]), "order": self._order.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another number of transitions.
        """
        size = len(self._data["acts"])
        if state["size"] != size:
            raise ValueError(f"state is of {state['size']} transitions, not {size}")
        self._order = np.array(state["order"])


def checked_batches(
    batches: Iterable[types.TransitionMapping], batch_size: int
) -> Iterator[dict[str, Array]]:
    """Repeats batches that the user made.

    Raises:
        ValueError: A batch has another size or lacks a field, or a pass has no batches.
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
    """Endless batches of demonstrations: `ExpertBatches`, unless given as batches.

    Args:
        demonstrations: Trajectories, transitions, or an iterable of batches of `batch_size`.
        batch_size: Transitions in each batch.
        venv: Environment whose spaces the demonstrations must fit.
        rng: Draws the order of each pass.

    Raises:
        ValueError: Demonstrations are empty, not finite, fewer than a batch, of other shapes, or
            lack next observations.
    """
    given = base.as_transitions(demonstrations)
    if not isinstance(given, types.TransitionsMinimal):
        return checked_batches(given, batch_size)
    if not isinstance(given, types.Transitions):
        raise ValueError("demonstrations: transitions need next_obs and dones")
    for obs in (given.obs, given.next_obs):
        check_fit(obs, given.acts, venv.observation_space, venv.action_space)
    return ExpertBatches(given, batch_size, rng)


def as_fields(samples: Mapping[str, Any], name: str, size: int) -> dict[str, Array]:
    """Converts the four fields of a batch to arrays.

    Args:
        samples: Arrays or tensors under at least `obs`, `acts`, `next_obs` and `dones`.
        name: Name of the argument for error messages.
        size: Required number of samples.

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
    # The constructor of the algorithm rejects dictionary observations.
    return {field: np.asarray(safe_to_numpy(samples[field])) for field in FIELDS}
