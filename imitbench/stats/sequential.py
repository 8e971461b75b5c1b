"""Decides comparisons after each batch of seeds, with the error of a single test.

A race trains a batch of seeds of each method, looks, drops what is decided, and goes on. Each look
tests at the nominal level that a spending function gives (`imitbench.stats.spending`), with the
test of all verdicts (`imitbench.stats.mean_test`), and forms the repeated confidence interval at
the same level. Several pairs and environments share the level by Holm's method, so that the chance
of any false decision, in all looks, pairs and environments together, stays at alpha:

- Overall decisions and those on environments have one half of it each; with one environment there
  are no separate ones.
- What is decided passes its share on to the rest. Levels only grow by that, and a race that used
  the smaller ones until now rejects less than one with the greater ones from the start.
- `better`, `worse` and `equivalent` may be false in one way at most for each comparison: a
  difference is either 0, or at least the margin, or neither. So one share protects all three.

Everything is computed from the scores alone, in the order of seeds. There is no state: the same
scores always lead to the same looks and decisions.

Source: Jennison and Turnbull 1989, "Interim Analyses: The Repeated Confidence Interval Approach";
Lan and DeMets 1983; Holm 1979; Maurer and Bretz 2013, "Multiple Testing in Group Sequential Trials
Using Graphical Approaches". Mathieu et al. 2024, "AdaStop", decides in such a way with permutations
of plain differences, and without equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.mean_test import mean_test
from imitbench.stats.significance import welch
from imitbench.stats.spending import LINEAR, nominal_levels
from imitbench.stats.strata import FloatArray

Outcome: TypeAlias = Literal["better", "worse", "equivalent", "undecided"]

Pair: TypeAlias = tuple[str, str]
"""A method and its baseline."""

Runs: TypeAlias = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Scores by method and environment in the order of seeds; `None` is a failed run."""

EQUIVALENCE_RUNS = 10
"""Runs of each side on each environment without which nothing is called equivalent."""


@dataclass(frozen=True)
class SequentialDesign:
    """What a race may do, fixed before its first run.

    Attributes:
        looks: Number of seeds of each method on each environment at each look, ascending.
        alpha: Chance of any false decision, in (0, 1).
        margin: Largest difference of scores that counts as none; `None` to never decide so.
        exponent: Of the spending function, see `nominal_levels`.
        policy: How failed runs count; `None` if a decision must not depend on it.
        replicates: Least number of relabelings, if they are drawn.
        seed: Seed of these.
    """

    looks: tuple[int, ...]
    alpha: float = 0.05
    margin: float | None = 0.05
    exponent: float = LINEAR
    policy: FailurePolicy | None = None
    replicates: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            ValueError: Looks do not ascend, or a number is out of range.
        """
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise ValueError(f"margin must be positive, not {self.margin}")
        if not self.looks or any(
            before >= now for before, now in zip((1, *self.looks), self.looks, strict=False)
        ):
            raise ValueError(f"looks must ascend from at least 2 seeds, not {self.looks}")
        nominal_levels(self.fractions, self.alpha, self.exponent)

    @classmethod
    def batches(cls, batch: int, most: int) -> SequentialDesign:
        """Makes a design that looks after each batch of seeds; the last may be smaller.

        Raises:
            ValueError: A batch has fewer than two seeds, or more than there may be.
        """
        if not 2 <= batch <= most:
            raise ValueError(f"a batch needs 2 to {most} seeds, not {batch}")
        return cls(looks=(*range(batch, most, batch), most))

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of all seeds at each look."""
        return tuple(look / self.looks[-1] for look in self.looks)


@dataclass(frozen=True)
class Look:
    """What one look says about a pair, overall or on an environment.

    Attributes:
        pair: The method and its baseline.
        environment: Id of the environment; `None` overall.
        look: Number of the look, from 0.
        runs: Runs of both, summed over environments.
        level: Nominal two-sided level of test and interval.
        p_value: Of the test; a lower bound of it where that alone is above `level`.
        difference: Mean of the method less that of the baseline; environments weigh equally.
        low: Lower end of the repeated confidence interval; NaN if the spread is unknown.
        high: Upper end.
        outcome: Decision at this look.
    """

    pair: Pair
    environment: str | None
    look: int
    runs: tuple[int, int]
    level: float
    p_value: float
    difference: float
    low: float
    high: float
    outcome: Outcome


@dataclass(frozen=True)
class Needed:
    """Seeds that the next look needs.

    Attributes:
        method: Name of the method.
        environment: Id of the environment.
        first: The first seed's place that is missing.
        last: The place after the last one.
    """

    method: str
    environment: str
    first: int
    last: int


@dataclass(frozen=True)
class Race:
    """All looks that the runs so far allow.

    Attributes:
        looks: Every comparison at every look, in this order; under the policy that counts failed
            runs as random, if there is no other.
        outcomes: Decision by pair and environment (`None`: overall).
        needed: What the next look needs; empty if the race is over.
    """

    looks: tuple[Look, ...]
    outcomes: dict[tuple[Pair, str | None], Outcome]
    needed: tuple[Needed, ...]


def race(
    runs: Runs, pairs: Sequence[Pair], environments: Sequence[str], design: SequentialDesign
) -> Race:
    """Replays a race from its runs.

    A pair that is decided overall is not looked at any more, and neither is an environment that is
    decided for a pair: its runs until then still count in the overall comparison of this pair. Runs
    beyond those that a look needs do not count.

    Args:
        runs: Runs so far; methods and environments without any may be absent.
        pairs: All comparisons.
        environments: Ids of all environments.
        design: What was fixed in advance.

    Returns:
        The looks, the decisions, and what to run next.

    Raises:
        ValueError: There is no pair or no environment, or a score is not finite.
    """
    if not pairs or not environments:
        raise ValueError("a race needs a pair and an environment")
    replay = _Replay(runs, tuple(pairs), tuple(environments), design)
    needed: tuple[Needed, ...] = ()
    for look in range(len(design.looks)):
        needed = replay.needed(look)
        if needed or not replay.racing():
            break
        replay.look(look)
    return Race(tuple(replay.looks), replay.outcomes, needed)


class _Replay:
    def __init__(
        self,
        runs: Runs,
        pairs: tuple[Pair, ...],
        environments: tuple[str, ...],
        design: SequentialDesign,
    ) -> None:
        self._runs, self._environments, self._design = runs, environments, design
        self._pairs = pairs
        places: list[str | None] = [None]
        places += environments if len(environments) > 1 else []
        self.outcomes: dict[tuple[Pair, str | None], Outcome] = {
            (pair, place): "undecided" for pair in pairs for place in places
        }
        half = 0.5 if len(environments) > 1 else 1.0
        self._weights = {
            (pair, place): half / len(pairs) / (1 if place is None else len(environments))
            for pair, place in self.outcomes
        }
        self._stopped: dict[tuple[Pair, str], int] = {}
        self.looks: list[Look] = []

    def racing(self) -> list[tuple[Pair, list[str]]]:
        """Returns the undecided pairs that have environments to run, with these."""
        found = []
        for pair in self._pairs:
            if self.outcomes[pair, None] == "undecided":
                left = [env for env in self._environments if (pair, env) not in self._stopped]
                found += [(pair, left)] if left else []
        return found

    def needed(self, look: int) -> tuple[Needed, ...]:
        wanted = dict.fromkeys(
            (method, env) for pair, left in self.racing() for env in left for method in pair
        )
        found = []
        for method, env in wanted:
            have = len(self._runs.get(method, {}).get(env, ()))
            if have < self._design.looks[look]:
                found.append(Needed(method, env, have, self._design.looks[look]))
        return tuple(found)

    def look(self, look: int) -> None:
        seeds = self._design.looks[look]
        compared: dict[tuple[Pair, str | None], list[_Evidence]] = {}
        for pair, left in self.racing():
            places = {env: self._stopped.get((pair, env), seeds) for env in self._environments}
            compared[pair, None] = self._evidence(pair, places)
            if len(self._environments) > 1:
                for env in left:
                    compared[pair, env] = self._evidence(pair, {env: seeds})
        found = _settle(look, compared, self._undecided(), self._design)
        self.looks += found
        for each in found:
            self.outcomes[each.pair, each.environment] = each.outcome
            if each.outcome != "undecided" and each.environment is not None:
                self._stopped[each.pair, each.environment] = seeds

    def _undecided(self) -> dict[tuple[Pair, str | None], float]:
        return {
            place: self._weights[place]
            for place, outcome in self.outcomes.items()
            if outcome == "undecided"
        }

    def _evidence(self, pair: Pair, places: Mapping[str, int]) -> list[_Evidence]:
        policies = [self._design.policy] if self._design.policy else list(FailurePolicy)
        found = [_Evidence.of(self._runs, pair, places, policy) for policy in policies]
        return found[:1] if all(each.same(found[0]) for each in found) else found


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Scores of a pair; empty if an environment has no completed run of one side."""

    first: dict[str, FloatArray]
    second: dict[str, FloatArray]

    @classmethod
    def of(
        cls, runs: Runs, pair: Pair, places: Mapping[str, int], policy: FailurePolicy
    ) -> _Evidence:
        sides = []
        for method in pair:
            cells = {}
            for env, seeds in places.items():
                scores = list(runs[method][env])[:seeds]
                if policy is FailurePolicy.COUNT_AS_RANDOM:
                    counted = [0.0 if score is None else score for score in scores]
                else:
                    counted = [score for score in scores if score is not None]
                cells[env] = np.array(counted, dtype=np.float64)
            sides.append(cells)
        if any(not scores.size for side in sides for scores in side.values()):
            return cls({}, {})
        return cls(*sides)

    def same(self, other: _Evidence) -> bool:
        return [*self.first] == [*other.first] and all(
            np.array_equal(mine[env], theirs[env])
            for mine, theirs in ((self.first, other.first), (self.second, other.second))
            for env in mine
        )

    def look(
        self, place: tuple[Pair, str | None], look: int, level: float, design: SequentialDesign
    ) -> Look:
        if not self.first:
            nan = math.nan
            return Look(*place, look, (0, 0), level, nan, nan, nan, nan, "undecided")
        found = mean_test(
            self.first,
            self.second,
            significance=level,
            replicates=max(design.replicates, math.ceil(10 / level)),
            rng=np.random.default_rng([design.seed, look]),
            bounds=True,
        )
        low, high = repeated_interval(self.first, self.second, level)
        sizes = [sum(scores.size for scores in side.values()) for side in (self.first, self.second)]
        outcome: Outcome = "undecided"
        if found.p_value <= level and found.statistic != 0:
            outcome = "better" if found.statistic > 0 else "worse"
        elif design.margin is not None and -design.margin < low and high < design.margin:
            least = min(
                scores.size for side in (self.first, self.second) for scores in side.values()
            )
            outcome = "equivalent" if least >= EQUIVALENCE_RUNS else "undecided"
        return Look(
            *place,
            look,
            (sizes[0], sizes[1]),
            level,
            found.p_value,
            found.statistic,
            low,
            high,
            outcome,
        )


def repeated_interval(
    first: Mapping[str, FloatArray], second: Mapping[str, FloatArray], level: float
) -> tuple[float, float]:
    """Returns the interval of the difference of means that belongs to one look.

    It is Welch's interval at 1 - `level`. At nominal levels (`nominal_levels`) the intervals of all
    looks together contain the difference with probability 1 - alpha, also if a race stops because
    of them. If all runs of a cell are equal, a collapse to the score 0 that none of n runs showed
    is allowed for: with probability 1 - level / 2 its rate is at most 1 - (level / 2)^(1 / n).

    Args:
        first: Scores by environment.
        second: Scores on the same environments.
        level: Nominal level of the look.

    Returns:
        Both ends; NaN if a cell has a single run.

    Source: Jennison and Turnbull 1989; Clopper and Pearson 1934 for unseen collapses.
    """
    found = welch(first, second, level=1 - level)
    unseen = []
    for side in (first, second):
        steady = [scores for scores in side.values() if np.ptp(scores) == 0]
        rates = [
            abs(float(scores[0])) * (1 - (level / 2) ** (1 / scores.size)) for scores in steady
        ]
        unseen.append(sum(rates) / len(side))
    return found.low - unseen[0], found.high + unseen[1]


def _settle(
    look: int,
    evidence: Mapping[tuple[Pair, str | None], Sequence[_Evidence]],
    weights: Mapping[tuple[Pair, str | None], float],
    design: SequentialDesign,
) -> list[Look]:
    """Decides what can be decided at a look, with the shares of what was decided before.

    Args:
        look: Number of the look.
        evidence: Scores of what is looked at, under each policy for failed runs.
        weights: Shares of alpha of all that is undecided, looked at or not.
        design: The design.

    Returns:
        A look per comparison, in the order of `evidence`.
    """
    left = dict(weights)
    found: dict[tuple[Pair, str | None], Look] = {}
    while True:
        total = sum(left.values())
        decided = []
        for place, versions in evidence.items():
            if place not in left:
                continue
            share = round(design.alpha * left[place] / total, 12)
            level = nominal_levels(design.fractions, share, design.exponent)[look]
            views = [version.look(place, look, level, design) for version in versions]
            found[place] = views[0]
            if len({view.outcome for view in views}) > 1:
                found[place] = replace(views[0], outcome="undecided")
            if found[place].outcome != "undecided":
                decided.append(place)
        for place in decided:
            del left[place]
        if not decided or not left:
            return [found[place] for place in evidence]
