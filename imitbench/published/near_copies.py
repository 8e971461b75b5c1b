"""Finds runs whose returns are nearly those of other runs, as of a copy with a little noise.

Honest runs start their episodes from the same states, and good policies earn similar returns there.
The closest honest runs that are published, two of DAgger, differ in the median episode by 0.0008
standard deviations, and the closest ones of different methods by 0.003. A copy differs by less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Returns = npt.NDArray[np.float64]

_NEAR = 1e-4  # standard deviations, or quartile ranges, between nearly equal returns
_SHARE = 0.5  # of the episodes, which must be nearly equal
_LEAST = 8  # episodes, below which near returns say nothing
_MOST_NUMBERS = 200_000_000  # compared; takes seconds


def near_pairs(returns: Sequence[Returns]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of runs with nearly the same returns, the smaller one first.

    Returns are compared episode by episode, so that a copy is found of which a part was changed,
    and as sorted sets after a shift and a rescaling, so that their order and unit do not matter.

    Args:
        returns: Returns of each run; all in the same environment, and with enough different values
            to say something.
    """
    by_length: dict[int, list[int]] = {}
    for number, each in enumerate(returns):
        if len(each) >= _LEAST:
            by_length.setdefault(len(each), []).append(number)
    left = _MOST_NUMBERS
    for length, numbers in by_length.items():
        table = np.array([returns[number] for number in numbers])
        scale = table.std(axis=1)
        ranked = _standardized(np.sort(table, axis=1))
        for row in range(len(numbers) - 1):
            left -= length * (len(numbers) - row)
            if left < 0:
                return
            bound = _NEAR * np.minimum(scale[row], scale[row + 1 :])[:, None]
            near = _most(np.abs(table[row + 1 :] - table[row]) <= bound)
            near |= _most(np.abs(ranked[row + 1 :] - ranked[row]) <= _NEAR)
            for other in np.flatnonzero(near):
                yield numbers[row], numbers[row + 1 + int(other)]


def _standardized(ordered: Returns) -> Returns:
    """Returns sorted rows with median 0 and a distance of 1 between the quartiles."""
    low, middle, high = np.percentile(ordered, (25, 50, 75), axis=1)
    width = np.where(high > low, high - low, np.nan)  # without a scale, nothing is near
    found: Returns = (ordered - middle[:, None]) / width[:, None]
    return found


def _most(near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = near.mean(axis=1) >= _SHARE
    return found
