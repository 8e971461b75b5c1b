"""Whole episodes of learner and expert, for methods that learn from trajectories."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import Batch, TransitionStore

Array = npt.NDArray[Any]


class Episode(NamedTuple):
    """An episode by the rows of its transitions in a store.

    Attributes:
        rows: Rows in the order of time, shape (steps,), int64.
        absorbed: Whether the last one is the transition inside the absorbing state.
    """

    rows: Array
    absorbed: bool

    def weights(self, horizon: int, discount: float) -> Array:
        """How much each transition counts in a sum over the horizon.

        Step t counts `discount ** t`. An episode that is absorbed stays so until the horizon, and
        its last row stands for all of these steps.

        Args:
            horizon: Steps of a trajectory, T.
            discount: Discount factor.

        Returns:
            Shape (steps,), float64.
        """
        weights = np.power(discount, np.arange(len(self.rows), dtype=np.float64))
        if self.absorbed:
            weights[-1] = np.power(discount, np.arange(len(self.rows) - 1, horizon)).sum()
        return weights


@dataclass(frozen=True)
class Trajectories:
    """As many trajectories of each seed, filled up to the length of the longest.

    Attributes:
        batch: Transitions of each seed: all of its first trajectory, then of the second, and so on.
        weights: How much each transition counts, 0 for those that fill up; shape (seeds,
            trajectories, length), float32.
    """

    batch: Batch
    weights: th.Tensor

    def sums(self, values: th.Tensor) -> th.Tensor:
        """Weighted sums along each trajectory.

        Args:
            values: One of each transition, shape (seeds, trajectories * length).

        Returns:
            Shape (seeds, trajectories).
        """
        return (self.weights * values.view_as(self.weights)).sum(dim=-1)

    def mean(self, values: th.Tensor) -> th.Tensor:
        """Weighted means over all trajectories of each seed, shape (seeds,); `values` as above."""
        return self.sums(values).sum(dim=1) / self.weights.sum(dim=(1, 2))

    def sample(self, streams: SeedStreams, count: int) -> Batch:
        """Draws transitions of each seed, with probabilities proportional to their weights.

        Args:
            streams: Randomness of each seed.
            count: Transitions of each seed.
        """
        ends = self.weights.flatten(1).double().cumsum(dim=1)
        threshold = streams.uniform(count).double() * ends[:, -1:]
        index = th.searchsorted(ends, threshold, right=True)
        seeds = th.arange(len(index), device=index.device).unsqueeze(1)
        columns = (getattr(self.batch, field.name) for field in fields(Batch))
        return Batch(*(column[seeds, index] for column in columns))


def take_trajectories(
    store: TransitionStore,
    episodes: Sequence[Sequence[Episode]],
    horizon: int,
    discount: float = 1.0,
) -> Trajectories:
    """Takes episodes out of a store.

    Args:
        store: Where their transitions are.
        episodes: As many of each seed.
        horizon: See `Episode.weights`.
        discount: See `Episode.weights`.
    """
    longest = max(len(episode.rows) for own in episodes for episode in own)
    shape = len(episodes), len(episodes[0]), longest
    index, weights = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    for seed, own in enumerate(episodes):
        for number, episode in enumerate(own):
            steps = len(episode.rows)
            index[seed, number, :steps] = episode.rows
            weights[seed, number, :steps] = episode.weights(horizon, discount)
    batch = store.take(index.reshape(shape[0], -1))
    return Trajectories(batch, th.from_numpy(weights).to(batch.obs.device))


def demonstrated_episodes(rows: Mapping[str, Array], absorbing: bool) -> list[Episode]:
    """Episodes of demonstrations in the store of `encoded_demonstrations`.

    Args:
        rows: From `expert_transitions`, n of them.
        absorbing: Whether transitions inside the absorbing state follow them.
    """
    count = len(rows["dones"])
    ended = rows["dones"].astype(bool) & ~rows["timeouts"]
    loops = count - 1 + np.cumsum(ended)
    found = []
    for steps in np.split(np.arange(count), np.flatnonzero(rows["starts"])[1:]):
        absorbed = absorbing and bool(ended[steps[-1]])
        found.append(Episode(np.append(steps, loops[steps[-1]]) if absorbed else steps, absorbed))
    return found


class RecentEpisodes:
    """The learner's latest episodes of each seed, by the numbers of their transitions.

    Numbers count all transitions that a seed ever had; a ring buffer keeps them modulo capacity.

    Args:
        seeds: Number of seeds.
        n_envs: Environments of each seed.
        kept: Whole episodes of each seed that are kept.
    """

    def __init__(self, seeds: int, n_envs: int, kept: int) -> None:
        self._running: list[list[list[int]]] = [[[] for _ in range(n_envs)] for _ in range(seeds)]
        self._whole: list[deque[Episode]] = [deque(maxlen=kept) for _ in range(seeds)]

    def add(self, seed: int, first: int, ended: Array, absorbed: Array) -> None:
        """Notes a step of every environment of a seed.

        Args:
            seed: Number of the seed, from 0.
            first: Number of the first environment's transition; those of the others follow, then
                those inside the absorbing state.
            ended: Whether the episode of each environment ended, shape (n_envs,), bool.
            absorbed: Whether it ended in the absorbing state, of the same shape.
        """
        loop = first + len(ended)
        for number, running in enumerate(self._running[seed]):
            running.append(first + number)
            if not ended[number]:
                continue
            if absorbed[number]:
                running.append(loop)
                loop += 1
            self._whole[seed].append(Episode(np.array(running), bool(absorbed[number])))
            running.clear()

    def latest(self, seed: int, oldest: int, capacity: int) -> list[Episode]:
        """Whole episodes, the oldest first; before the first one has ended, the running ones.

        Args:
            seed: Number of the seed, from 0.
            oldest: First number that is not overwritten; what an episode had before is left out.
            capacity: Transitions of the seed that the store holds.
        """
        running = [Episode(np.array(rows, np.int64), False) for rows in self._running[seed]]
        for episodes in (self._whole[seed], running):
            kept = [
                Episode(rows[rows >= oldest] % capacity, absorbed) for rows, absorbed in episodes
            ]
            found = [episode for episode in kept if len(episode.rows)]
            if found:
                return found
        raise AssertionError("the latest step is never overwritten")

    def state_dict(self) -> dict[str, Any]:
        """Numbers of the transitions."""
        return {
            "running": [[np.array(rows, np.int64) for rows in own] for own in self._running],
            "whole": [
                [(episode.rows.copy(), episode.absorbed) for episode in own] for own in self._whole
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._running = [[np.array(rows).tolist() for rows in own] for own in state["running"]]
        for episodes, own in zip(self._whole, state["whole"], strict=True):
            episodes.clear()
            episodes.extend(Episode(np.array(rows), bool(absorbed)) for rows, absorbed in own)
