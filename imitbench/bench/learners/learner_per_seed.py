"""Methods whose packs have a learner for each seed, with PPO of all seeds as one network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from imitbench.bench.learner import PackedLearner
from imitbench.errors import InputError
from imitbench.rl.packed_ppo import OwnGenerators, why_not_packed
from imitbench.rl.ppo import PPO

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy
    from typing_extensions import Self


class LearnerPerSeed(PackedLearner):
    """A learner of one seed, which in a pack is that of the first, and trains the others, too.

    Attributes:
        randomness: Global generators of each seed of a pack.
    """

    curves: Sequence[list[Mapping[str, float]]] = ()
    randomness: Sequence[OwnGenerators] = ()
    _others: Sequence[Self] = ()

    def of_seeds(self) -> Sequence[Self]:
        """The learner of each seed."""
        return [self, *self._others]

    def policies(self) -> Sequence[BasePolicy]:
        """The policy of each seed."""
        return [member.policy() for member in self.of_seeds()]

    def set_up_members(self, count: int, set_up: Callable[[int, Self], None]) -> None:
        """Makes the learners of all seeds, each with its own global generators.

        Args:
            count: Number of seeds.
            set_up: Sets up the learner of a seed, given the seed's number, from 0.
        """
        self._others = [copy.deepcopy(self) for _ in range(count - 1)]
        self.curves = [[] for _ in self._others]
        self.randomness = [OwnGenerators() for _ in range(count)]
        for number, (member, own) in enumerate(zip(self.of_seeds(), self.randomness, strict=True)):
            with own.in_use():
                set_up(number, member)

    def add_points(self, step: int, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Adds a point to the curves of all other seeds; returns the metrics of the first."""
        first, *others = metrics
        for curve, own in zip(self.curves, others, strict=True):
            curve.append({"step": step, **own})
        return dict(first)


def check_packs(ppo: PPO) -> None:
    """Checks that PPO can be trained as one network with that of other seeds.

    Raises:
        InputError: It cannot.
    """
    reason = why_not_packed(ppo)
    if reason is not None:
        raise InputError(
            f"--pack: PPO cannot train several seeds as one network, because {reason}; "
            "remove the cause, or omit --pack"
        )
