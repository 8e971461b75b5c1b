"""The sequence of pairs that an annotator sees, with repeats and obvious pairs mixed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitbench.labelling.answers import Purpose
from imitbench.labelling.label_set import Pair, SetHeader

REPEAT_SHARE = 0.10
OBVIOUS_SHARE = 0.05
_LEAST_DISTANCE = 5  # answers between a pair and its repeat, so that people do not remember


@dataclass(frozen=True)
class PresentedPair:
    """One position in a sequence.

    Attributes:
        position: Its number, from 0.
        pair: The pair to show.
        purpose: Why it is shown.
        swapped: Whether the second fragment is on the left.
    """

    position: int
    pair: Pair
    purpose: Purpose
    swapped: bool

    @property
    def sides(self) -> tuple[int, int]:
        """Numbers of the left and the right fragment."""
        first, second = self.pair.first, self.pair.second
        return (second, first) if self.swapped else (first, second)


def schedule(header: SetHeader, stream: int) -> list[PresentedPair]:
    """Draws the sequence of an annotator.

    Ordinary pairs come in random order. A tenth of them comes again later, with sides exchanged,
    and obvious pairs stand at random positions; annotators are not told which is which.

    Args:
        header: The set.
        stream: Number of the annotator's random stream; with the set's seed it determines the
            sequence.
    """
    return sequence(header.pairs, [header.seed, stream])


def asked_of_each(header: SetHeader) -> str:
    """Says what each annotator is asked: `12 questions: 10 pairs, 1 of them twice, 1 obvious`."""
    shown = Counter(pair.purpose for pair in schedule(header, 0))
    parts = [f"{shown['new']} pairs"]
    if shown["repeat"]:
        parts.append(f"{shown['repeat']} of them twice")
    if shown["obvious"]:
        parts.append(f"{shown['obvious']} obvious")
    return f"{shown.total()} questions: {', '.join(parts)}"


def sequence(pairs: Sequence[Pair], seed: Sequence[int]) -> list[PresentedPair]:
    """Draws the order of some pairs, with repeats; see `schedule`."""
    rng = np.random.default_rng(seed)
    ordinary = [pair for pair in pairs if pair.expected is None]
    obvious = [pair for pair in pairs if pair.expected is not None]
    shown: list[tuple[Pair, Purpose, bool]] = [
        (ordinary[index], "new", bool(rng.integers(2))) for index in rng.permutation(len(ordinary))
    ]
    repeats = _draw_repeats(shown, rng)
    for position, entry in sorted(repeats, key=lambda item: item[0], reverse=True):
        shown.insert(position, entry)
    for index in rng.permutation(len(obvious)):
        entry = (obvious[index], "obvious", bool(rng.integers(2)))
        shown.insert(int(rng.integers(len(shown) + 1)), entry)
    return [PresentedPair(position, *entry) for position, entry in enumerate(shown)]


def _draw_repeats(
    shown: Sequence[tuple[Pair, Purpose, bool]], rng: np.random.Generator
) -> list[tuple[int, tuple[Pair, Purpose, bool]]]:
    """Draws pairs to show again, each with the position before which it is inserted."""
    eligible = max(len(shown) - _LEAST_DISTANCE, 0)
    count = min(round(REPEAT_SHARE * len(shown)), eligible)
    drawn = []
    for index in rng.choice(eligible, size=count, replace=False) if count else ():
        pair, _, swapped = shown[index]
        position = int(rng.integers(index + 1 + _LEAST_DISTANCE, len(shown) + 1))
        drawn.append((position, (pair, "repeat", not swapped)))
    return drawn  # type: ignore[return-value]
