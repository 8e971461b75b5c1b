"""The design of a race between two given policies, fixed before its first episode.

Episodes decide about two policies, as seeds decide about two methods
(`imitbench.records.race_design`): with the same looks, tests and intervals. What they decide holds
for these two policies alone, and says nothing about the methods that made them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from imitbench.records.race_design import MOST_LOOKS
from imitbench.records.runs import EnvironmentSpec, Record, ReferenceScores, canonical_digest
from imitbench.stats.sequential import Look, Race, SequentialDesign, race
from imitbench.stats.spending import DEFAULT_EXPONENT
from imitbench.util.numbers import Finite

MOST_EPISODES = 10_000
SIDES = ("first", "second")
"""Names of the two policies in looks and files."""


class RacedPolicy(Record):
    """A policy of a race.

    Attributes:
        label: Display name.
        digest: SHA-256 of its files.
    """

    label: str
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PolicyDesign(Record):
    """Everything that determines when a race of two policies stops, and what it decides.

    Attributes:
        schema_version: Raised when the same design leads to other decisions.
        policies: Both policies; the verdict is about the first.
        environment: The environment.
        references: Returns of the scores 0 and 1; `None` if returns are compared as they are.
        deterministic: Whether policies take their most likely action.
        batch: Number of episodes of each policy from one look to the next.
        max_episodes: Largest number of episodes of each.
        alpha: Chance of any false difference, and of any false equivalence, in (0, 1).
        margin: Largest difference that counts as none, as a score or, without references, a return.
        spending: Exponent of the spending function (`imitbench.stats.spending`).
        replicates: Least number of relabelings of a test, if they are drawn.
        seed: Seed of episodes, sampled actions and relabelings.
    """

    schema_version: Literal[1] = 1
    policies: Annotated[list[RacedPolicy], Field(min_length=2, max_length=2)]
    environment: EnvironmentSpec
    references: ReferenceScores | None
    deterministic: bool
    batch: Annotated[int, Field(ge=2)]
    max_episodes: Annotated[int, Field(le=MOST_EPISODES)]
    alpha: Annotated[float, Field(gt=0, lt=1)]
    margin: Annotated[Finite, Field(gt=0)]
    spending: Annotated[Finite, Field(gt=0, le=10)] = DEFAULT_EXPONENT
    replicates: Annotated[int, Field(ge=100, le=1_000_000)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _is_whole(self) -> PolicyDesign:
        if self.batch > self.max_episodes:
            raise ValueError(f"batch {self.batch} is above max_episodes {self.max_episodes}")
        if math.ceil(self.max_episodes / self.batch) > MOST_LOOKS:
            raise ValueError(f"more than {MOST_LOOKS} looks; use larger batches")
        return self

    @property
    def digest(self) -> str:
        """Content hash: 64 hexadecimal digits."""
        return canonical_digest(self.model_dump(mode="json"))

    @property
    def title(self) -> str:
        """Both policies and the environment in words."""
        first, second = self.policies
        return f"{first.label} against {second.label} on {self.environment.id}"

    @property
    def sequential(self) -> SequentialDesign:
        """The part of the design that the statistics need."""
        return replace(
            SequentialDesign.batches(self.batch, self.max_episodes),
            alpha=self.alpha,
            margin=self.margin,
            exponent=self.spending,
            replicates=self.replicates,
            seed=self.seed,
        )

    def episodes_in(self, look: int) -> int:
        """Returns the number of episodes of each policy between a look and the one before."""
        looks = self.sequential.looks
        return looks[look] - (looks[look - 1] if look else 0)

    def episodes_at(self, look: Look) -> int:
        """Returns the number of episodes of each policy at a look."""
        return self.sequential.looks[look.look]

    def score(self, episode_return: float) -> float:
        """Returns the score of an episode's return; the return itself without references."""
        return episode_return if self.references is None else self.references.score(episode_return)

    def replay(self, returns: Sequence[Sequence[float]]) -> Race:
        """Looks at all episodes so far as the design says, from the first batch on.

        Args:
            returns: Finite returns of the episodes of both policies, in their order.
        """
        env = self.environment.id
        scores = {
            side: {env: [self.score(each) for each in own]}
            for side, own in zip(SIDES, returns, strict=True)
        }
        return race(scores, [SIDES], [env], self.sequential)
