"""Where the trajectories come from whose fragments are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from imitbench.data.types import TrajectoryWithRew
from imitbench.util import logger as imit_logger
from imitbench.util.util import oric


class TrajectoryGenerator(ABC):
    """A source of trajectories, which may learn.

    Args:
        custom_logger: Where to log; a new logger when `None`.
    """

    _logger: imit_logger.HierarchicalLogger

    def __init__(self, custom_logger: imit_logger.HierarchicalLogger | None = None) -> None:
        self.logger = custom_logger or imit_logger.configure()

    @abstractmethod
    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Gives trajectories.

        Args:
            steps: Least number of steps, over all of them.

        Returns:
            Trajectories with the environment's own rewards, not learned ones.
        """

    def train(self, steps: int, **kwargs: Any) -> None:
        """Trains the agent behind the trajectories; here there is none.

        Args:
            steps: Environment steps to train for.
            **kwargs: For the procedure of training.
        """
        del steps, kwargs  # nothing here learns

    @property
    def logger(self) -> imit_logger.HierarchicalLogger:
        """Where the generator logs."""
        return self._logger

    @logger.setter
    def logger(self, value: imit_logger.HierarchicalLogger) -> None:
        self._logger = value

    def state_dict(self) -> dict[str, Any]:
        """Everything that further use depends on; here, nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned to a generator with the same arguments."""
        del state  # nothing was kept


class TrajectoryDataset(TrajectoryGenerator):
    """Trajectories that are given once and for all.

    Args:
        trajectories: The trajectories.
        rng: Shuffles them anew for each sample.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: There are no trajectories.
    """

    def __init__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        if len(trajectories) == 0:
            raise ValueError("trajectories: there are none to sample from")
        super().__init__(custom_logger)
        self._trajectories = list(trajectories)
        self.rng = rng

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Draws whole trajectories without replacement until there are enough steps.

        Args:
            steps: Least number of steps.

        Raises:
            RuntimeError: All trajectories together have fewer.
        """
        order = self.rng.permutation(len(self._trajectories))
        return first_with_steps([self._trajectories[i] for i in order], steps)

    def state_dict(self) -> dict[str, Any]:
        """State of the shuffling; the trajectories are the caller's to keep."""
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned to a dataset of the same trajectories."""
        self.rng.bit_generator.state = state["rng"]


class TrajectoryMixture(TrajectoryGenerator):
    """Several generators side by side, for example demonstrations beside an agent.

    Args:
        generators: The generators, one at least. They get the mixture's logger.
        weights: Share of each in the steps of a sample, all positive, of any sum; equal when
            `None`.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: No generators, another number of weights, or weights that are not positive.
    """

    def __init__(
        self,
        generators: Sequence[TrajectoryGenerator],
        weights: Sequence[float] | None = None,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        if len(generators) == 0:
            raise ValueError("generators: there are none to mix")
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
        """Asks each generator for its share.

        Args:
            steps: Least number of steps. Each generator gives whole trajectories, so that
                shares are exceeded by up to a trajectory each.

        Returns:
            The trajectories, in order of the generators.

        Raises:
            RuntimeError: A generator has too few.
        """
        shares = _split(steps, self.weights)
        # Those with a share of zero are asked too: an agent must clear its buffer.
        samples = [each.sample(share) for each, share in zip(self.generators, shares, strict=True)]
        return [trajectory for sample in samples for trajectory in sample]

    def train(self, steps: int, **kwargs: Any) -> None:
        """Trains the generators that can be trained.

        Args:
            steps: Environment steps, over all of them; divided by their weights.
            **kwargs: Passed on to each.
        """
        learners = [i for i, each in enumerate(self.generators) if can_train(each)]
        if not learners:
            return
        weights = self.weights[learners]
        for index, share in zip(learners, _split(steps, weights / weights.sum()), strict=True):
            self.generators[index].train(share, **kwargs)

    @property
    def logger(self) -> imit_logger.HierarchicalLogger:
        """Where the mixture and its generators log."""
        return self._logger

    @logger.setter
    def logger(self, value: imit_logger.HierarchicalLogger) -> None:
        self._logger = value
        for each in self.generators:
            each.logger = value

    def state_dict(self) -> dict[str, Any]:
        """States of all generators."""
        return {"generators": [each.state_dict() for each in self.generators]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned to a mixture of the same generators.

        Raises:
            ValueError: The state is of another number of generators.
        """
        states = state["generators"]
        if len(states) != len(self.generators):
            raise ValueError(
                f"state is of {len(states)} generators, but there are {len(self.generators)}"
            )
        for each, its_state in zip(self.generators, states, strict=True):
            each.load_state_dict(its_state)


def can_train(generator: TrajectoryGenerator) -> bool:
    """Whether `train` does anything."""
    if isinstance(generator, TrajectoryMixture):
        return any(map(can_train, generator.generators))
    return type(generator).train is not TrajectoryGenerator.train


def first_with_steps(
    trajectories: Sequence[TrajectoryWithRew], steps: int
) -> Sequence[TrajectoryWithRew]:
    """As many trajectories, from the first on, as it takes to have enough steps.

    Args:
        trajectories: The trajectories.
        steps: Least number of steps; none give no trajectory.

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
        f"{steps} transitions were asked for, but the {len(trajectories)} trajectories have only "
        f"{total}: ask for fewer comparisons or shorter fragments, or give more trajectories"
    )


def _split(steps: int, weights: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """Divides steps by weights of sum 1 into whole numbers."""
    return [int(share) for share in oric(weights * steps)]
