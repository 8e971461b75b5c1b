"""Simulates races before any run: expected seeds, the chance of each verdict, and the cost.

Scores come from a source per method and environment: runs that exist (`Resampled`), or an assumed
shape (`Normal`, `Collapsing`). The decisions are those of `imitbench.stats.sequential.race`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from imitbench.stats.looks import Levels, Outcome, look_at
from imitbench.stats.sequential import (
    Comparison,
    Pair,
    Runs,
    SequentialDesign,
    race,
    seeds_used,
    shares,
)
from imitbench.stats.strata import FloatArray

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Source(Protocol):
    """Where the scores of a method on an environment come from."""

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        """Draws scores of independent runs; NaN is a failed run."""


@dataclass(frozen=True)
class Normal:
    """Normal scores.

    Attributes:
        mean: Mean score.
        spread: Standard deviation.
    """

    mean: float
    spread: float

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        """See `Source`."""
        return rng.normal(self.mean, self.spread, shape)


@dataclass(frozen=True)
class Collapsing:
    """Normal scores of runs that work, and the score 0 of runs that collapse.

    Attributes:
        mean: Mean score of runs that work.
        spread: Standard deviation of these.
        rate: Share of runs that collapse.
    """

    mean: float
    spread: float
    rate: float

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        """See `Source`."""
        works = rng.random(shape) >= self.rate
        return np.where(works, rng.normal(self.mean, self.spread, shape), 0.0)


@dataclass(frozen=True)
class Resampled:
    """Scores drawn with replacement from those of existing runs.

    With few runs their spread is that of the sample, which is too small by a factor of
    sqrt(1 - 1 / runs) on average, and their tails end with the extremes.

    Attributes:
        scores: At least one; `None` is a failed run.
        shift: Added to each score.
    """

    scores: tuple[float | None, ...]
    shift: float = 0.0

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        """See `Source`."""
        scores = np.array([np.nan if score is None else score for score in self.scores])
        return rng.choice(scores, shape) + self.shift


Sources = Mapping[str, Mapping[str, Source]]
"""By method and environment."""


@dataclass(frozen=True)
class SimulatedRaces:
    """What a design leads to.

    Attributes:
        draws: Number of simulated races.
        chances: Share of races with each outcome, by comparison.
        seeds: Expected number of seeds by method and environment.
        runs: Total number of runs in each race, ascending, shape (draws,).
        cost: Expected sum of the costs of all runs, in their unit; `None` without costs.
        any_difference: Share of races with any decision `better` or `worse`.
        any_outcome: Share of races with any decision of a kind, in whatever comparison.
    """

    draws: int
    chances: dict[Comparison, dict[Outcome, float]]
    seeds: dict[tuple[str, str], float]
    runs: FloatArray
    cost: float | None
    any_difference: float
    any_outcome: dict[Outcome, float]


def simulate(
    sources: Sources,
    pairs: Sequence[Pair],
    environments: Sequence[str],
    design: SequentialDesign,
    *,
    draws: int = 200,
    costs: Mapping[tuple[str, str], float] | None = None,
) -> SimulatedRaces:
    """Simulates races.

    Args:
        sources: Scores of all methods on all environments.
        pairs: All comparisons.
        environments: Ids of all environments.
        design: The design to try.
        draws: Number of races. Two designs have the same scores, as far as both go, if their
            limits are the same.
        costs: Cost of one run, such as core-hours, by method and environment.

    Returns:
        Outcomes and sizes of the races.

    Raises:
        ValueError: `draws` is not positive, or as `race`.
    """
    if draws < 1:
        raise ValueError(f"draws must be positive, not {draws}")
    rng = np.random.default_rng(0)
    methods = list(dict.fromkeys(method for pair in pairs for method in pair))
    cells = {
        (method, env): sources[method][env].draw((draws, design.looks[-1]), rng)
        for method in methods
        for env in environments
    }
    races = _races(cells, pairs, environments, design)
    counts = {key: dict.fromkeys(OUTCOMES, 0) for key in shares(pairs, environments, design)}
    used = np.zeros((draws, len(cells)))
    any_difference, any_outcome = 0, dict.fromkeys(OUTCOMES, 0)
    for at, (outcomes, seeds) in enumerate(races):
        for key, outcome in outcomes.items():
            counts[key][outcome] += 1
        found = set(outcomes.values())
        any_difference += bool(found & {"better", "worse"})
        for outcome in found:
            any_outcome[outcome] += 1
        used[at] = [seeds[cell] for cell in cells]
    means = dict(zip(cells, (float(mean) for mean in used.mean(axis=0)), strict=True))
    return SimulatedRaces(
        draws=draws,
        chances={
            key: {outcome: count / draws for outcome, count in of_key.items()}
            for key, of_key in counts.items()
        },
        seeds=means,
        runs=np.sort(used.sum(axis=1)),
        cost=None if costs is None else sum(means[cell] * costs[cell] for cell in cells),
        any_difference=any_difference / draws,
        any_outcome={outcome: count / draws for outcome, count in any_outcome.items()},
    )


Cell = tuple[str, str]
"""Method and environment."""

Ended = tuple[dict[Comparison, Outcome], dict[Cell, int]]
"""Outcomes of a race, and the seeds that it used."""


def _races(
    cells: Mapping[Cell, FloatArray],
    pairs: Sequence[Pair],
    environments: Sequence[str],
    design: SequentialDesign,
) -> list[Ended]:
    """Runs all races.

    Until its first decision a race looks at everything, at the levels of the start: this part is
    computed for all races at once, and only the rest one by one.
    """
    comparisons = shares(pairs, environments, design)
    draws = len(next(iter(cells.values())))
    failed = np.any([np.isnan(scores).any(axis=1) for scores in cells.values()], axis=0)
    ended: dict[int, Ended] = {
        int(at): _replayed(0, int(at), cells, pairs, environments, design)
        for at in np.flatnonzero(failed)
    }
    racing = np.flatnonzero(~failed)
    moments = {cell: _Moments.of(scores, design.looks) for cell, scores in cells.items()}
    whole = sum(share.alpha for share in comparisons.values())
    for look, seeds in enumerate(design.looks):
        decided = np.zeros(racing.size, dtype=bool)
        found = {}
        for (pair, env), share in comparisons.items():
            # Sorted, as `race` does: permutations are drawn by index.
            over = sorted(environments) if env is None else [env]
            levels = share.levels(look, design, whole)
            outcomes = np.full(racing.size, "undecided", dtype="<U10")
            near = _may_decide(
                [(moments[pair[0], env_id], moments[pair[1], env_id]) for env_id in over],
                look,
                levels,
                design,
            )[racing]
            if near.any():
                columns = [
                    tuple(
                        np.sort(cells[name, env_id][racing[near], :seeds], axis=1) for name in pair
                    )
                    for env_id in over
                ]
                outcomes[near] = look_at(
                    [(first, second) for first, second in columns],
                    levels,
                    margin=design.margin,
                    replicates=design.replicates,
                    seed=(design.seed, look),
                ).outcome
            found[pair, env] = outcomes
            decided |= outcomes != "undecided"
        for row in np.flatnonzero(decided):
            at = int(racing[row])
            if len(comparisons) == 1:
                [(key, outcomes)] = found.items()
                ended[at] = {key: cast(Outcome, str(outcomes[row]))}, dict.fromkeys(cells, seeds)
            else:
                ended[at] = _replayed(look, at, cells, pairs, environments, design)
        racing = racing[~decided]
        if not racing.size:
            break
    limit: Ended = dict.fromkeys(comparisons, "undecided"), dict.fromkeys(cells, design.looks[-1])
    return [ended.get(at, limit) for at in range(draws)]


@dataclass(frozen=True, eq=False)
class _Moments:
    """Of the scores of a cell until each look, each of shape (draws, looks).

    Attributes:
        mean: Mean.
        variance: Sample variance.
        runs: Numbers of runs, shape (looks,).
    """

    mean: FloatArray
    variance: FloatArray
    runs: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, looks: Sequence[int]) -> _Moments:
        runs = np.array(looks, dtype=np.float64)
        at = np.array(looks) - 1
        middle = scores.mean(axis=1, keepdims=True)
        sums = (scores - middle).cumsum(axis=1)[:, at]
        squares = np.square(scores - middle).cumsum(axis=1)[:, at]
        return cls(middle + sums / runs, (squares - sums**2 / runs) / (runs - 1), runs)


def _may_decide(
    moments: Sequence[tuple[_Moments, _Moments]],
    look: int,
    levels: Levels,
    design: SequentialDesign,
) -> npt.NDArray[np.bool_]:
    """Returns where a look may decide: a quick bound, shape (draws,).

    Degrees of freedom are at least those of the tests.
    """
    from scipy.special import stdtrit

    parts = [part for pair in moments for part in pair]
    difference = sum(x.mean[:, look] - y.mean[:, look] for x, y in moments) / len(moments)
    variance = sum(part.variance[:, look] / part.runs[look] for part in parts) / len(moments) ** 2
    degrees = sum(part.runs[look] + 1 for part in parts)
    error = np.sqrt(np.maximum(variance, 0))
    away = np.abs(difference) * (1 + 1e-6) + 1e-12
    near = np.zeros(away.size, dtype=bool)
    if levels.test > 0:
        near |= away >= -stdtrit(degrees, levels.test / 2) * error
    if design.margin is not None:
        half = -stdtrit(degrees, levels.interval / 2) * error
        near |= away + half * (1 - 1e-6) < design.margin * (1 + 1e-6) + 1e-11
    return near


def _replayed(
    look: int,
    at: int,
    cells: Mapping[Cell, FloatArray],
    pairs: Sequence[Pair],
    environments: Sequence[str],
    design: SequentialDesign,
) -> Ended:
    runs: dict[str, dict[str, list[float | None]]] = {}
    for (method, env), scores in cells.items():
        listed = [None if score != score else score for score in scores[at].tolist()]
        runs.setdefault(method, {})[env] = listed
    found = race({"": cast(Runs, runs)}, pairs, environments, design, first=look)
    return found.outcomes, seeds_used(found, cells, environments, design)
