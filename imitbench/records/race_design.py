"""Designs of races, fixed before their first run, and the decisions that follow from them.

A race trains batches of seeds until each comparison is decided (`imitbench.stats.sequential`). Its
decisions hold their promise only if nothing about it is chosen after results are known. So the
design is a record with a hash, and every look follows from it and the scores alone.

Episodes decide about two given policies, as seeds decide about two methods: with the same looks,
tests and intervals. What they decide holds for these two policies alone, and says nothing about the
methods that made them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from imitbench.records.published import PublishedRun
from imitbench.records.runs import (
    AbbreviatedRecord,
    EnvironmentSpec,
    ReferenceScores,
    canonical_digest,
)
from imitbench.records.selection import Acting
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.normalization import normalize
from imitbench.stats.sequential import Look, Race, SequentialDesign, race, seeds_used
from imitbench.stats.spending import DEFAULT_EXPONENT
from imitbench.util.numbers import Finite

if TYPE_CHECKING:
    from typing_extensions import Self

FailedRuns = Literal["either", "count-as-random", "exclude"]
MOST_SEEDS, MOST_EPISODES, MOST_LOOKS = 10_000, 10_000, 500
LEAST_SHARE = 1e-10
"""Least part of alpha of a comparison: shares are rounded to twelve digits."""

SIDES = ("first", "second")
"""Names of the two policies of a race in looks and files."""

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class RacedCell(AbbreviatedRecord):
    """What one method trains on one environment.

    Attributes:
        label: Name of the method in reports, with its variant.
        setting: Digest of all that its cards, demonstrations and code contribute to the numbers
            (`RunSpec.setting`).
        budget: Name of the training budget; `None` if nothing is trained.
        n_demos: Number of demonstrations, or `all`; `None` without any.
        source: Where experts and demonstrations come from; `None` without any.
        demo_every: One step is kept out of so many of each; `None` for all steps. Serialized only
            if it is not `None`, as are the other two.
        demo_actions: `hidden` if the actions are removed; `None` if they are shown.
        mixture: Further trajectories, such as `medium:10,random:10`; `None` for none.
    """

    optional = ("demo_every", "demo_actions", "mixture")

    label: str
    setting: _Digest
    budget: str | None
    n_demos: int | Literal["all"] | None
    source: str | None
    demo_every: int | None = None
    demo_actions: str | None = None
    mixture: str | None = None


class _Design(AbbreviatedRecord):
    """What designs of seeds and of episodes have in common."""

    if TYPE_CHECKING:
        batch: int
        alpha: float
        margin: float
        spending: float
        replicates: int
        seed: int

    limit: ClassVar[str]
    """Name of the field with the largest number of seeds or episodes."""

    @model_validator(mode="after")
    def _has_possible_looks(self) -> Self:
        most = getattr(self, self.limit)
        if self.batch > most:
            raise ValueError(f"batch {self.batch} is above {self.limit} {most}")
        if math.ceil(most / self.batch) > MOST_LOOKS:
            raise ValueError(f"more than {MOST_LOOKS} looks; use larger batches")
        if self.alpha / self._comparisons < LEAST_SHARE:
            raise ValueError(f"alpha {self.alpha:g} is too small for {self._comparisons} tests")
        return self

    @property
    def _comparisons(self) -> int:
        """Number of the smallest shares of alpha that would be all of it."""
        return 1

    @property
    def digest(self) -> str:
        """Content hash: 64 hexadecimal digits."""
        return canonical_digest(self.model_dump(mode="json"))

    @property
    def sequential(self) -> SequentialDesign:
        """The part of the design that the statistics need."""
        return replace(
            SequentialDesign.batches(self.batch, getattr(self, self.limit)),
            alpha=self.alpha,
            margin=self.margin,
            exponent=self.spending,
            replicates=self.replicates,
            seed=self.seed,
        )


class RaceDesign(_Design):
    """Everything that determines when a race stops, and what it decides.

    The seeds of each cell are 0, 1, 2, … in this order.

    Attributes:
        schema_version: Raised when the same design leads to other decisions.
        suite: Name of the suite.
        pairs: Methods with their baselines.
        environments: Ids of the environments.
        cells: By method and environment.
        acting: Whose scores decide: those of `likely` actions alone, or of `both` ways of acting,
            which must agree. `None`, and not serialized, for sampled actions alone: designs of
            version 0.3 and earlier have no other.
        references: Returns of the scores 0 and 1, by environment; with `acting`, they state that of
            the expert's most likely actions.
        batch: Number of seeds from one look to the next.
        max_seeds: Largest number of seeds.
        alpha: Chance of any false difference, and of any false equivalence, in (0, 1).
        margin: Largest difference of scores that counts as none.
        spending: Exponent of the spending function (`imitbench.stats.spending`).
        statistic: What is tested: the mean score over environments.
        failed_runs: How failed runs count; `either`: no decision may depend on it.
        replicates: Least number of relabelings of a test, if they are drawn.
        seed: Seed of these.
    """

    limit = "max_seeds"
    optional = ("acting",)
    schema_version: Literal[1] = 1
    suite: str
    pairs: Annotated[list[tuple[str, str]], Field(min_length=1, max_length=1000)]
    environments: Annotated[list[str], Field(min_length=1, max_length=1000)]
    cells: dict[str, dict[str, RacedCell]]
    acting: Literal["likely", "both"] | None = None
    references: dict[str, ReferenceScores]
    batch: Annotated[int, Field(ge=2)]
    max_seeds: Annotated[int, Field(le=MOST_SEEDS)]
    alpha: Annotated[float, Field(gt=0, lt=1)]
    margin: Annotated[Finite, Field(gt=0)]
    spending: Annotated[Finite, Field(gt=0, le=10)] = DEFAULT_EXPONENT
    statistic: Literal["mean"] = "mean"
    failed_runs: FailedRuns = "either"
    replicates: Annotated[int, Field(ge=100, le=1_000_000)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _is_whole(self) -> RaceDesign:
        environments = set(self.environments)
        for method in {name for pair in self.pairs for name in pair}:
            if set(self.cells.get(method, ())) != environments:
                raise ValueError(f"cells.{method} does not have exactly the environments")
        if set(self.references) != environments:
            raise ValueError("references are not those of the environments")
        for env, scale in self.references.items():
            if self.acting is not None and scale.expert_likely is None:
                raise ValueError(f"references.{env} lacks expert_likely")
        return self

    @property
    def _comparisons(self) -> int:
        environments = len(self.environments)
        return len(self.pairs) * (2 * environments if environments > 1 else 1)

    @property
    def ways(self) -> tuple[Acting, ...]:
        """The ways of acting that must agree."""
        return ("sampled", "likely") if self.acting == "both" else (self.acting or "sampled",)

    @property
    def methods(self) -> list[str]:
        """All methods, each once, in the order of the pairs."""
        return list(dict.fromkeys(method for pair in self.pairs for method in pair))

    @property
    def title(self) -> str:
        """The pairs in words: `gail, sqil against bc`."""
        by_baseline: dict[str, list[str]] = {}
        for method, baseline in self.pairs:
            by_baseline.setdefault(baseline, []).append(method)
        groups: dict[str, list[str]] = {}
        for baseline, methods in by_baseline.items():
            groups.setdefault(", ".join(methods), []).append(baseline)
        return "; ".join(f"{new} against {', '.join(old)}" for new, old in groups.items())

    @property
    def sequential(self) -> SequentialDesign:
        """The part of the design that the statistics need."""
        policy = None if self.failed_runs == "either" else FailurePolicy(self.failed_runs)
        return replace(super().sequential, policy=policy)

    def has(self, run: PublishedRun) -> bool:
        """Whether a run is one that the design may ask for."""
        spec = run.spec
        cell = self.cells.get(spec.algo, {}).get(spec.environment.id)
        return cell is not None and (
            spec.suite == self.suite and spec.setting == cell.setting and spec.seed < self.max_seeds
        )

    def score(self, run: PublishedRun, acting: Acting) -> float | None:
        """Returns the score of a run of the design; `None` if it failed or its return diverged."""
        if run.result is None:
            return None
        scale, raw = self.references[run.spec.environment.id], run.result.headline(acting)
        one = scale.expert
        if acting == "likely":
            assert scale.expert_likely is not None, "the design was validated"
            one = scale.expert_likely
        score = normalize(raw, scale.random, one)
        return score if math.isfinite(score) else None

    def replay(self, runs: Iterable[PublishedRun]) -> Race:
        """Looks at all runs so far as the design says, from the first batch on.

        Runs that do not belong to the design are left out. A seed counts once all smaller ones have
        an outcome, whatever order they ended in.
        """
        known = {
            (run.spec.algo, run.spec.environment.id, run.spec.seed): run
            for run in runs
            if self.has(run)
        }
        scores: dict[str, dict[str, dict[str, list[float | None]]]] = {
            way: {method: {} for method in self.methods} for way in self.ways
        }
        for method, env in product(self.methods, self.environments):
            found: list[PublishedRun] = []
            while (method, env, len(found)) in known:
                found.append(known[method, env, len(found)])
            for way in self.ways:
                scores[way][method][env] = [self.score(run, way) for run in found]
        return race(scores, self.pairs, self.environments, self.sequential)

    def used(self, found: Race) -> dict[tuple[str, str], int]:
        """Returns the number of seeds that a race has asked for, by method and environment."""
        cells = product(self.methods, self.environments)
        used = seeds_used(found, cells, self.environments, self.sequential)
        if found.needed:
            asked = max(need.last for need in found.needed)
            used |= dict.fromkeys(self._racing(found), asked)
        return used

    def _racing(self, found: Race) -> Iterator[tuple[str, str]]:
        """Yields the methods and environments of comparisons that are open."""
        for pair in self.pairs:
            for env in self.environments:
                several = len(self.environments) > 1
                if found.is_open(pair, None) and (not several or found.is_open(pair, env)):
                    yield from ((method, env) for method in pair)


class RacedPolicy(AbbreviatedRecord):
    """A policy of a race.

    Attributes:
        label: Display name.
        digest: SHA-256 of its files.
        observation_keys: Where it finds its inputs, if the user said so; `None` otherwise.
    """

    optional = ("observation_keys",)
    label: str
    digest: _Digest
    observation_keys: dict[str, str] | None = None


class PolicyDesign(_Design):
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

    limit = "max_episodes"
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

    @property
    def title(self) -> str:
        """Both policies and the environment in words."""
        first, second = self.policies
        return f"{first.label} against {second.label} on {self.environment.id}"

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
            side: {env: [self.score(value) for value in own]}
            for side, own in zip(SIDES, returns, strict=True)
        }
        way = "likely" if self.deterministic else "sampled"
        return race({way: scores}, [SIDES], [env], self.sequential)
