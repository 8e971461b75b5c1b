"""Transitions as the agent sees them: the replay buffer, demonstrations, and batches of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from torch.nn import functional

from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.util.util import safe_to_numpy

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
                th.cat([getattr(self, field.name), getattr(other, field.name)], dim=1)
                for field in fields(Batch)
            )
        )


class PairInputs:
    """Pairs of observation and action, or of two observations, as inputs of a network.

    Args:
        features: Entries of an encoded observation.
        action_space: Space of the actions.
        hidden_entries: Entries of observations that are always 0.
        use_actions: Whether the action is part of the inputs.
        use_next_obs: Whether the next observation is.
        device: Where to compute.

    Attributes:
        size: Number of inputs.
    """

    def __init__(
        self,
        features: int,
        action_space: spaces.Space[Any],
        *,
        hidden_entries: Sequence[int] = (),
        use_actions: bool = True,
        use_next_obs: bool = False,
        device: str | th.device = "cpu",
    ) -> None:
        actions = spaces.flatdim(action_space)
        self.size = features * (1 + use_next_obs) + actions * use_actions
        self._choices = actions if isinstance(action_space, spaces.Discrete) else None
        self._use_actions = use_actions
        self._use_next_obs = use_next_obs
        self._visible = th.ones(features, device=device)
        self._visible[list(hidden_entries)] = 0.0

    def __call__(self, batch: Batch) -> th.Tensor:
        """The inputs of each transition, shape (seeds, batch, size)."""
        obs, acts = batch.obs * self._visible, batch.acts
        parts = [obs]
        if self._use_actions:
            if self._choices is not None:
                acts = functional.one_hot(acts, self._choices).to(obs)
            parts.append(acts)
        if self._use_next_obs:
            parts.append(batch.next_obs * self._visible)
        return th.cat(parts, dim=-1) if len(parts) > 1 else obs


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
        self._discrete = not actions
        self._widths = {
            "obs": features,
            "acts": 1 if self._discrete else actions[0],
            "next_obs": features,
            "terminal": 1,
            "rewards": 1,
        }
        # One table, so that a batch is taken and transitions are added in one operation.
        self._table = th.zeros(seeds, capacity, sum(self._widths.values()), device=device)
        self._flat = self._table.flatten(0, 1)
        self._added = [0] * seeds
        self._offsets = th.arange(seeds, device=device).unsqueeze(1) * capacity
        self._waiting: list[tuple[Array, Array]] = []  # rows of `_flat` by their numbers
        self._waiting_count = 0

    @property
    def added(self) -> Sequence[int]:
        """Number of transitions that each seed ever had."""
        return self._added

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
        columns = [
            safe_to_numpy(rows[name]).reshape(count, width) for name, width in self._widths.items()
        ]
        table = np.concatenate(columns, axis=1, dtype=np.float32, casting="unsafe")
        if self._waiting_count + count > self.capacity:  # a row must not be waited for twice
            self.flush()
        indices = np.arange(self._added[seed], self._added[seed] + count) % self.capacity
        self._waiting.append((indices + seed * self.capacity, table))
        self._waiting_count += count
        self._added[seed] += count

    def flush(self) -> None:
        """Writes the transitions that were added since; every reading does this, too."""
        if not self._waiting:
            return
        indices, rows = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        device = self._flat.device
        self._flat.index_copy_(0, th.from_numpy(indices).to(device), th.from_numpy(rows).to(device))
        self._waiting.clear()
        self._waiting_count = 0

    def _columns(self, table: th.Tensor) -> dict[str, th.Tensor]:
        """Views of the fields of a table, shape (…, entries of a transition).

        Discrete actions are a copy.
        """
        parts = th.split(table, list(self._widths.values()), dim=-1)
        columns = dict(zip(self._widths, parts, strict=True))
        for name in ("terminal", "rewards"):
            columns[name] = columns[name].squeeze(-1)
        if self._discrete:
            columns["acts"] = columns["acts"].squeeze(-1).long()
        return columns

    def column(self, name: str, seed: int) -> th.Tensor:
        """The filled part of a field of one seed, shape (size, …).

        A view, but for discrete actions.
        """
        self.flush()
        return self._columns(self._table[seed, : self.sizes[seed]])[name]

    def take(self, index: Array | th.Tensor) -> Batch:
        """Transitions at indices of each seed, shape (seeds, batch)."""
        self.flush()
        if not isinstance(index, th.Tensor):
            index = th.from_numpy(index).to(self._flat.device)
        taken = self._flat.index_select(0, (index + self._offsets).flatten())
        return Batch(**self._columns(taken.view(*index.shape, -1)))

    def sample(self, streams: SeedStreams, count: int) -> Batch:
        """Draws transitions of each seed, with replacement."""

        def fill(host: th.Tensor) -> None:
            host.copy_(th.from_numpy(streams.indices(self.sizes, count)))

        return self.take(streams.given(fill, (len(self._added), count), th.int64))

    def replace(self, name: str, seed: int, values: th.Tensor) -> None:
        """Overwrites the filled part of a field of one seed, other than discrete actions."""
        self.column(name, seed).copy_(values)

    def state_dict(self) -> dict[str, Any]:
        """The filled part of the buffer, on the CPU."""
        self.flush()
        columns = self._columns(self._table[:, : max(self.sizes)])
        return {
            "columns": {name: column.cpu().clone() for name, column in columns.items()},
            "added": list(self._added),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._waiting.clear()
        self._waiting_count = 0
        self._added = list(state["added"])
        size = state["columns"]["rewards"].shape[1]
        parts = th.split(self._table[:, :size], list(self._widths.values()), dim=-1)
        for part, name in zip(parts, self._widths, strict=True):
            part.copy_(state["columns"][name].reshape(part.shape))


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
    capacity = max(len(row["acts"]) for row in rows)
    store = TransitionStore(
        len(rows), capacity, first["obs"].shape[1], tuple(first["acts"].shape[1:]), device
    )
    for seed, own_rows in enumerate(rows):
        store.add(seed, own_rows)
    return store
