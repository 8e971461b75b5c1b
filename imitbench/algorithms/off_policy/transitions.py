"""Transitions as the agent sees them: the replay buffer, demonstrations, and batches of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt
import torch as th

from imitbench.algorithms.off_policy.randomness import SeedStreams

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """Transitions of each seed.

    Attributes:
        obs: Encoded observations, shape (seeds, batch, features), float32.
        acts: Actions in [-1, 1], shape (seeds, batch, actions), float32; numbers of choices, shape
            (seeds, batch), int64, for discrete actions.
        next_obs: Encoded observations after the actions, like `obs`.
        terminal: 1 where the episode ended for good, not by its time limit, else 0; shape
            (seeds, batch), float32.
        rewards: Rewards stored with the transitions, shape (seeds, batch), float32.
    """

    obs: th.Tensor
    acts: th.Tensor
    next_obs: th.Tensor
    terminal: th.Tensor
    rewards: th.Tensor

    def joined(self, other: Batch) -> Batch:
        """The samples of both, along the second axis."""
        return Batch(
            *(
                th.cat([getattr(self, each.name), getattr(other, each.name)], dim=1)
                for each in fields(Batch)
            )
        )


class TransitionStore:
    """A ring buffer of transitions for each seed, on one device.

    Args:
        seeds: Number of seeds.
        capacity: Transitions of each seed; the oldest are overwritten.
        features: Entries of an encoded observation.
        actions: Shape of an action, `()` for discrete ones.
        device: Where the transitions are kept.
    """

    def __init__(
        self,
        seeds: int,
        capacity: int,
        features: int,
        actions: tuple[int, ...],
        device: str | th.device = "cpu",
    ) -> None:
        self.capacity = capacity
        kind = th.float32 if actions else th.int64
        place = (seeds, capacity)
        self._columns = {
            "obs": th.zeros(*place, features, device=device),
            "acts": th.zeros(*place, *actions, dtype=kind, device=device),
            "next_obs": th.zeros(*place, features, device=device),
            "terminal": th.zeros(*place, device=device),
            "rewards": th.zeros(*place, device=device),
        }
        self._added = [0] * seeds
        self._offsets = th.arange(seeds).unsqueeze(1) * capacity

    @property
    def sizes(self) -> list[int]:
        """Number of transitions of each seed."""
        return [min(added, self.capacity) for added in self._added]

    def add(self, seed: int, rows: Mapping[str, Array | th.Tensor]) -> None:
        """Adds transitions of one seed.

        Args:
            seed: Number of the seed, from 0.
            rows: The fields of `Batch`, each of shape (n, …), n at most the capacity.
        """
        count = len(rows["acts"])
        start = self._added[seed] % self.capacity
        before_end = min(count, self.capacity - start)
        for name, column in self._columns.items():
            values = th.as_tensor(rows[name])
            column[seed, start : start + before_end] = values[:before_end]
            if before_end < count:
                column[seed, : count - before_end] = values[before_end:]
        self._added[seed] += count

    def column(self, name: str, seed: int) -> th.Tensor:
        """The filled part of a field of one seed, shape (size, …); a view."""
        return self._columns[name][seed, : self.sizes[seed]]

    def take(self, index: Array) -> Batch:
        """Transitions at indices of each seed, shape (seeds, batch)."""
        rows = (th.from_numpy(index) + self._offsets).flatten()
        batch = {}
        for name, column in self._columns.items():
            flat = column.flatten(0, 1)
            taken = flat.index_select(0, rows.to(flat.device))
            batch[name] = taken.view(*index.shape, *column.shape[2:])
        return Batch(**batch)

    def sample(self, streams: SeedStreams, count: int) -> Batch:
        """Draws transitions of each seed, with replacement."""
        return self.take(streams.indices(self.sizes, count))

    def replace(self, name: str, seed: int, values: th.Tensor) -> None:
        """Overwrites the filled part of a field of one seed."""
        self.column(name, seed).copy_(values)

    def state_dict(self) -> dict[str, Any]:
        """The filled part of the buffer, on the CPU."""
        most = max(self.sizes)
        columns = {name: each[:, :most].cpu().clone() for name, each in self._columns.items()}
        return {"columns": columns, "added": list(self._added)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for name, values in state["columns"].items():
            self._columns[name][:, : values.shape[1]] = values.to(self._columns[name].device)
        self._added = list(state["added"])


def shares(count: int, own: float, expert: float, device: str | th.device = "cpu") -> th.Tensor:
    """Weights of the samples of the learner's batch joined with the expert's.

    Args:
        count: Samples of each batch.
        own: What the weights of the learner's samples add up to; they are equal.
        expert: The same for the expert's.
        device: Where to put them.

    Returns:
        Shape (2 * count,), float32.
    """
    weights = th.tensor([own / count, expert / count])
    return weights.repeat_interleave(count).to(device)


def store_of(
    rows: Sequence[Mapping[str, Array | th.Tensor]], device: str | th.device = "cpu"
) -> TransitionStore:
    """A store that holds exactly these transitions.

    Args:
        rows: The fields of `Batch` of each seed, each of shape (n, …).
        device: Where the transitions are kept.
    """
    first = rows[0]
    capacity = max(len(each["acts"]) for each in rows)
    store = TransitionStore(
        len(rows), capacity, first["obs"].shape[1], tuple(first["acts"].shape[1:]), device
    )
    for seed, each in enumerate(rows):
        store.add(seed, each)
    return store
