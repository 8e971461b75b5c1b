"""Cuts trajectories into pairs of fragments to compare."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from imitbench.data.types import TrajectoryWithRew, TrajectoryWithRewPair
from imitbench.util.logger import HierarchicalLogger, configure


class Fragmenter(abc.ABC):
    """Makes pairs of fragments from trajectories.

    Args:
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(self, custom_logger: HierarchicalLogger | None = None) -> None:
        self.logger = custom_logger or configure()

    @abc.abstractmethod
    def __call__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        fragment_length: int,
        num_pairs: int,
    ) -> Sequence[TrajectoryWithRewPair]:
        """Makes pairs of fragments.

        Args:
            trajectories: Trajectories to cut fragments from.
            fragment_length: Steps in each fragment.
            num_pairs: Number of pairs to return.

        Returns:
            `num_pairs` pairs.
        """

    def state_dict(self) -> dict[str, Any]:
        """State that affects later calls; empty unless overridden."""
        return {}

    def load_state_dict(  # noqa: B027 (not every component has a state)
        self, state: Mapping[str, Any]
    ) -> None:
        """Restores what `state_dict` returned."""


class RandomFragmenter(Fragmenter):
    """Cuts fragments at random, with replacement.

    A trajectory is drawn with a probability proportional to its length, then a start uniformly
    among those that leave room for the fragment. A fragment lies within one episode. Therefore the
    first and last `fragment_length - 1` steps of an episode occur less often than others, and
    trajectories shorter than a fragment are never used.

    Args:
        rng: Draws the fragments.
        warning_threshold: Warn if there are fewer transitions than this factor times those needed;
            0 for no such warning. Fewer than needed always give a warning.
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        warning_threshold: int = 10,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger)
        self.rng = rng
        self.warning_threshold = warning_threshold

    def __call__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        fragment_length: int,
        num_pairs: int,
    ) -> Sequence[TrajectoryWithRewPair]:
        """Makes pairs of fragments.

        Args:
            trajectories: Trajectories to cut fragments from.
            fragment_length: Steps in each fragment, at least 1.
            num_pairs: Number of pairs to return.

        Returns:
            `num_pairs` pairs. Their arrays are views of the trajectories' arrays.

        Raises:
            ValueError: No trajectory is long enough, one has no rewards, or a number is out of
                range.
        """
        if fragment_length < 1:
            raise ValueError(f"fragment_length must be at least 1, not {fragment_length}")
        if num_pairs < 0:
            raise ValueError(f"num_pairs must not be negative, but is {num_pairs}")
        if num_pairs == 0:
            return []
        usable = self._long_enough(trajectories, fragment_length)
        lengths = np.array([len(trajectory) for trajectory in usable])
        available = int(lengths.sum())
        self._warn_if_few(available, 2 * num_pairs * fragment_length)
        sources = self.rng.choice(len(usable), size=2 * num_pairs, p=lengths / available)
        starts = self.rng.integers(0, lengths[sources] - fragment_length, endpoint=True)
        fragments = [
            _cut(usable[source], start, start + fragment_length)
            for source, start in zip(sources.tolist(), starts.tolist(), strict=True)
        ]
        return list(zip(fragments[::2], fragments[1::2], strict=True))

    def state_dict(self) -> dict[str, Any]:
        """State of the random generator."""
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.rng.bit_generator.state = state["rng"]

    def _long_enough(
        self, trajectories: Sequence[TrajectoryWithRew], fragment_length: int
    ) -> list[TrajectoryWithRew]:
        if not trajectories:
            raise ValueError("trajectories is empty; give at least one")
        for index, trajectory in enumerate(trajectories):
            if not isinstance(trajectory, TrajectoryWithRew):
                raise ValueError(
                    f"trajectories: number {index} has no rewards; give a TrajectoryWithRew"
                )
        usable = [each for each in trajectories if len(each) >= fragment_length]
        if not usable:
            longest = max(map(len, trajectories))
            raise ValueError(
                f"no trajectory is long enough for fragment_length {fragment_length}: the longest "
                f"has {longest} steps; set fragment_length to at most {longest}, or collect "
                "longer episodes"
            )
        discarded = len(trajectories) - len(usable)
        if discarded:
            self.logger.log(
                f"Skipped {discarded} of {len(trajectories)} trajectories: shorter than a "
                f"fragment of {fragment_length} steps."
            )
        return usable

    def _warn_if_few(self, available: int, needed: int) -> None:
        if available < needed:
            self.logger.warn(
                f"The fragments take {needed} transitions but only {available} are available: "
                "some will occur several times."
            )
        elif available < self.warning_threshold * needed:
            self.logger.warn(
                f"The fragments take {needed} transitions of only {available} available. They "
                "are drawn with replacement: many will occur several times."
            )


def _cut(trajectory: TrajectoryWithRew, start: int, end: int) -> TrajectoryWithRew:
    """Steps `start` to `end`, exclusive; terminal if they include the end of the episode."""
    return TrajectoryWithRew(
        obs=trajectory.obs[start : end + 1],
        acts=trajectory.acts[start:end],
        infos=None if trajectory.infos is None else trajectory.infos[start:end],
        terminal=bool(trajectory.terminal) and end == len(trajectory),
        rews=trajectory.rews[start:end],
    )
