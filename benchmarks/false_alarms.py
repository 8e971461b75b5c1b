"""Measures how often methods of equal means are called different, and others not.

    python benchmarks/false_alarms.py [identical] [unequal] [skewed] [power]

`identical` draws the scores of both sides from one distribution, three runs on each environment,
and counts how often the bootstrap interval of the difference of IQMs excludes 0; how often Welch's
test, corrected by Holm's method, rejects on any environment; and how often `imitbench compare`
decides, overall or on any environment.

`unequal` draws normal scores of equal means, with the numbers of runs and the spreads of two
different methods, and counts the decisions of permutations of the difference of means, and those of
`imitbench compare`. The nominal level of all rules is 5 %.

`skewed` draws scores of equal means, or of equally good typical runs, where one method is skewed or
rarely collapses, and counts false verdicts: those that call the method better whose typical run is
not, as it beats a run of the other in at most half of all cases. For comparison it counts the
rejections of the test of means alone, which all are false where means are equal.

`power` shifts one of two equal distributions and counts how often each test finds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from imitbench.stats.difference_test import difference_tests
from imitbench.stats.mean_test import choices, mean_tests
from imitbench.stats.significance import holm, welch
from imitbench.stats.verdicts import Decision, verdicts

RUNS, REPLICATES, SPLITS = 3, 1_000, 20_000
LEVEL = 0.05
UNEQUAL = [
    (runs, spreads)
    for runs in ((10, 3), (10, 5), (20, 5), (5, 5), (10, 10))
    for spreads in ((0.02, 0.3), (0.3, 0.02), (0.1, 0.3))
    if runs[0] != runs[1] or spreads[0] < spreads[1]
]
SHIFTS = {
    ((4, 4), 1): 0.28,
    ((5, 5), 1): 0.2,
    ((10, 10), 1): 0.13,
    ((10, 5), 1): 0.17,
    ((3, 3), 3): 0.15,
    ((5, 5), 3): 0.11,
    ((10, 10), 3): 0.073,
    ((10, 5), 3): 0.09,
    ((3, 3), 5): 0.11,
    ((5, 5), 5): 0.08,
    ((10, 10), 5): 0.057,
    ((10, 5), 5): 0.07,
}
"""Difference of means by runs and environments, at a spread of 0.1, which permutations find in
about 80 % of experiments."""

Pairs = list[tuple[np.ndarray, np.ndarray]]
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def steady(mean: float, spread: float = 0.05) -> Draw:
    """Returns what draws normal scores."""
    return lambda rng, shape: rng.normal(mean, spread, shape)


def collapsing(mean: float, rate: float, loss: float = 0.5, spread: float = 0.05) -> Draw:
    """Returns what draws normal scores, of which a share loses much; `mean` is that of all."""
    works = mean + rate * loss
    return lambda rng, shape: rng.normal(works, spread, shape) - loss * (rng.random(shape) < rate)


def exponential(mean: float, spread: float, *, up: bool = True) -> Draw:
    """Returns what draws skewed scores; most are below the mean, or above it."""
    scale = spread if up else -spread
    return lambda rng, shape: mean + scale * (rng.exponential(size=shape) - 1)


SKEWED: dict[str, tuple[Draw, Draw]] = {
    "10 % of runs lose 0.5, steady": (collapsing(0.8, 0.1), steady(0.8)),
    "30 % of runs lose 0.5, steady": (collapsing(0.8, 0.3), steady(0.8)),
    "10 % and 30 % of runs lose 0.5": (collapsing(0.8, 0.1), collapsing(0.8, 0.3)),
    "10 % of runs lose 0.5, both": (collapsing(0.8, 0.1), collapsing(0.8, 0.1)),
    "skewed up, steady": (exponential(0.8, 0.1), steady(0.8, 0.1)),
    "skewed down, steady": (exponential(0.8, 0.1, up=False), steady(0.8, 0.1)),
    "skewed up, skewed down": (exponential(0.8, 0.1), exponential(0.8, 0.1, up=False)),
    # The median of the skewed scores, so that typical runs are equally good and means are not.
    "skewed up, steady, P 1/2": (exponential(0.8, 0.1), steady(0.8 - 0.1 * (1 - np.log(2)), 1e-3)),
}
"""Two methods by name; means are equal but in the last line."""

SKEWED_RUNS = ((3, 3), (4, 4), (5, 5), (7, 7), (10, 10), (10, 3))


def draw(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Draws the scores of one cell."""
    if shape == "normal":
        return rng.normal(0.8, 0.1, RUNS)
    return rng.choice([0.0, 1.0], RUNS) + rng.normal(0.0, 0.01, RUNS)


def identical(experiments: int) -> None:
    """Prints a line for each shape and number of environments."""
    print("| scores | environments | interval | Welch | verdict, overall | verdict, anywhere |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for shape in ("normal", "success or collapse"):
        for environments in (1, 5):
            rng = np.random.default_rng(0)
            counts = np.zeros(4, dtype=int)
            for _ in range(experiments):
                one, other = (
                    {f"e{i}": draw(shape, rng) for i in range(environments)} for _ in range(2)
                )
                [found] = verdicts("a", one, {"b": other}, replicates=REPLICATES)
                tests = holm({e: welch({e: one[e]}, {e: other[e]}).p_value for e in one})
                counts += [
                    not found.iqm.low <= 0 <= found.iqm.high,
                    any(p <= LEVEL for p in tests.values()),
                    found.decision != "undecided",
                    any(each.decision != "undecided" for each in found.environments),
                ]
            shares = " | ".join(f"{share:.1%}" for share in counts / experiments)
            print(f"| {shape} | {environments} | {shares} |", flush=True)


def normal(
    runs: tuple[int, int],
    spreads: tuple[float, float],
    environments: int,
    experiments: int,
    shift: float = 0.0,
) -> Pairs:
    """Draws the scores of two methods on each environment; the second's are higher by `shift`."""
    rng = np.random.default_rng([*runs, environments])
    return [
        (
            rng.normal(0.5, spreads[0], (experiments, runs[0])),
            rng.normal(0.5 + shift, spreads[1], (experiments, runs[1])),
        )
        for _ in range(environments)
    ]


def by_labels(pairs: Pairs, _: float) -> np.ndarray:
    """Returns p of permutations of the difference of means."""
    rng = np.random.default_rng(0)
    actual, shuffled = 0.0, 0.0
    few = len(pairs) == 1 and pairs[0][0].shape[1] + pairs[0][1].shape[1] <= 15
    for x, y in pairs:
        pooled = np.concatenate([x, y], axis=1)
        ours, runs = x.shape[1], pooled.shape[1]
        labels = np.full((REPLICATES, runs), -1 / (runs - ours))
        labels[:, :ours] = 1 / ours
        labels = rng.permuted(labels, axis=1)
        if few:  # all labelings, as drawn ones could make p of the most extreme too small
            labels = np.full((len(choices(runs, ours)), runs), -1 / (runs - ours))
            np.put_along_axis(labels, choices(runs, ours), 1 / ours, axis=1)
        actual = actual + pooled[:, :ours].mean(axis=1) - pooled[:, ours:].mean(axis=1)
        shuffled = shuffled + pooled @ labels.T
    extreme = (np.abs(shuffled) >= np.abs(actual)[:, None] - 1e-12).sum(axis=1)
    return extreme / shuffled.shape[1] if few else (extreme + 1) / (REPLICATES + 1)


def by_means(pairs: Pairs, significance: float) -> np.ndarray:
    """Returns p of the test of means alone."""
    return _p_values(mean_tests, pairs, significance)


def by_verdict(pairs: Pairs, significance: float) -> np.ndarray:
    """Returns p of the test of `imitbench compare`."""
    return _p_values(lambda *a, **k: difference_tests(*a, **k).p_value, pairs, significance)


def _p_values(test: Callable[..., np.ndarray], pairs: Pairs, significance: float) -> np.ndarray:
    rng = np.random.default_rng(0)  # as `verdicts`
    options = {"significance": significance, "replicates": REPLICATES, "bounds": True}
    options["splits"] = SPLITS  # as `verdicts` but for ten runs and ten, to be quick
    return test(pairs, rng=rng, **options)


def rejections(
    test: Callable[[Pairs, float], np.ndarray], pairs: Pairs
) -> tuple[np.ndarray, np.ndarray]:
    """Returns where a test rejects over all environments, and on any with Holm's correction."""
    level = LEVEL / len(pairs)
    anywhere = np.min([test([pair], level) for pair in pairs], axis=0) <= level
    return test(pairs, LEVEL) <= LEVEL, anywhere


def decisions(
    pairs: Pairs, counted: tuple[Decision, ...] = ("better", "worse")
) -> tuple[float, float]:
    """Returns how often `imitbench compare` decides so, overall and anywhere."""
    rejected = np.logical_or(*rejections(by_verdict, pairs))
    overall = anywhere = 0
    for at in np.flatnonzero(rejected):  # without a rejection there is no verdict
        one, other = ({f"e{i}": pair[side][at] for i, pair in enumerate(pairs)} for side in (0, 1))
        [found] = verdicts("a", one, {"b": other}, replicates=REPLICATES)
        overall += found.decision in counted
        anywhere += any(each.decision in counted for each in found.environments)
    return overall / rejected.size, anywhere / rejected.size


def unequal(experiments: int) -> None:
    """Prints a line for each pair of numbers, pair of spreads and number of environments."""
    print(
        "| runs | spreads | environments | permutations, overall | permutations, anywhere "
        "| verdict, overall | verdict, anywhere |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for runs, spreads in UNEQUAL:
        for environments in (1, 3, 5):
            pairs = normal(runs, spreads, environments, experiments)
            before = [found.mean() for found in rejections(by_labels, pairs)]
            shares = " | ".join(f"{share:.1%}" for share in (*before, *decisions(pairs)))
            print(
                f"| {runs[0]} and {runs[1]} | {spreads[0]} and {spreads[1]} | {environments} "
                f"| {shares} |",
                flush=True,
            )


def false_of(first: Draw, second: Draw) -> tuple[Decision, ...]:
    """Returns the verdicts on the first that are false: its typical run is not so."""
    rng = np.random.default_rng(1)
    one, other = (draw(rng, (1_000, 1_000)) for draw in (first, second))
    wins = float((one > other).mean())
    if abs(wins - 0.5) < 0.002:  # four standard errors
        return ("better", "worse")
    return ("worse",) if wins > 0.5 else ("better",)


def skewed(experiments: int) -> None:
    """Prints a line for each pair of methods, numbers of runs and number of environments."""
    print(
        "| scores | runs | environments | test of means, overall | test of means, anywhere "
        "| false verdict, overall | false verdict, anywhere |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (first, second) in SKEWED.items():
        false = false_of(first, second)
        for runs in SKEWED_RUNS:
            for environments in (1, 5):
                rng = np.random.default_rng([*runs, environments])
                pairs = [
                    (first(rng, (experiments, runs[0])), second(rng, (experiments, runs[1])))
                    for _ in range(environments)
                ]
                before = [found.mean() for found in rejections(by_means, pairs)]
                shares = " | ".join(f"{share:.1%}" for share in (*before, *decisions(pairs, false)))
                print(
                    f"| {name} | {runs[0]} and {runs[1]} | {environments} | {shares} |", flush=True
                )


def power(experiments: int) -> None:
    """Prints a line for each pair of numbers and number of environments, with equal spreads."""
    print(
        "| runs | environments | difference | permutations, overall | permutations, anywhere "
        "| test of verdicts, overall | test of verdicts, anywhere |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (runs, environments), shift in SHIFTS.items():
        pairs = normal(runs, (0.1, 0.1), environments, experiments, shift)
        found = [*rejections(by_labels, pairs), *rejections(by_verdict, pairs)]
        shares = " | ".join(f"{each.mean():.1%}" for each in found)
        print(f"| {runs[0]} and {runs[1]} | {environments} | {shift} | {shares} |", flush=True)


def main() -> None:
    """Prints the tables."""
    tables = {"identical": identical, "unequal": unequal, "skewed": skewed, "power": power}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(tables)} [all]")
    parser.add_argument("--experiments", type=int, default=1000)
    options = parser.parse_args()
    for name in options.tables or tables:
        tables[name](options.experiments)
        print()


if __name__ == "__main__":
    main()
