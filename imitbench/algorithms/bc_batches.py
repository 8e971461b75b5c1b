"""Batches for behavioral cloning: shuffled passes that can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th

from imitbench.data import types
from imitbench.util.util import safe_to_tensor

TensorBatch = Mapping[str, Any]
"""`obs` (a tensor, or a dictionary of tensors) and `acts` (a tensor)."""


class ShuffledTransitions:
    """Passes over transitions, each in a new random order.

    A pass gathers the shuffled data once; its batches are views.

    Args:
        transitions: Observations and actions; copied to `device`.
        batch_size: Transitions in each batch; an incomplete last batch is dropped.
        rng: Draws the order of each pass.
        device: Device of the batches.

    Attributes:
        position: Batches taken from the current pass.
    """

    def __init__(
        self,
        transitions: types.TransitionsMinimal,
        batch_size: int,
        rng: np.random.Generator,
        device: th.device,
    ) -> None:
        obs = types.maybe_unwrap_dictobs(transitions.obs)
        self._obs = _to_device(obs, device)
        self._acts = safe_to_tensor(transitions.acts).to(device)
        self._batch_size = batch_size
        self._rng = rng
        self._order: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self.position = 0

    def __len__(self) -> int:
        """Number of batches in a pass."""
        return len(self._acts) // self._batch_size

    def __iter__(self) -> Iterator[TensorBatch]:
        """A new pass."""
        self._order = None
        return self.resume()

    def resume(self) -> Iterator[TensorBatch]:
        """The rest of an interrupted pass, or a new one."""
        if self._order is None or self.position >= len(self):
            self._order = self._rng.permutation(len(self._acts))
            self.position = 0
        index = th.from_numpy(self._order).to(self._acts.device)
        obs, acts = _select(self._obs, index), self._acts[index]
        while self.position < len(self):
            start = self.position * self._batch_size
            part = slice(start, start + self._batch_size)
            self.position += 1
            yield {"obs": _select(obs, part), "acts": acts[part]}

    def state_dict(self) -> dict[str, Any]:
        """Order and position of the current pass, and the size of its batches."""
        order = None if self._order is None else th.from_numpy(self._order.copy())
        return {"order": order, "position": self.position, "batch_size": self._batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another number of transitions, or another batch size.
        """
        order = state["order"]
        if state["batch_size"] != self._batch_size:
            raise ValueError(f"state has batch_size {state['batch_size']}, not {self._batch_size}")
        if order is not None and len(order) != len(self._acts):
            raise ValueError(f"state is of {len(order)} transitions, not {len(self._acts)}")
        self._order = None if order is None else order.numpy().copy()
        self.position = state["position"]


class TensorBatches:
    """Batches that the user made, moved to the policy's device.

    Args:
        batches: Batches with `obs` and `acts`; each iteration is one pass.
        check: Called with the observations and actions of each batch; raises if they are invalid.
        device: Device of the batches.
    """

    def __init__(
        self,
        batches: Iterable[types.TransitionMapping],
        check: Callable[[Any, Any], None],
        device: th.device,
    ) -> None:
        self._batches = batches
        self._check = check
        self._device = device

    def __iter__(self) -> Iterator[TensorBatch]:
        """A new pass."""
        for batch in self._batches:
            self._check(batch["obs"], batch["acts"])
            yield {
                "obs": _to_device(types.maybe_unwrap_dictobs(batch["obs"]), self._device),
                "acts": safe_to_tensor(batch["acts"]).to(self._device),
            }

    def resume(self) -> Iterator[TensorBatch]:
        """A new pass: the position in given batches is unknown."""
        return iter(self)


@dataclass(frozen=True)
class BatchIteratorWithEpochEndCallback:
    """Iterates over batches for a number of passes or of batches.

    Attributes:
        batch_loader: Batches; each iteration is one pass.
        n_epochs: Number of passes, or `None`.
        n_batches: Number of batches, or `None`.
        on_epoch_end: Called with the number of each completed pass, from 0.

    Raises:
        ValueError: Not exactly one of `n_epochs` and `n_batches` is given, or it is negative.
    """

    batch_loader: Iterable[TensorBatch]
    n_epochs: int | None
    n_batches: int | None
    on_epoch_end: Callable[[int], None] | None

    def __post_init__(self) -> None:
        if (self.n_epochs is None) == (self.n_batches is None):
            raise ValueError("give exactly one of n_epochs and n_batches")
        if (self.n_epochs or self.n_batches or 0) < 0:
            raise ValueError("n_epochs and n_batches must not be negative")

    def __iter__(self) -> Iterator[TensorBatch]:
        """Yields batches until the number is reached.

        Raises:
            ValueError: A pass has no batches.
        """
        # Counting batches continues where the last call stopped; counting passes starts a new one.
        resume = getattr(self.batch_loader, "resume", None)
        passes = resume() if self.n_batches is not None and resume else iter(self.batch_loader)
        batches, epochs = 0, 0
        while batches != self.n_batches and epochs != self.n_epochs:
            empty = True
            for batch in passes:
                empty = False
                yield batch
                batches += 1
                if batches == self.n_batches and not self._at_end():
                    return
            if empty:
                raise ValueError(
                    "demonstrations: a pass has no batches (an iterator gives a single pass)"
                )
            if self.on_epoch_end is not None:
                self.on_epoch_end(epochs)
            epochs += 1
            passes = iter(self.batch_loader)

    def _at_end(self) -> bool:
        """Whether the loader is known to have yielded its last batch."""
        loader = self.batch_loader
        return isinstance(loader, ShuffledTransitions) and loader.position == len(loader)


def enumerate_batches(
    batch_it: Iterable[TensorBatch],
) -> Iterator[tuple[tuple[int, int, int], TensorBatch]]:
    """Yields ((batch number, batch size, samples so far), batch)."""
    samples = 0
    for number, batch in enumerate(batch_it):
        size = len(batch["acts"])
        samples += size
        yield (number, size, samples), batch


def _to_device(obs: Any, device: th.device) -> Any:
    if isinstance(obs, Mapping):
        return {key: safe_to_tensor(value).to(device) for key, value in obs.items()}
    return safe_to_tensor(obs).to(device)


def _select(obs: Any, index: Any) -> Any:
    if isinstance(obs, dict):
        return {key: value[index] for key, value in obs.items()}
    return obs[index]
