"""Pairs of fragments as one batch of steps, for a single pass through a network."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.data.types import DictObs, Trajectory, TrajectoryPair, TrajectoryWithRew

Array = npt.NDArray[Any]

# Largest size of observations, in bytes, for which a whole dataset is joined in advance.
_LARGEST_JOINED = 2**28


@dataclass(frozen=True)
class JoinedSteps:
    """The concatenated steps of fragments.

    Attributes:
        obs: Observations, shape `(steps, *observation_shape)`.
        acts: Actions, shape `(steps, *action_shape)`.
        next_obs: Observations after the actions, same shape as `obs`.
        dones: Whether an episode ended there, shape `(steps,)`, bool.
        lengths: Steps of each fragment, shape `(fragments,)`, integers.
        rews: The environment's rewards, shape `(steps,)`; `None` unless all fragments have them.
    """

    obs: Array
    acts: Array
    next_obs: Array
    dones: Array
    lengths: Array
    rews: Array | None

    @functools.cached_property
    def common_length(self) -> int | None:
        """Steps per fragment if all have the same number, else `None`."""
        first = int(self.lengths[0])
        return first if bool((self.lengths == first).all()) else None

    @functools.cached_property
    def starts(self) -> Array:
        """The first step of each fragment, shape `(fragments,)`."""
        starts: Array = np.cumsum(self.lengths) - self.lengths
        return starts

    @functools.cached_property
    def encoded(self) -> WeakKeyDictionary[Any, th.Tensor]:
        """Cache of encoded steps, by network."""
        return WeakKeyDictionary()

    def of(self, values: Array, fragments: Array) -> Array:
        """Copies the entries of some fragments from an array with one entry per step."""
        if self.common_length is not None:  # a fragment at a time
            whole = values.reshape(len(self.lengths), -1)
            return np.take(whole, fragments, axis=0).reshape(-1, *values.shape[1:])
        lengths = self.lengths[fragments]
        starts = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(self.starts[fragments] - starts, lengths)
        taken: Array = np.take(values, rows, axis=0)
        return taken

    def returns(self, rewards: th.Tensor, discount_factor: float) -> th.Tensor:
        """Adds up the rewards of each fragment, see `FragmentBatch.returns`."""
        steps = len(self.dones)
        if len(rewards) != steps:
            raise ValueError(f"rewards has length {len(rewards)}, but there are {steps} steps")
        length = self.common_length
        if length is not None:
            by_fragment = rewards.reshape(len(self.lengths), length, *rewards.shape[1:])
            return discounted_sum(by_fragment, discount_factor)
        lengths = th.from_numpy(self.lengths)
        owner = th.repeat_interleave(lengths).to(rewards.device)
        if discount_factor != 1:
            step = np.arange(steps) - np.repeat(self.starts, self.lengths)
            weights = discount_factor ** th.from_numpy(step).to(rewards.device, rewards.dtype)
            rewards = rewards * weights.reshape(-1, *[1] * (rewards.ndim - 1))
        sums = rewards.new_zeros((len(lengths), *rewards.shape[1:]))
        return sums.index_add(0, owner, rewards)

    @functools.cached_property
    def _true_returns(self) -> dict[float, th.Tensor]:
        return {}

    def true_returns(self, discount_factor: float) -> th.Tensor | None:
        """Returns by the environment's rewards, shape `(fragments,)`, float64, or `None`."""
        if self.rews is None:
            return None
        if discount_factor not in self._true_returns:
            rews = th.from_numpy(self.rews.astype(np.float64))
            self._true_returns[discount_factor] = self.returns(rews, discount_factor)
        return self._true_returns[discount_factor]


class FragmentBatch:
    """The steps of `n` pairs of fragments: all first fragments, then all second ones.

    If they are a part of `joined`, they are copied on first use.

    Args:
        joined: Steps of these fragments, or of a superset.
        fragments: Indices of these fragments in `joined`, shape `(2n,)`; pair `i` has entries `i`
            and `n + i`. `None` for all, in order.
    """

    def __init__(self, joined: JoinedSteps, fragments: Array | None = None) -> None:
        self.joined = joined
        self.fragments = fragments

    @functools.cached_property
    def steps(self) -> JoinedSteps:
        """The steps of these fragments only."""
        joined, fragments = self.joined, self.fragments
        if fragments is None:
            return joined
        return JoinedSteps(
            obs=joined.of(joined.obs, fragments),
            acts=joined.of(joined.acts, fragments),
            next_obs=joined.of(joined.next_obs, fragments),
            dones=joined.of(joined.dones, fragments),
            lengths=self.lengths,
            rews=None if joined.rews is None else joined.of(joined.rews, fragments),
        )

    @property
    def lengths(self) -> Array:
        """Steps of each fragment, shape `(2n,)`, integers."""
        lengths = self.joined.lengths
        return lengths if self.fragments is None else lengths[self.fragments]

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.joined.lengths if self.fragments is None else self.fragments) // 2

    def returns(self, rewards: th.Tensor, discount_factor: float = 1.0) -> th.Tensor:
        """Adds up the rewards of each fragment, `sum_t discount_factor**t * rewards[t]`.

        Args:
            rewards: A reward per step, shape `(steps,)` or `(steps, members)`.
            discount_factor: Weight of a step relative to the one before it.

        Returns:
            Shape `(2n,)` or `(2n, members)`, in the order of `lengths`.

        Raises:
            ValueError: There is not one reward per step.
        """
        return self.steps.returns(rewards, discount_factor)

    def true_returns(self, discount_factor: float = 1.0) -> th.Tensor | None:
        """Computes returns by the environment's rewards.

        Args:
            discount_factor: Weight of a step relative to the one before it.

        Returns:
            Shape `(2n,)`, float64, on the CPU; `None` if a fragment has no rewards.
        """
        returns = self.joined.true_returns(discount_factor)
        if returns is None or self.fragments is None:
            return returns
        return returns[th.from_numpy(self.fragments)]

    def take(self, pairs: Array) -> FragmentBatch:
        """Selects pairs, in the given order.

        Args:
            pairs: Indices of pairs, integers; may have duplicates.
        """
        fragments = np.concatenate([pairs, pairs + self.n_pairs])
        return FragmentBatch(
            self.joined, fragments if self.fragments is None else self.fragments[fragments]
        )


class FragmentPairs(Sequence[TrajectoryPair]):
    """Pairs of fragments with their steps as one batch, which is joined on first use.

    Args:
        pairs: Pairs of fragments.
        join: Faster function that joins the steps; `None` to join those of `pairs`.
    """

    def __init__(
        self, pairs: Sequence[TrajectoryPair], join: Callable[[], FragmentBatch] | None = None
    ) -> None:
        self._pairs = pairs
        self._join = join

    @functools.cached_property
    def batch(self) -> FragmentBatch:
        """The steps of all pairs.

        Raises:
            ValueError: As `stack_fragments`.
        """
        return self._join() if self._join is not None else _join(self._pairs)

    @property
    def common_length(self) -> int | None:
        """Steps per fragment if all have the same number, else `None`."""
        lengths = {len(fragment.acts) for pair in self._pairs for fragment in pair}
        return lengths.pop() if len(lengths) == 1 else None

    @functools.cached_property
    def _is_joined_whole(self) -> bool:
        return observation_bytes(self._pairs) <= _LARGEST_JOINED

    def take(self, indices: Array) -> FragmentPairs:
        """Selects pairs, in the given order.

        Their steps are taken from those of all pairs, unless joining all needs much memory.

        Args:
            indices: Indices of pairs, integers; may have duplicates.
        """
        pairs = [self._pairs[index] for index in indices]
        if not self._is_joined_whole:
            return FragmentPairs(pairs)
        return FragmentPairs(pairs, lambda: self.batch.take(indices))

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self._pairs)

    @overload
    def __getitem__(self, key: int) -> TrajectoryPair: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[TrajectoryPair]: ...

    def __getitem__(self, key: int | slice) -> TrajectoryPair | Sequence[TrajectoryPair]:
        return self._pairs[key]


AnyPairs = Sequence[TrajectoryPair] | FragmentBatch
"""Pairs of fragments, or their joined steps."""


def stack_fragments(fragment_pairs: AnyPairs) -> FragmentBatch:
    """Joins the steps of pairs of fragments.

    Args:
        fragment_pairs: At least one pair. Steps that are already joined are reused.

    Returns:
        The steps; with true rewards if all fragments have them.

    Raises:
        ValueError: There are no pairs, the fragments of a pair differ in length, observations are
            dictionaries, or rewards are not one finite number per step. The message names the pair.
    """
    if isinstance(fragment_pairs, FragmentBatch):
        return fragment_pairs
    if isinstance(fragment_pairs, FragmentPairs):
        return fragment_pairs.batch
    return _join(fragment_pairs)


def discounted_sum(rewards: th.Tensor, discount_factor: float, dim: int = 1) -> th.Tensor:
    """Adds up rewards along a dimension, the `t`-th weighted by `discount_factor**t`."""
    if discount_factor == 1:
        return rewards.sum(dim)
    shape = [1] * rewards.ndim
    shape[dim] = -1
    return (discounts(rewards.shape[dim], discount_factor, rewards).reshape(shape) * rewards).sum(
        dim
    )


def discounts(length: int, discount_factor: float, like: th.Tensor) -> th.Tensor:
    """Powers 0, 1, … of a discount factor, shape `(length,)`; device and dtype as `like`."""
    return discount_factor ** th.arange(length, device=like.device, dtype=like.dtype)


def observation_bytes(pairs: Sequence[TrajectoryPair]) -> int:
    """Size of the observations of pairs of fragments in bytes; assumes equal shapes."""
    if not len(pairs) or isinstance(pairs[0][0].obs, DictObs):
        return 0
    steps = sum(len(first.acts) + len(second.acts) for first, second in pairs)
    return steps * int(pairs[0][0].obs[0].nbytes)


def _join(pairs: Sequence[TrajectoryPair]) -> FragmentBatch:
    if not len(pairs):
        raise ValueError("fragment_pairs is empty; give at least one pair of fragments")
    fragments = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    acts = [fragment.acts for fragment in fragments]
    lengths = np.array([len(act) for act in acts])
    _check_lengths(lengths)
    if DictObs in {type(fragment.obs) for fragment in fragments}:
        raise ValueError(
            "fragment_pairs: dictionary observations are not supported by reward networks; "
            "flatten them first"
        )
    dones = np.zeros(lengths.sum(), dtype=bool)
    dones[np.cumsum(lengths) - 1] = [fragment.terminal for fragment in fragments]
    obs, next_obs = _join_observations([cast(Array, fragment.obs) for fragment in fragments])
    joined = JoinedSteps(
        obs=obs,
        acts=np.concatenate(acts),
        next_obs=next_obs,
        dones=dones,
        lengths=lengths,
        rews=_join_rewards(fragments, lengths),
    )
    return FragmentBatch(joined)


def _check_lengths(lengths: Array) -> None:
    first, second = lengths.reshape(2, -1)
    if (first != second).any():
        bad = int((first != second).argmax())
        raise ValueError(
            f"pair {bad}: its fragments have {first[bad]} and {second[bad]} steps, so their "
            "returns cannot be compared; give fragments of the same length"
        )


def _join_observations(observations: list[Array]) -> tuple[Array, Array]:
    """All observations except the last of each fragment, and all except the first."""
    rows = len(observations[0])
    if any(len(observation) != rows for observation in observations):
        obs: Array = np.concatenate([observation[:-1] for observation in observations])
        return obs, np.concatenate([observation[1:] for observation in observations])
    # Hundreds of small slices take longer than another copy of everything.
    whole: Array = np.concatenate(observations)
    by_fragment = whole.reshape(len(observations), rows, *whole.shape[1:])
    return (
        by_fragment[:, :-1].reshape(-1, *whole.shape[1:]),
        by_fragment[:, 1:].reshape(-1, *whole.shape[1:]),
    )


def _join_rewards(fragments: Sequence[Trajectory], lengths: Array) -> Array | None:
    if not all(
        issubclass(kind, TrajectoryWithRew) for kind in {type(fragment) for fragment in fragments}
    ):
        return None
    rewards: list[Array] = [
        fragment.rews for fragment in cast("list[TrajectoryWithRew]", fragments)
    ]
    pairs = len(fragments) // 2
    shapes = [own.shape for own in rewards]
    needed = [(length,) for length in lengths.tolist()]
    if shapes != needed:
        bad = next(index for index in range(2 * pairs) if shapes[index] != needed[index])
        raise ValueError(
            f"pair {bad % pairs}: rewards of shape {shapes[bad]} for a fragment of "
            f"{lengths[bad]} steps; give one reward per step"
        )
    joined: Array = np.concatenate(rewards)
    if not np.isfinite(joined).all():
        bad = next(index for index, own in enumerate(rewards) if not np.isfinite(own).all())
        raise ValueError(
            f"pair {bad % pairs}: its {'second' if bad >= pairs else 'first'} fragment has a "
            "reward that is not finite; fix the environment's reward or leave the pair out"
        )
    return joined
