"""Wrappers of environments as cards and records state them, with the range of each number.

`imitbench.envs.wrappers` has the wrappers themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from imitbench.cards.algorithm import Card
from imitbench.util.numbers import Finite

Steps = Annotated[int, Field(ge=1, le=1000)]


class ObservationNoise(Card):
    """Independent Gaussian noise on each number of each observation.

    Attributes:
        std: Standard deviation of the noise, in the units of the observation.
    """

    name: Literal["observation_noise"]
    std: Annotated[Finite, Field(gt=0)]

    def __str__(self) -> str:
        return f"noise of standard deviation {self.std:g} on observations"


class StickyActions(Card):
    """The environment repeats the action of the step before, from time to time.

    Source: Machado et al. 2018, "Revisiting the Arcade Learning Environment", arXiv:1709.06009.

    Attributes:
        probability: Probability of a repetition, in each step after the first of an episode.
    """

    name: Literal["sticky_actions"]
    probability: Annotated[Finite, Field(gt=0, lt=1)]

    def __str__(self) -> str:
        return f"actions that stick with probability {self.probability:g}"


class DelayedActions(Card):
    """Actions take effect some steps after they were chosen.

    Attributes:
        steps: Steps of the delay. Before the first action arrives, the environment gets zeros, or
            what of the action space is closest to them.
    """

    name: Literal["delayed_actions"]
    steps: Steps

    def __str__(self) -> str:
        return f"actions that are late by {self.steps} step{'s' * (self.steps > 1)}"


class RandomStart(Card):
    """Episodes begin after uniformly random actions, which count neither as steps nor as rewards.

    Attributes:
        steps: Largest number of these actions; each episode draws its own, from 0.
    """

    name: Literal["random_start"]
    steps: Steps

    def __str__(self) -> str:
        return f"up to {self.steps} random action{'s' * (self.steps > 1)} before each episode"


class FlattenObservation(Card):
    """Dictionaries of observations become one row of numbers, entry after entry, sorted by key.

    It disturbs nothing: environments that are no variants can have it, too.

    Attributes:
        entries: Keys of the entries that are kept; `null` for all.
    """

    name: Literal["flatten_observation"]
    entries: Annotated[list[str], Field(min_length=1)] | None = None

    def __str__(self) -> str:
        kept = "all entries" if self.entries is None else " and ".join(sorted(self.entries))
        return f"observations as one row of numbers: {kept}"


EnvironmentWrapper = Annotated[
    ObservationNoise | StickyActions | DelayedActions | RandomStart | FlattenObservation,
    Field(discriminator="name"),
]
"""One of the registered wrappers, with its arguments."""


def disturbances(wrappers: Sequence[EnvironmentWrapper]) -> list[EnvironmentWrapper]:
    """Returns those of the wrappers that change what happens in an environment."""
    return [wrapper for wrapper in wrappers if not isinstance(wrapper, FlattenObservation)]


def while_training(
    wrappers: Sequence[EnvironmentWrapper], evaluation_only: bool
) -> list[EnvironmentWrapper]:
    """Returns the wrappers of environments in which methods train.

    Args:
        wrappers: Those on a card or in a record.
        evaluation_only: Whether disturbances are only there in evaluations.
    """
    left_out = disturbances(wrappers) if evaluation_only else []
    return [wrapper for wrapper in wrappers if wrapper not in left_out]
