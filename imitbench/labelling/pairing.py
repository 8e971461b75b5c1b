"""Chooses which fragments are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.bench.seeding import derive_seed
from imitbench.data.types import TrajectoryWithRew
from imitbench.labelling.label_set import Pair
from imitbench.labelling.schedule import OBVIOUS_SHARE

_TAIL = 0.2  # obvious pairs compare fragments of the best fifth with those of the worst


def make_pairs(fragments: Sequence[TrajectoryWithRew], count: int, seed: int) -> list[Pair]:
    """Pairs fragments at random, and adds obvious pairs of the best and the worst ones.

    Args:
        fragments: `2 * count` fragments or more; the further ones are not used.
        count: Number of ordinary pairs.
        seed: Determines the pairs.

    Returns:
        Ordinary pairs, then obvious ones: one for 20 ordinary pairs, at least one, and none if the
        rewards are unknown or do not tell the fragments apart.
    """
    rng = _generator(seed)
    order = rng.permutation(2 * count)
    return _with_obvious(
        fragments, [(int(order[2 * i]), int(order[2 * i + 1])) for i in range(count)], rng
    )


def recorded_pairs(fragments: Sequence[TrajectoryWithRew], seed: int) -> list[Pair]:
    """Pairs each fragment at an even place with the next one, and adds obvious pairs.

    Args:
        fragments: An even number of fragments.
        seed: Determines the obvious pairs.

    Returns:
        As `make_pairs`; equal pairs are there once.
    """
    chosen = [(first, first + 1) for first in range(0, len(fragments), 2)]
    return _with_obvious(fragments, chosen, _generator(seed))


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([derive_seed(seed, "labelling"), 1])


def _with_obvious(
    fragments: Sequence[TrajectoryWithRew],
    chosen: Sequence[tuple[int, int]],
    rng: np.random.Generator,
) -> list[Pair]:
    count = len(chosen)
    pairs: dict[str, Pair] = {}
    for first, second in chosen:
        pair = _pair(fragments, first, second, None)
        pairs.setdefault(pair.digest, pair)
    for better, worse in _obvious(fragments, rng, max(1, round(OBVIOUS_SHARE * count))):
        first, second = (better, worse) if rng.integers(2) else (worse, better)
        pair = _pair(fragments, first, second, "first" if first == better else "second")
        pairs.setdefault(pair.digest, pair)
    return list(pairs.values())


def _pair(
    fragments: Sequence[TrajectoryWithRew], first: int, second: int, expected: str | None
) -> Pair:
    digest = pair_digest(fragments[first], fragments[second])
    return Pair.model_validate(
        {"digest": digest, "first": first, "second": second, "expected": expected}
    )


def _obvious(
    fragments: Sequence[TrajectoryWithRew], rng: np.random.Generator, count: int
) -> list[tuple[int, int]]:
    """Draws pairs of a much better and a much worse fragment, by the environment's reward."""
    returns: npt.NDArray[np.float64] = np.array([fragment.rews.sum() for fragment in fragments])
    if not np.isfinite(returns).all():
        return []
    tail = max(1, round(_TAIL * len(returns)))
    order = np.argsort(returns, kind="stable")
    worst, best = order[:tail], order[-tail:]
    spread = float(returns.std())
    drawn = []
    for _ in range(20 * count):
        better, worse = int(rng.choice(best)), int(rng.choice(worst))
        if returns[better] - returns[worse] > spread and (better, worse) not in drawn:
            drawn.append((better, worse))
        if len(drawn) == count:
            break
    return drawn
