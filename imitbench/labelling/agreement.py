"""How well annotators agree with each other, with themselves, and with the obvious."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.labelling.answers import GivenAnswer
from imitbench.labelling.label_set import Pair

Array = npt.NDArray[np.float64]

REPLICATES = 2000
_LEVEL = 0.95


@dataclass(frozen=True)
class Alpha:
    """Krippendorff's alpha.

    Attributes:
        value: 1 for complete agreement, 0 for that of chance; NaN if it is not defined, as when all
            values are equal or no unit has two.
        low: Lower end of the 95 % bootstrap interval.
        high: Upper end.
        units: Number of units with at least two values.
    """

    value: float
    low: float
    high: float
    units: int


def krippendorff_alpha(values: npt.ArrayLike, rng: np.random.Generator) -> Alpha:
    """Computes alpha for interval data, and a percentile interval by resampling units.

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), sections C and D; for
    the interval, resampling of units as in Zapf et al., BMC Medical Research Methodology 16 (2016).

    Args:
        values: Shape `(coders, units)`, NaN where a coder gave no value.
        rng: Generator of the bootstrap.
    """
    table = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(table)
    usable = table[:, known.sum(axis=0) >= 2]
    if not usable.size:
        return Alpha(np.nan, np.nan, np.nan, 0)
    categories = np.unique(usable[~np.isnan(usable)])
    # Per unit, how often each category occurs.
    counts = np.stack([(usable == category).sum(axis=0) for category in categories], axis=1)
    per_unit = _coincidences(counts.astype(np.float64))
    units = len(per_unit)
    value = float(_alphas(per_unit.sum(axis=0)[None], categories)[0])
    draws = rng.multinomial(units, np.full(units, 1 / units), size=REPLICATES)
    flat = draws.astype(np.float64) @ per_unit.reshape(units, -1)
    sampled = _alphas(flat.reshape(REPLICATES, *per_unit.shape[1:]), categories)
    defined = sampled[~np.isnan(sampled)]
    low = high = np.nan
    if len(defined):
        tail = (1 - _LEVEL) / 2
        low, high = (float(end) for end in np.quantile(defined, [tail, 1 - tail]))
    return Alpha(value, low, high, units)


def _coincidences(counts: Array) -> Array:
    """Coincidence matrix of each unit, from its counts of shape `(units, categories)`."""
    total = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :]
    diagonal = np.arange(counts.shape[1])
    pairs[:, diagonal, diagonal] -= counts
    coincidences: Array = pairs / (total - 1)[:, None, None]
    return coincidences


def _alphas(coincidences: Array, categories: Array) -> Array:
    """Alpha of each coincidence matrix, shape `(matrices, categories, categories)`."""
    margins = coincidences.sum(axis=2)
    total = margins.sum(axis=1)
    distances = (categories[:, None] - categories[None, :])[None] ** 2
    observed = (coincidences * distances).sum(axis=(1, 2))
    expected = (margins[:, :, None] * margins[:, None, :] * distances).sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha: Array = 1 - (total - 1) * observed / expected
    return np.where(expected > 0, alpha, np.nan)


@dataclass(frozen=True)
class AnnotatorSummary:
    """What one annotator did.

    Attributes:
        number: Number of the annotator.
        answers: Number of answers, skips included.
        choices: Number of answers by choice.
        left_share: Share of the left side among decided answers; `None` without any.
        median_ms: Median time of an answer; `None` if unknown.
        repeats: Pairs shown twice and answered twice without a skip.
        consistent: How many of these got the same preference twice.
        obvious: Obvious pairs answered.
        sane: How many of these got the expected preference.
    """

    number: int
    answers: int
    choices: dict[str, int]
    left_share: float | None
    median_ms: float | None
    repeats: int
    consistent: int
    obvious: int
    sane: int

    def weight(self) -> float:
        """Reliability in (0, 1]: how much more often than by chance obvious pairs were right.

        With Laplace's rule for few pairs; 1 if there were none.
        """
        if not self.obvious:
            return 1.0
        return max(0.05, 2 * (self.sane + 1) / (self.obvious + 2) - 1)


def summarize(
    number: int, answers: Sequence[GivenAnswer], pairs: dict[str, Pair]
) -> AnnotatorSummary:
    """Summarizes the answers of one annotator.

    Args:
        number: Number of the annotator.
        answers: Answers of this annotator.
        pairs: Pairs of the set by digest.
    """
    choices = dict.fromkeys(("left", "right", "tie", "skip"), 0)
    for answer in answers:
        choices[answer.choice] += 1
    decided = choices["left"] + choices["right"]
    times = [answer.response_ms for answer in answers if answer.response_ms is not None]
    first = {a.pair: a.preference for a in answers if a.purpose == "new"}
    both = [
        (first[a.pair], a.preference) for a in answers if a.purpose == "repeat" and a.pair in first
    ]
    known = [(one, two) for one, two in both if not (np.isnan(one) or np.isnan(two))]
    checks = [
        (answer.preference, 1.0 if pairs[answer.pair].expected == "first" else 0.0)
        for answer in answers
        if answer.purpose == "obvious" and answer.pair in pairs
    ]
    return AnnotatorSummary(
        number=number,
        answers=len(answers),
        choices=choices,
        left_share=choices["left"] / decided if decided else None,
        median_ms=float(np.median(times)) if times else None,
        repeats=len(known),
        consistent=sum(one == two for one, two in known),
        obvious=len(checks),
        sane=sum(given == wanted for given, wanted in checks),
    )


def agreement(answers: Iterable[GivenAnswer]) -> Alpha:
    """Agreement between annotators on ordinary pairs.

    The first answer of each annotator to each pair counts; skips are missing values. A tie lies
    half-way between the two preferences.

    Args:
        answers: Answers of all annotators.
    """
    given: dict[tuple[int, str], float] = {}
    for answer in answers:
        if answer.purpose == "new":
            given.setdefault((answer.annotator, answer.pair), answer.preference)
    people, rows = np.unique([person for person, _ in given], return_inverse=True)
    pairs, columns = np.unique([pair for _, pair in given], return_inverse=True)
    table = np.full((len(people), len(pairs)), np.nan)
    table[rows, columns] = list(given.values())
    return krippendorff_alpha(table, np.random.default_rng(0))
