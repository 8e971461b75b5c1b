"""Decides comparisons after each batch of seeds, with the error of a single test.

A race trains a batch of seeds of each method, looks (`imitbench.stats.looks`), drops what is
decided, and goes on. Each look tests at the nominal level that a spending function gives
(`imitbench.stats.spending`), with the test of all verdicts (`imitbench.stats.difference_test`), and
forms a repeated confidence interval. Several pairs and environments share alpha:

- Overall decisions and those on environments have one half of it each; with one environment there
  are no separate ones.
- A comparison found better or worse passes its share on to the rest, by Holm's method, so that the
  chance of any false difference, in all looks, pairs and environments together, stays at alpha.
  Levels only grow by that. An equivalent one passes nothing on: it may still have no difference.
- Intervals keep the shares of the start. So all intervals of a race, at all looks, contain their
  differences with probability 1 - alpha, and that is the protection of `equivalent`.
- A look with too few runs to reject, for any scores, spends nothing: the first possible one spends
  what was allowed until then.

Runs may be scored in several ways of acting (sampled and most likely actions). Then each comparison
has a test in each way, at the same levels, and is decided once all say the same, be it at different
looks: what a way has said stays. This needs no correction (Berger 1982). A decision is false if it
is so in one way at least, and the levels of that way's looks together already bound the chance that
it ever says so, wherever the others do; waiting for them only takes looks away. Shares are passed
on by decisions of all ways alone: if each way passed on its own, two comparisons that are equal in
different ways could both get the alpha of the other. A comparison about which the ways have said
different things is over, and stays undecided.

Everything is computed from the scores alone, in the order of seeds. There is no state: the same
scores always lead to the same looks and decisions.

Source: Jennison and Turnbull 1989, "Interim Analyses: The Repeated Confidence Interval Approach";
Lan and DeMets 1983; Holm 1979; Maurer and Bretz 2013, "Multiple Testing in Group Sequential Trials
Using Graphical Approaches"; Berger 1982, "Multiparameter Hypothesis Testing and Acceptance
Sampling". Mathieu et al. 2024, "AdaStop", decides in such a way with permutations
of plain differences, and without equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.difference_test import runs_lacking
from imitbench.stats.looks import EQUIVALENCE_RUNS, Levels, Outcome, look_at
from imitbench.stats.spending import DEFAULT_EXPONENT, nominal_levels
from imitbench.stats.strata import FloatArray

__all__ = [
    "EQUIVALENCE_RUNS",
    "Comparison",
    "Look",
    "Needed",
    "Outcome",
    "Pair",
    "Race",
    "Runs",
    "SequentialDesign",
    "race",
    "seeds_used",
]

Pair: TypeAlias = tuple[str, str]
"""A method and its baseline."""

Comparison: TypeAlias = tuple[Pair, str | None]
"""A comparison: of a pair on an environment, or overall."""

Runs: TypeAlias = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Scores by method and environment in the order of seeds; `None` is a failed run."""

Ways: TypeAlias = Mapping[str, Runs]
"""The same runs, scored by each way of acting."""


@dataclass(frozen=True)
class SequentialDesign:
    """What a race may do, fixed before its first run.

    Attributes:
        looks: Number of seeds of each method on each environment at each look, ascending.
        alpha: Chance of any false difference, and of any false equivalence, in (0, 1).
        margin: Largest difference of scores that counts as none; `None` to never decide so.
        exponent: Of the spending function, see `nominal_levels`.
        policy: How failed runs count; `None` if a decision must not depend on it.
        replicates: Least number of permutations, if they are drawn.
        seed: Seed of these.
    """

    looks: tuple[int, ...]
    alpha: float = 0.05
    margin: float | None = 0.05
    exponent: float = DEFAULT_EXPONENT
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
        level: Nominal two-sided level of the test; 0 if there are too few runs for one. That of
            the interval is the one without what decided comparisons passed on.
        p_value: Of the test; a lower bound of it where that alone is above `level`. NaN without a
            test.
        difference: Mean of the method less that of the baseline; environments weigh equally.
        low: Lower end of the repeated confidence interval; NaN if the spread is unknown.
        high: Upper end.
        outcome: What the way of acting says at this look.
        acting: Way of acting, a key of `Ways`.
        iqm: Difference of interquartile means over all runs; decides nothing.
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
    acting: str
    iqm: float = math.nan


@dataclass(frozen=True)
class Needed:
    """Seeds that the next look needs.

    Attributes:
        method: Name of the method.
        environment: Id of the environment.
        first: Index of the first seed that is missing.
        last: Index after the last one.
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
        by_acting: What each way of acting has said by pair and environment (`None`: overall).
        needed: What the next look needs; empty if the race is over.
    """

    looks: tuple[Look, ...]
    by_acting: dict[str, dict[Comparison, Outcome]]
    needed: tuple[Needed, ...]

    @property
    def outcomes(self) -> dict[Comparison, Outcome]:
        """Decision by pair and environment: what all ways of acting have said."""
        [first, *_] = self.by_acting.values()
        return {key: _common(said[key] for said in self.by_acting.values()) for key in first}

    def is_open(self, pair: Pair, environment: str | None) -> bool:
        """Whether more runs may decide a comparison: a way of acting has said nothing yet."""
        key = pair, environment
        return any(said.get(key) == "undecided" for said in self.by_acting.values())


def _common(said: Iterable[Outcome]) -> Outcome:
    different = set(said)
    return different.pop() if len(different) == 1 else "undecided"


def seeds_used(
    found: Race,
    cells: Iterable[tuple[str, str]],
    environments: Sequence[str],
    design: SequentialDesign,
) -> dict[tuple[str, str], int]:
    """Returns the number of seeds that the looks so far took, by method and environment."""
    used = dict.fromkeys(cells, 0)
    for look in found.looks:
        if look.environment is None and len(environments) > 1:
            continue
        env = look.environment or environments[0]  # a single one is not looked at separately
        for method in look.pair:
            used[method, env] = max(used[method, env], design.looks[look.look])
    return used


def race(
    ways: Ways,
    pairs: Sequence[Pair],
    environments: Sequence[str],
    design: SequentialDesign,
    *,
    first: int = 0,
) -> Race:
    """Replays a race from its runs.

    A pair that is decided overall is not looked at any more, and neither is an environment that is
    decided for a pair: its runs until then still count in the overall comparison of this pair. Runs
    beyond those that a look needs do not count.

    Args:
        ways: Runs so far, in one way of acting or several, which must agree; methods and
            environments without any may be absent.
        pairs: All comparisons.
        environments: Ids of all environments.
        design: What was fixed in advance.
        first: First look, if those before are known to decide nothing.

    Returns:
        The looks, the decisions, and what to run next.

    Raises:
        ValueError: There is no pair or no environment, or a score is not finite.
    """
    if not pairs or not environments:
        raise ValueError("a race needs a pair and an environment")
    replay = _Replay(ways, tuple(pairs), tuple(environments), design)
    needed: tuple[Needed, ...] = ()
    for look in range(first, len(design.looks)):
        needed = replay.needed(look)
        if needed or not replay.racing():
            break
        replay.look(look)
    return replace(replay.found, needed=needed)


@dataclass(frozen=True)
class Share:
    """The part of alpha that a comparison has from the start.

    Attributes:
        alpha: Its part.
        first: The first look with enough runs to reject at it; the number of looks if there is
            none.
    """

    alpha: float
    first: int

    def levels(self, look: int, design: SequentialDesign, left: float) -> Levels:
        """Returns the levels of a look.

        Args:
            look: Number of the look.
            design: The design.
            left: Sum of the shares of all comparisons without a difference found.
        """
        interval = nominal_levels(design.fractions, self.alpha, design.exponent)[look]
        if look < self.first:
            return Levels(0.0, interval)
        grown = round(design.alpha * self.alpha / left, 12)
        levels = nominal_levels(design.fractions[self.first :], grown, design.exponent)
        return Levels(levels[look - self.first], interval)


def shares(
    pairs: Sequence[Pair], environments: Sequence[str], design: SequentialDesign
) -> dict[Comparison, Share]:
    """Returns the share of each comparison, those of a pair together: overall, environments."""
    several = len(environments) > 1
    overall = round(design.alpha / len(pairs) / (2 if several else 1), 12)
    single = round(overall / len(environments), 12)
    found: dict[Comparison, Share] = {}
    for pair in pairs:
        found[pair, None] = Share(overall, _first_look(overall, len(environments), design))
        if several:
            share = Share(single, _first_look(single, 1, design))
            found |= {(pair, env): share for env in environments}
    return found


def _first_look(alpha: float, environments: int, design: SequentialDesign) -> int:
    for look, seeds in enumerate(design.looks):
        level = nominal_levels(design.fractions[look:], alpha, design.exponent)[0]
        if not runs_lacking([(seeds, seeds)] * environments, level):
            return look
    return len(design.looks)


class _Replay:
    def __init__(
        self,
        ways: Ways,
        pairs: tuple[Pair, ...],
        environments: tuple[str, ...],
        design: SequentialDesign,
    ) -> None:
        self._ways, self._environments, self._design = ways, environments, design
        self._pairs = pairs
        self._shares = shares(pairs, environments, design)
        nothing: dict[Comparison, Outcome] = dict.fromkeys(self._shares, "undecided")
        self.found = Race((), {way: dict(nothing) for way in ways}, ())
        self._stopped: dict[tuple[Pair, str], int] = {}

    def racing(self) -> list[tuple[Pair, list[str]]]:
        """Returns the open pairs that have environments to run, with these."""
        found = []
        for pair in self._pairs:
            if self.found.is_open(pair, None):
                left = [env for env in self._environments if (pair, env) not in self._stopped]
                found += [(pair, left)] if left else []
        return found

    def needed(self, look: int) -> tuple[Needed, ...]:
        wanted = dict.fromkeys(
            (method, env) for pair, left in self.racing() for env in left for method in pair
        )
        found = []
        for method, env in wanted:
            have = min(len(runs.get(method, {}).get(env, ())) for runs in self._ways.values())
            if have < self._design.looks[look]:
                found.append(Needed(method, env, have, self._design.looks[look]))
        return tuple(found)

    def look(self, look: int) -> None:
        seeds = self._design.looks[look]
        compared: dict[Comparison, Mapping[str, int]] = {}
        for pair, left in self.racing():
            compared[pair, None] = {
                env: self._stopped.get((pair, env), seeds) for env in self._environments
            }
            if len(self._environments) > 1:
                compared |= {(pair, env): {env: seeds} for env in left}
        found = self._settle(look, compared)
        for result in found:
            self.found.by_acting[result.acting][result.pair, result.environment] = result.outcome
        for pair, env in compared:
            if env is not None and not self.found.is_open(pair, env):
                self._stopped[pair, env] = seeds
        self.found = replace(self.found, looks=(*self.found.looks, *found))

    def _settle(self, look: int, compared: Mapping[Comparison, Mapping[str, int]]) -> list[Look]:
        """Finds what can be said at a look; a difference found passes its share on."""
        evidence = {
            (key, way): self._evidence(runs, key[0], seed_counts)
            for key, seed_counts in compared.items()
            for way, runs in self._ways.items()
            if self.found.by_acting[way][key] == "undecided"
        }
        found: dict[tuple[Comparison, str], Look] = {}
        different = {key for key, outcome in self.found.outcomes.items() if _differs(outcome)}
        while True:
            left = sum(self._shares[key].alpha for key in self._shares if key not in different)
            before = len(different)
            for (key, way), versions in evidence.items():
                if (key, way) in found and _differs(found[key, way].outcome):
                    continue
                levels = self._shares[key].levels(look, self._design, left)
                views = [version.look(key, way, look, levels, self._design) for version in versions]
                outcome = _common(view.outcome for view in views)
                found[key, way] = replace(views[0], outcome=outcome)
            for key in compared:
                said = [
                    found[key, way].outcome if (key, way) in found else earlier[key]
                    for way, earlier in self.found.by_acting.items()
                ]
                if _differs(_common(said)):
                    different.add(key)
            if len(different) in (before, len(self._shares)):
                return list(found.values())

    def _evidence(self, runs: Runs, pair: Pair, seed_counts: Mapping[str, int]) -> list[_Evidence]:
        policies = [self._design.policy] if self._design.policy else list(FailurePolicy)
        found = [_Evidence.of(runs, pair, seed_counts, policy) for policy in policies]
        return found[:1] if all(version.same(found[0]) for version in found) else found


def _differs(outcome: Outcome) -> bool:
    return outcome in ("better", "worse")


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Scores of a pair; empty if an environment has no completed run of one side."""

    first: dict[str, FloatArray]
    second: dict[str, FloatArray]

    @classmethod
    def of(
        cls, runs: Runs, pair: Pair, seed_counts: Mapping[str, int], policy: FailurePolicy
    ) -> _Evidence:
        sides = []
        for method in pair:
            cells = {}
            for env, seeds in sorted(seed_counts.items()):
                scores = list(runs[method][env])[:seeds]
                if policy is FailurePolicy.COUNT_AS_RANDOM:
                    counted = [0.0 if score is None else score for score in scores]
                else:
                    counted = [score for score in scores if score is not None]
                cells[env] = np.sort(np.array(counted, dtype=np.float64))
                if not np.isfinite(cells[env]).all():
                    raise ValueError(f"{method} on {env} has a score that is not finite")
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
        self, key: Comparison, way: str, look: int, levels: Levels, design: SequentialDesign
    ) -> Look:
        nan = math.nan
        if not self.first:
            return Look(*key, look, (0, 0), levels.test, nan, nan, nan, nan, "undecided", way)
        found = look_at(
            [(self.first[env][None], self.second[env][None]) for env in self.first],
            levels,
            margin=design.margin,
            replicates=design.replicates,
            seed=(design.seed, look),
        )
        sides = self.first, self.second
        sizes = [sum(scores.size for scores in side.values()) for side in sides]
        iqms = [float(interquartile_mean(side)) for side in sides]
        return Look(
            *key,
            look,
            (sizes[0], sizes[1]),
            levels.test,
            float(found.p_value[0]),
            float(found.difference[0]),
            float(found.low[0]),
            float(found.high[0]),
            cast(Outcome, str(found.outcome[0])),
            way,
            iqms[0] - iqms[1],
        )
