"""Sources of the trajectories whose fragments are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from imitbench.algorithms.base import HasLogger
from imitbench.data.types import TrajectoryWithRew
from imitbench.util import logger as imit_logger
from imitbench.util.util import oric


class TrajectoryGenerator(HasLogger, ABC):
    """A source of trajectories, perhaps with an agent to train.

    Args:
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(self, custom_logger: imit_logger.HierarchicalLogger | None = None) -> None:
        self.logger = custom_logger or imit_logger.configure()

    @abstractmethod
    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Returns trajectories.

        Args:
            steps: Least number of steps of all trajectories together.

        Returns:
            Trajectories with the environment's own rewards, not learned ones.
        """

    def train(self, steps: int, **kwargs: Any) -> None:
        """Trains the agent; by default there is none.

        Args:
            steps: Environment steps to train for.
            **kwargs: Options of the training.
        """
        del steps, kwargs  # there is no agent

    def state_dict(self) -> dict[str, Any]:
        """Everything that further use depends on; empty by default."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, in a generator with the same arguments."""
        del state  # nothing to restore


class TrajectoryDataset(TrajectoryGenerator):
    """A fixed set of trajectories.

    Args:
        trajectories: At least one.
        rng: Shuffles the trajectories for each sample.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: `trajectories` is empty.
    """

    def __init__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        if len(trajectories) == 0:
            raise ValueError("trajectories is empty; give at least one")
        super().__init__(custom_logger)
        self._trajectories = list(trajectories)
        self.rng = rng

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Draws whole trajectories without replacement until there are enough steps.

        Raises:
            RuntimeError: All trajectories together have fewer.
        """
        order = self.rng.permutation(len(self._trajectories))
        return first_with_steps([self._trajectories[i] for i in order], steps)

    def state_dict(self) -> dict[str, Any]:
        """State of the shuffling, without the trajectories."""
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, in a dataset of the same trajectories."""
        self.rng.bit_generator.state = state["rng"]


class TrajectoryMixture(TrajectoryGenerator):
    """A mixture of generators, for example of demonstrations and an agent.

    Args:
        generators: At least one. They get the mixture's logger.
        weights: Relative share of each in the sampled steps, positive; equal when `None`.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: There are no generators, their number differs from that of weights, or a weight
            is not positive.
    """

    def __init__(
        self,
        generators: Sequence[TrajectoryGenerator],
        weights: Sequence[float] | None = None,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        if len(generators) == 0:
            raise ValueError("generators is empty; give at least one")
        self.generators = list(generators)
        given = np.array([1.0] * len(generators) if weights is None else weights, dtype=np.float64)
        if given.shape != (len(generators),):
            raise ValueError(f"weights: {given.size} for {len(generators)} generators")
        if not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(f"weights must be positive numbers, not {given.tolist()}")
        self.weights = given / given.sum()
        # Last, because it passes the logger on to the generators.
        super().__init__(custom_logger)

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Samples from the generators in their order, from each according to its weight.

        Generators return whole trajectories, so each may exceed its share by up to one trajectory.

        Raises:
            RuntimeError: A generator has too few.
        """
        shares = _split(steps, self.weights)
        # Generators with a share of zero are called, too: an agent must clear its buffer.
        samples = [
            generator.sample(share)
            for generator, share in zip(self.generators, shares, strict=True)
        ]
        return [trajectory for sample in samples for trajectory in sample]

    def train(self, steps: int, **kwargs: Any) -> None:
        """Trains the generators that can be trained, for steps divided among them by weight."""
        learners = [i for i, generator in enumerate(self.generators) if can_train(generator)]
        if not learners:
            return
        weights = self.weights[learners]
        for index, share in zip(learners, _split(steps, weights / weights.sum()), strict=True):
            self.generators[index].train(share, **kwargs)

    def _pass_on_logger(self, logger: imit_logger.HierarchicalLogger) -> None:
        for generator in self.generators:
            generator.logger = logger

    def state_dict(self) -> dict[str, Any]:
        """States of all generators."""
        return {"generators": [generator.state_dict() for generator in self.generators]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, in a mixture of the same generators.

        Raises:
            ValueError: The state is of another number of generators.
        """
        states = state["generators"]
        if len(states) != len(self.generators):
            raise ValueError(f"state is of {len(states)} generators, not {len(self.generators)}")
        for generator, its_state in zip(self.generators, states, strict=True):
            generator.load_state_dict(its_state)


def can_train(generator: TrajectoryGenerator) -> bool:
    """Whether `train` of a generator does anything."""
    if isinstance(generator, TrajectoryMixture):
        return any(map(can_train, generator.generators))
    return type(generator).train is not TrajectoryGenerator.train


def first_with_steps(
    trajectories: Sequence[TrajectoryWithRew], steps: int
) -> Sequence[TrajectoryWithRew]:
    """The shortest prefix of trajectories with enough steps.

    Args:
        trajectories: Trajectories in order of priority.
        steps: Least number of steps; 0 gives no trajectory.

    Raises:
        RuntimeError: All together have fewer.
    """
    if steps <= 0:
        return []
    total = 0
    for number, trajectory in enumerate(trajectories, start=1):
        total += len(trajectory)
        if total >= steps:
            return trajectories[:number]
    raise RuntimeError(
        f"{steps} transitions were requested, but the {len(trajectories)} trajectories have only "
        f"{total}; use fewer comparisons or shorter fragments, or give more trajectories"
    )


def _split(steps: int, weights: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """Divides steps into whole numbers by weights of sum 1."""
    return [int(share) for share in oric(weights * steps)]
