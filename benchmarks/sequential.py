"""Measures how often races decide falsely, what they save, and where AdaStop decides otherwise.

    python benchmarks/sequential.py [identical] [skewed] [opposite] [equivalent] [saved] [adastop]

`identical` races methods with the same scores, up to 40 seeds, and counts races with any decision
`better` or `worse`, in all looks, pairs and environments together. `opposite` does so for two
methods that differ on each environment and not on the average, and counts overall decisions.

`skewed` races the pairs of methods of the table of the same name in `false_alarms.py`, and counts
races with any false decision: one that calls the method better whose typical run is not.

`equivalent` races two methods whose difference is the margin, and counts `equivalent`; and two
equal ones, where it is right.

`saved` draws the scores of both methods from runs in `results/`, adds 0.1 to one, finds the number
of seeds of a single test with a power of 80 % and the limit of a race with the same, and compares
the runs. `one method` knows whose spread it plans for; `any method` is one design for all of them.

`adastop` lets the package of that name (0.1.3) decide about its own example and drawn data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from false_alarms import SKEWED, Draw, false_of

from imitbench.stats.difference_test import difference_tests
from imitbench.stats.looks import EXACT_SPLITS
from imitbench.stats.racing import Collapsing, Normal, Resampled, SimulatedRaces, Source, simulate
from imitbench.stats.sequential import Outcome, SequentialDesign, race
from imitbench.stats.spending import DEFAULT_EXPONENT

ROOT = Path(__file__).parents[1]
LIMIT, ALPHA, EFFECT, POWER = 40, 0.05, 0.1, 0.8
MOST = 300
"""Most seeds in `saved`."""
PAIR = ("new", "old")
SPREADS = 0.05, 0.3
"""Spread of the methods in `saved`: others need one batch, or more than the effect is worth."""

# The example of AdaStop's documentation: returns of 5 runs at each look on Walker2d-v3 (MIT).
WALKER = {
    "PPO": "3683 1576 3908 1452 5177 3384 2359 1625 4151 1700",
    "DDPG": "420 640 2338 879 737 962 1771 546 906 1554 346 858 347 1978 89 706 1974 1021 936 518 "
    "957 1255 594 586 185 2101 57 996 1550 -10",
    "SAC": "4291 4551 4670 4697 4074 5453 4989 4618 3955 4135",
    "TRPO": "446 1919 1016 757 1769 1031 962 696 1818 940 450 1126 567 529 1786 999 1632 1518 1873 "
    "1907 1909 1672 898 1677 490 1095 989 1370 609 1333",
}


@dataclass(frozen=True)
class Skewed:
    """Exponential scores: most are low, some are very high.

    Attributes:
        mean: Mean score.
        spread: Standard deviation.
    """

    mean: float
    spread: float

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """See `imitbench.stats.racing.Source`."""
        return self.mean + self.spread * (rng.exponential(size=shape) - 1)


@dataclass(frozen=True)
class Heavy:
    """Scores with Student's t distribution with two degrees of freedom: no finite variance.

    Attributes:
        mean: Mean score.
        spread: Scale.
    """

    mean: float
    spread: float

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """See `imitbench.stats.racing.Source`."""
        return self.mean + self.spread * rng.standard_t(2, size=shape)


@dataclass(frozen=True)
class Drawn:
    """Scores that a function draws."""

    function: Draw

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """See `imitbench.stats.racing.Source`."""
        return self.function(rng, shape)


SHAPES: dict[str, Source] = {
    "normal": Normal(0.8, 0.1),
    "skewed": Skewed(0.8, 0.1),
    "0 or 1": Collapsing(1.0, 0.0, 0.2),
    "heavy-tailed": Heavy(0.8, 0.1),
}


def design(batch: int, margin: float | None = None, limit: int = LIMIT) -> SequentialDesign:
    return replace(SequentialDesign.batches(batch, limit), alpha=ALPHA, margin=margin)


def names(environments: int) -> list[str]:
    return [f"e{at}" for at in range(environments)]


def raced(
    new: Sequence[Source], old: Sequence[Source], plan: SequentialDesign, draws: int
) -> SimulatedRaces:
    """Races two methods with a source per environment."""
    environments = names(len(new))
    sides = zip(PAIR, (new, old), strict=True)
    sources = {name: dict(zip(environments, side, strict=True)) for name, side in sides}
    return simulate(sources, [PAIR], environments, plan, draws=draws)


def false_decisions(shape: str, environments: int, methods: int, batch: int, draws: int) -> float:
    """Returns the share of races between identical methods that find any difference."""
    source = dict.fromkeys(names(environments), SHAPES[shape])
    sources = {f"m{at}": source for at in range(methods)}
    pairs = [(name, "m0") for name in sources if name != "m0"]
    found = simulate(sources, pairs, names(environments), design(batch), draws=draws)
    return found.any_difference


def identical(draws: int) -> None:
    """Prints a line for each shape and number of environments and methods."""
    print("| scores | environments | methods | batches of 3 | of 5 | of 10 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for shape in SHAPES:
        for environments in (1, 5):
            for methods in (2, 6):
                shares = [
                    false_decisions(shape, environments, methods, batch, draws)
                    for batch in (3, 5, 10)
                ]
                cells = " | ".join(f"{share:.1%}" for share in shares)
                print(f"| {shape} | {environments} | {methods} | {cells} |", flush=True)


def misled(scores: str, environments: int, batch: int, draws: int) -> float:
    """Returns the share of races with any false decision."""
    sides = SKEWED[scores]
    new, old = ([Drawn(side)] * environments for side in sides)
    found = raced(new, old, design(batch), draws)
    false = false_of(*sides)
    return found.any_difference if len(false) > 1 else found.any_outcome[false[0]]


def skewed(draws: int) -> None:
    """Prints a line for each pair of methods and number of environments."""
    print("| scores | environments | batches of 3 | of 5 | of 10 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in SKEWED:
        for environments in (1, 5):
            shares = [misled(name, environments, batch, draws) for batch in (3, 5, 10)]
            cells = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {name} | {environments} | {cells} |", flush=True)


def opposite(draws: int) -> None:
    """Prints a line for each pattern of differences that cancel."""
    patterns = {
        "+0.1, -0.1": (0.1, -0.1),
        "+0.2, four times -0.05": (0.2, -0.05, -0.05, -0.05, -0.05),
        "+0.1, four times -0.025": (0.1, -0.025, -0.025, -0.025, -0.025),
    }
    print("| differences | batches of 3 | of 5 | of 10 |")
    print("| --- | ---: | ---: | ---: |")
    for name, shifts in patterns.items():
        shares = []
        for batch in (3, 5, 10):
            new, old = [Normal(0.5 + shift, 0.1) for shift in shifts], [Normal(0.5, 0.1)]
            found = raced(new, old * len(shifts), design(batch), draws).chances[PAIR, None]
            shares.append(f"{found['better'] + found['worse']:.1%}")
        print(f"| {name} | {' | '.join(shares)} |", flush=True)


def margins() -> dict[str, tuple[float, Source, Callable[[float], Source]]]:
    """Returns for each shape its margin, a method, and one that is worse by a difference."""
    return {
        "normal": (0.05, Normal(0.8, 0.05), lambda by: Normal(0.8 - by, 0.05)),
        "skewed": (0.05, Skewed(0.8, 0.04), lambda by: Skewed(0.8 - by, 0.04)),
        "skewed downwards": (0.05, Skewed(0.8, -0.04), lambda by: Skewed(0.8 - by, -0.04)),
        "0 or 1": (0.3, Collapsing(1, 0, 0.1), lambda by: Collapsing(1, 0, 0.1 + by)),
        "heavy-tailed": (0.05, Heavy(0.8, 0.02), lambda by: Heavy(0.8 - by, 0.02)),
        "collapse in 5 %": (0.05, Normal(1, 0.01), lambda by: Collapsing(1, 0.01, by)),
        "collapse in 20 %": (0.2, Normal(1, 0.01), lambda by: Collapsing(1, 0.01, by)),
    }


def wrongly_equivalent(shape: str, environments: int, batch: int, draws: int) -> float:
    """Returns the share of races that end equivalent, with the margin as the true difference."""
    margin, one, other = margins()[shape]
    plan = design(batch, margin)
    found = raced([one] * environments, [other(margin)] * environments, plan, draws)
    return max(found.chances[PAIR, place]["equivalent"] for place in found_places(environments))


def found_places(environments: int) -> list[str | None]:
    return [None, "e0"] if environments > 1 else [None]


def equivalent(draws: int) -> None:
    """Prints a line for each shape and number of environments."""
    print(
        "| scores | margin | environments | batches of 3 | of 5 | of 10 "
        "| equal methods (batches of 5) | seeds |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape, (margin, one, other) in margins().items():
        for environments in (1, 5):
            wrong = " | ".join(
                f"{wrongly_equivalent(shape, environments, batch, draws):.1%}"
                for batch in (3, 5, 10)
            )
            right = raced(
                [one] * environments, [other(0.0)] * environments, design(5, margin), draws
            )
            print(
                f"| {shape} | {margin} | {environments} | {wrong} "
                f"| {right.chances[PAIR, None]['equivalent']:.1%} "
                f"| {right.runs.mean() / environments / 2:.1f} |",
                flush=True,
            )


def published_cells(least: float, most: float) -> dict[str, tuple[float, ...]]:
    """Returns the scores of all published cells of ten runs whose spread is in a range."""
    import imitbench

    folders = sorted(path.parent for path in (ROOT / "results").glob("*/manifest.json"))
    table = imitbench.results(folders, "latest")
    keys = ["suite", "env", "algo", "n_demos", "all_demos", "budget"]
    found = {}
    for (_, env, algo, _, _, budget), rows in table.groupby(keys, dropna=False):
        scores = tuple(float(score) for score in rows.score)
        if len(scores) >= 10 and least <= np.std(scores, ddof=1) <= most:
            found[f"{algo} on {env}, {budget}"] = scores
    return found


def both(cells: Sequence[tuple[float, ...]], runs: int, draws: int) -> list[np.ndarray]:
    """Draws both methods from each cell, the first with the effect; shape (experiments, runs).

    Fewer runs are the first ones of more, so that designs are compared on the same scores.
    """
    rng = np.random.default_rng(1)
    sides = []
    for shift in (EFFECT, 0.0):
        sources = [Resampled(scores, shift) for scores in cells]
        sides.append(np.concatenate([each.draw((draws, MOST), rng)[:, :runs] for each in sources]))
    return sides


def fixed_power(cells: Sequence[tuple[float, ...]], runs: int, draws: int) -> float:
    """Returns how often a single test with this number of runs finds the effect."""
    sides = both(cells, runs, draws)
    p_values = difference_tests(
        [(sides[0], sides[1])],
        significance=ALPHA,
        replicates=2_000,
        rng=np.random.default_rng(0),
        bounds=True,
        splits=EXACT_SPLITS,
    ).p_value
    found = (p_values <= ALPHA) & (sides[0].mean(axis=1) > sides[1].mean(axis=1))
    return float(found.mean())


@dataclass(frozen=True)
class Recorded:
    """Scores that were drawn before."""

    scores: np.ndarray

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """See `imitbench.stats.racing.Source`."""
        return self.scores[:, : shape[1]]


def race_power(
    cells: Sequence[tuple[float, ...]], plan: SequentialDesign, draws: int
) -> tuple[float, float]:
    """Returns how often a race finds the effect, and its mean number of seeds."""
    sides = both(cells, plan.looks[-1], draws)
    sources = {name: {"e": Recorded(side)} for name, side in zip(PAIR, sides, strict=True)}
    found = simulate(sources, [PAIR], ["e"], plan, draws=len(sides[0]))
    return found.chances[PAIR, None]["better"], float(found.runs.mean()) / 2


def smallest(power: Callable[[int], float], low: int, high: int) -> int:
    """Returns the smallest number with the power, between two numbers of which one is too small."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def saving(
    cells: Sequence[tuple[float, ...]], batch: int, exponent: float, draws: int
) -> tuple[int, int, float]:
    """Returns the seeds of a fixed design, the limit of a race as powerful, and its mean seeds."""
    fixed = smallest(lambda runs: fixed_power(cells, runs, draws), 2, 150)

    def plan(limit: int) -> SequentialDesign:
        looks = SequentialDesign.batches(batch, max(batch, limit))
        return replace(looks, alpha=ALPHA, margin=None, exponent=exponent, replicates=2_000)

    def power(limit: int) -> float:
        return race_power(cells, plan(limit), draws)[0]

    limit = smallest(power, max(2, int(0.95 * fixed)), int(1.6 * fixed) + 2 * batch)
    return fixed, limit, race_power(cells, plan(limit), draws)[1]


def saved(draws: int) -> None:
    """Prints a line for each method, and for all together, by batch and spending."""
    cells = published_cells(*SPREADS)
    print("| scores | spread | fixed design | batch | spending | limit | seeds | saved |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")

    def line(name: str, chosen: list[tuple[float, ...]], batch: int, exponent: float) -> None:
        many = max(50, draws // len(chosen))
        fixed, limit, mean = saving(chosen, batch, exponent, many)
        spread = np.mean([np.std(scores, ddof=1) for scores in chosen])
        print(
            f"| {name} | {spread:.2f} | {fixed} | {batch} | {exponent:g} | {limit} | {mean:.1f} "
            f"| {1 - mean / fixed:.0%} |",
            flush=True,
        )

    for batch, exponent in ((3, 0.75), (5, 0.75), (5, 0.5), (5, 1.0), (5, 2.0)):
        line("any method", list(cells.values()), batch, exponent)
    for name, scores in cells.items():
        line(name, [scores], 3, DEFAULT_EXPONENT)


def by_adastop(
    scores: dict[str, Sequence[float]], batch: int, looks: int, replicates: int
) -> tuple[dict[tuple[str, str], Outcome], int]:
    """Returns AdaStop's decisions about all pairs, and its number of looks.

    Its boundary bounds the chance that the largest *signed* difference exceeds it, and differences
    of both signs are compared with it. With two methods its error is twice its `alpha`.
    """
    from adastop import MultipleAgentsComparator

    comparator = MultipleAgentsComparator(n=batch, K=looks, B=replicates, alpha=ALPHA / 2, seed=0)
    words: dict[str, Outcome] = {"larger": "better", "smaller": "worse", "equal": "undecided"}
    while not comparator.is_finished:
        seeds = batch * (comparator.k + 1)
        comparator.partial_compare(
            {name: np.array(each[:seeds]) for name, each in scores.items()}, verbose=False
        )
    listed = list(scores)
    decisions = {
        (listed[first], listed[second]): words[comparator.decisions[str(np.array((first, second)))]]
        for first, second in comparator.comparisons
    }
    return decisions, comparator.k


def by_race(
    scores: dict[str, Sequence[float]], batch: int, looks: int
) -> tuple[dict[tuple[str, str], Outcome], int, float]:
    """Returns the decisions of a race about all pairs, its looks, and the nearest p to its level.

    That is the ratio of p to its level, at the look where it is nearest to 1.
    """
    listed = list(scores)
    pairs = [(one, other) for at, one in enumerate(listed) for other in listed[at + 1 :]]
    runs = {name: {"e": list(each)} for name, each in scores.items()}
    found = race({"sampled": runs}, pairs, ["e"], design(batch, limit=batch * looks))
    ratios = [look.p_value / look.level for look in found.looks if look.level]
    nearest = min(ratios, key=lambda ratio: abs(np.log(ratio)), default=np.inf)
    outcomes = {pair: found.outcomes[pair, None] for pair in pairs}
    return outcomes, found.looks[-1].look + 1, nearest


def drawn_data(count: int) -> list[dict[str, Sequence[float]]]:
    """Returns data sets of two methods with 30 runs: equal, different, very different."""
    rng = np.random.default_rng(0)
    found: list[dict[str, Sequence[float]]] = []
    for at in range(count):
        shift = (0.0, 0.5, 1.0, 2.0)[at % 4]
        sides = rng.normal(0, 1, (2, 30)) if at % 8 < 4 else rng.exponential(1, (2, 30))
        found.append({"a": sides[0], "b": sides[1] + shift})
    return found


def agreement(count: int, replicates: int) -> list[tuple[bool, float]]:
    """Returns for each drawn data set whether both decide equally, and the race's nearest p."""
    found = []
    for scores in drawn_data(count):
        theirs, _ = by_adastop(scores, 5, 6, replicates)
        ours, _, nearest = by_race(scores, 5, 6)
        found.append((theirs == ours, nearest))
    return found


def walker() -> dict[str, Sequence[float]]:
    """Returns AdaStop's example; decided methods have no further runs, which nobody reads."""
    scores = {name: [float(each) for each in runs.split()] for name, runs in WALKER.items()}
    return {name: runs + [runs[-1]] * (30 - len(runs)) for name, runs in scores.items()}


def adastop(draws: int) -> None:
    """Prints the decisions about the example, and how many drawn ones agree."""
    theirs, their_looks = by_adastop(walker(), 5, 6, 10_000)
    ours, our_looks, _ = by_race(walker(), 5, 6)
    print(f"example: {their_looks} looks of AdaStop, {our_looks} of the race")
    for pair in ours:
        print(f"  {pair[0]} and {pair[1]}: {theirs[pair]}, {ours[pair]}")
    found = agreement(min(draws, 200), 1_000)
    apart = [nearest for same, nearest in found if not same]
    print(f"drawn: {len(found) - len(apart)} of {len(found)} agree; p / level of the others:")
    print("  " + ", ".join(f"{ratio:.2f}" for ratio in apart))


def main() -> None:
    """Prints the tables."""
    tables = {
        each.__name__: each for each in (identical, skewed, opposite, equivalent, saved, adastop)
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(tables)} [all]")
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    for name in options.tables or tables:
        tables[name](options.draws)
        print()


if __name__ == "__main__":
    main()
