"""How far two rewards agree on episodes: correlations, pairs of fragments and distances.

Every number has an interval of 95 % from the bootstrap over whole episodes, whose steps depend on
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.data.tabular import TabularModel
from imitbench.rewards.distances import (
    ConstantRewardError,
    Steps,
    canonical_distance,
    canonical_rewards,
    dard_rewards,
    dard_tabular,
    epic_tabular,
    step_rewards,
)
from imitbench.rewards.reward_function import RewardFn

Floats: TypeAlias = npt.NDArray[np.float64]
Part: TypeAlias = tuple[Floats, Floats]
"""Learned and true rewards of the steps of an episode."""
Measure = Literal[
    "pearson_step", "spearman_step", "pearson_return", "spearman_return", "pair_accuracy",
    "epic", "dard",
]  # fmt: skip
ALL = "all"
"""Name of all behaviors together."""

_CORRELATIONS: dict[tuple[str, bool], Measure] = {
    ("step", False): "pearson_step",
    ("step", True): "spearman_step",
    ("return", False): "pearson_return",
    ("return", True): "spearman_return",
}
_PAIRS = 1000
_REPLICATES = 500
_NOTHING = 1e-14  # variance of equal values, whose largest is 1, after rounding
_LEAST_EPISODES = 3  # of a correlation of returns


@dataclass(frozen=True)
class Estimate:
    """One number about a reward.

    Attributes:
        measure: What was measured.
        behavior: Where: the name of a behavior, or `all`.
        value: The estimate.
        low: Lower end of its interval of 95 %.
        high: Upper end.
    """

    measure: Measure
    behavior: str
    value: float
    low: float
    high: float


def agreement(
    behaviors: Mapping[str, Sequence[Part]], fragment_length: int, seed: int
) -> list[Estimate]:
    """Compares rewards on each behavior, and on all together.

    Correlations are Pearson's and Spearman's, of single steps and of returns of whole episodes.
    `pair_accuracy` is the share of pairs of fragments that both rewards order alike: it covers
    pairs whose true returns differ; a pair with equal learned returns counts half.

    Args:
        behaviors: Rewards of whole episodes by name of the behavior.
        fragment_length: Steps of a fragment.
        seed: Seed of the choice of fragments.

    Returns:
        Estimates; one that is undefined, because all rewards of one side are equal, is omitted.
    """
    found: list[Estimate] = []
    for name, parts in [
        *behaviors.items(),
        (ALL, [part for episodes in behaviors.values() for part in episodes]),
    ]:
        returns = [(np.array([one.sum()]), np.array([other.sum()])) for one, other in parts]
        for what, values in (("step", parts), ("return", returns)):
            if what == "return" and len(parts) < _LEAST_EPISODES:
                continue
            for ranks in (False, True):
                given = correlation(values, ranks=ranks)
                if given is not None:
                    found.append(Estimate(_CORRELATIONS[what, ranks], name, *given))
        share = pair_accuracy(parts, fragment_length, seed)
        if share is not None:
            found.append(Estimate("pair_accuracy", name, *share))
    return found


def undefined_measures(
    behaviors: Mapping[str, Sequence[Part]], found: Sequence[Estimate]
) -> dict[str, str]:
    """Returns the measures that `agreement` omits for all behaviors together, with reasons.

    Args:
        behaviors: As for `agreement`.
        found: What it returned.
    """
    known = {estimate.measure for estimate in found if estimate.behavior == ALL}
    rewards = zip(*(part for episodes in behaviors.values() for part in episodes), strict=True)
    constant = [np.ptp(np.concatenate(side)) == 0 for side in rewards]
    whole, part = (
        "returns of whole episodes do not differ",
        "true returns of fragments do not differ",
    )
    if any(constant):
        whole = f"the {'learned' if constant[0] else 'true'} reward is the same in every step"
    if constant[1]:
        part = "the true reward is the same in every step"
    reasons = dict.fromkeys(_CORRELATIONS.values(), whole) | {"pair_accuracy": part}
    return {name: why for name, why in reasons.items() if name not in known}


def correlation(parts: Sequence[Part], *, ranks: bool = True) -> tuple[float, float, float] | None:
    """Computes a correlation with its interval.

    Args:
        parts: Learned and true values that belong together, such as the steps of an episode: whole
            parts are drawn again for the interval, with the ranks that they have among all.
        ranks: Spearman's correlation of ranks, not Pearson's of values.

    Returns:
        The correlation, and the ends of its interval; `None` if one side is constant.
    """
    from scipy.stats import rankdata

    # Rewards of networks have single precision, in which a correlation could exceed 1.
    learned, true = (
        np.concatenate([part[side] for part in parts], dtype=np.float64) for side in (0, 1)
    )
    if np.ptp(learned) == 0 or np.ptp(true) == 0:
        return None
    one, other = (rankdata(learned), rankdata(true)) if ranks else (learned, true)
    moments = _moments(one, other, [part[0].size for part in parts])
    ends = _interval(lambda drawn: _pearson(moments[drawn]), len(parts))
    value, low, high = np.clip([_pearson(moments), *ends], -1, 1).tolist()
    return value, low, high


def pair_accuracy(
    parts: Sequence[Part], fragment_length: int, seed: int
) -> tuple[float, float, float] | None:
    """Computes the share of pairs of fragments that both rewards order alike, see `agreement`.

    Args:
        parts: Rewards of whole episodes; those that are shorter than a fragment are left out.
        fragment_length: Steps of a fragment.
        seed: Seed of the choice of fragments.

    Returns:
        The share, and the ends of its interval; `None` if no pair's true returns differ.
    """
    kept = [part for part in parts if len(part[0]) >= fragment_length]
    if not kept:
        return None
    starts = np.cumsum([0, *(len(part[0]) for part in kept)])
    sums = [
        fragment_returns(np.concatenate([part[side] for part in kept]), starts, fragment_length)
        for side in (0, 1)
    ]
    counts = [len(part[0]) - fragment_length + 1 for part in kept]
    episode = np.repeat(np.arange(len(kept)), counts)
    pairs = np.random.default_rng(seed).integers(len(episode), size=(2, _PAIRS))
    same, told_apart = ordered_alike(sums[0], sums[1], pairs)
    if not told_apart.any():
        return None
    first, second = (episode[side][told_apart] for side in pairs)

    def of(drawn: npt.NDArray[np.int64]) -> float:
        times = np.bincount(drawn, minlength=len(kept))
        weights = times[first] * times[second]
        return float(weights @ same[told_apart] / weights.sum()) if weights.any() else float("nan")

    low, high = _interval(of, len(kept))
    return float(same[told_apart].mean()), float(low), float(high)


def ordered_alike(
    learned: Floats, true: Floats, pairs: npt.NDArray[np.int64]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Tells which pairs both rewards order alike.

    Args:
        learned: Learned returns of fragments.
        true: True returns of the same ones.
        pairs: Indices of fragments, shape (2, n).

    Returns:
        For each pair 1 if both order it alike, 0 if not, ½ if its learned returns are equal; and
        whether its true returns differ.
    """
    learned_order, true_order = (
        np.sign(side[pairs[0]] - side[pairs[1]]) for side in (learned, true)
    )
    return np.asarray((1 + learned_order * true_order) / 2), true_order != 0


def fragment_returns(rewards: Floats, starts: npt.NDArray[np.int64], length: int) -> Floats:
    """Returns the sum of rewards of every fragment that is within one episode.

    Args:
        rewards: Rewards of all steps.
        starts: Where episodes start, and the end of the last one.
        length: Steps of a fragment.
    """
    sums = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])
    first = np.concatenate([np.arange(start, end - length + 1) for start, end in pairwise(starts)])
    # Prefix sums cancel exactly only up to rounding; equal fragments must stay equal.
    return np.asarray(np.round(sums[first + length] - sums[first], 9))


def distances(
    reward_fn: RewardFn,
    truth: RewardFn,
    move: Callable[[Floats, Floats], Floats],
    steps: Steps,
    episode: npt.NDArray[np.int64],
    *,
    discount: float,
    samples: int,
    seed: int,
) -> tuple[list[Estimate], dict[str, str]]:
    """EPIC and DARD distance of a reward from the true one.

    Args:
        reward_fn: The reward.
        truth: The true reward, of any transitions.
        move: Next observations of any observations and actions, see `dard`.
        steps: Transitions, from which those that are compared are drawn: the coverage distribution.
        episode: Number of the episode of each transition.
        discount: Discount factor of the shaping that is removed.
        samples: Number of transitions that are compared, and of states and actions over which the
            means of EPIC's canonical form are taken; those of DARD's are over its square root.
        seed: Seed of these draws.

    Returns:
        Both distances, as far as they are defined; and why one is not, by its measure.
    """
    rng = np.random.default_rng(seed)
    at = rng.choice(len(steps), size=min(samples, len(steps)), replace=False)
    compared = Steps(steps.obs[at], steps.acts[at], steps.next_obs[at], steps.dones[at])
    drawn = rng.integers(len(steps), size=(2, samples))
    states, actions = steps.next_obs[drawn[0]], steps.acts[drawn[1]]
    few = actions[: max(1, round(samples**0.5))]
    both = reward_fn, truth
    plain = [step_rewards(fn, compared) for fn in both]
    with np.errstate(invalid="ignore"):  # rewards that are not finite are told below
        epic = [canonical_rewards(fn, compared, states, actions, discount) for fn in both]
        dard = [dard_rewards(fn, compared, move, actions=few, discount=discount) for fn in both]
    numbers = np.unique(episode[at], return_inverse=True)[1]
    return _defined(
        {
            "epic": lambda: _distance("epic", (epic[0], epic[1]), (plain[0], plain[1]), numbers),
            "dard": lambda: _distance("dard", (dard[0], dard[1]), (plain[0], plain[1]), numbers),
        }
    )


def tabular_distances(
    reward_fn: RewardFn, model: TabularModel, discount: float
) -> tuple[list[Estimate], dict[str, str]]:
    """Exact EPIC and DARD distance of a reward from the true one of a tabular environment.

    The transitions that are compared are, for EPIC, those of independent states and actions, all
    equally likely; for DARD, those that the model takes from such states by such actions.

    Args:
        reward_fn: The reward.
        model: The environment.
        discount: Discount factor of the shaping that is removed.

    Returns:
        As `distances`; the intervals are points.
    """
    shape = model.states, model.actions, model.states
    state, action, following = (grid.ravel() for grid in np.indices(shape))
    known = np.arange(model.states) if model.observations is None else model.observations
    none = np.zeros(state.size, dtype=bool)
    learned = np.asarray(reward_fn(known[state], action, known[following], none), np.float64)
    both = learned.reshape(shape), model.rewards

    def exact(measure: Measure, value: float) -> Estimate:
        return Estimate(measure, ALL, value, value, value)

    return _defined(
        {
            "epic": lambda: exact("epic", epic_tabular(*both, discount)),
            "dard": lambda: exact("dard", dard_tabular(*both, discount, model.transitions)),
        }
    )


def _defined(
    measures: Mapping[str, Callable[[], Estimate]],
) -> tuple[list[Estimate], dict[str, str]]:
    """Returns what can be computed of a learned and the true reward, and why the rest cannot."""
    found, without = [], {}
    for name, compute in measures.items():
        try:
            found.append(compute())
        except ConstantRewardError as error:
            without[name] = (
                f"the {('learned', 'true')[error.side]} reward is constant in the compared steps, "
                "or becomes so without its shaping"
            )
        except ValueError:
            without[name] = "the learned reward is not finite for some pairs of states"
    return found, without


def _distance(
    measure: Measure,
    forms: tuple[Floats, Floats],
    before: tuple[Floats, Floats],
    episode: npt.NDArray[np.int64],
) -> Estimate:
    """Returns a distance of canonical rewards with its interval.

    Sparse rewards are constant in some of the drawn sets of episodes; these have no say in the
    interval.

    Raises:
        ValueError: See `canonical_distance`.
    """
    parts = int(episode.max()) + 1

    def of(drawn: npt.NDArray[np.int64]) -> float:
        times = np.bincount(drawn, minlength=parts)
        try:
            return canonical_distance(forms, times[episode], before)
        except ConstantRewardError:
            return float("nan")

    value = canonical_distance(forms, before=before)
    low, high = _interval(of, parts)
    return Estimate(measure, ALL, value, float(low), float(high))


def _interval(
    statistic: Callable[[npt.NDArray[np.int64]], float], parts: int
) -> npt.NDArray[np.float64]:
    """Returns the ends of the percentile interval of 95 % of a function of drawn parts."""
    rng = np.random.default_rng(0)
    found = [statistic(rng.integers(parts, size=parts)) for _ in range(_REPLICATES)]
    return np.asarray(np.nanquantile(found, (0.025, 0.975)))


def _moments(one: Floats, other: Floats, sizes: Sequence[int]) -> Floats:
    """Returns sums over each part, from which the correlation over any parts follows.

    Args:
        one: Values of all parts.
        other: The values that belong to them.
        sizes: Number of values of each part.

    Returns:
        For each part the number of values, the sum of each side, of its squares, and of the
        products of both sides, which have mean 0 and a largest value of 1 over all parts, so that
        nothing cancels.
    """
    one, other = (side - side.mean() for side in (one, other))
    one, other = (side / np.abs(side).max() for side in (one, other))
    terms = np.stack([np.ones_like(one), one, other, one**2, other**2, one * other], axis=1)
    kept = np.array(sizes) > 0
    starts = np.cumsum([0, *sizes])[:-1]
    sums = np.zeros((len(sizes), terms.shape[1]))
    sums[kept] = np.add.reduceat(terms, starts[kept])
    return sums


def _pearson(moments: Floats) -> float:
    """Returns the correlation over parts with these `_moments`; NaN if one side is constant."""
    count, one, other, one_squared, other_squared, product = moments.sum(axis=0)
    if count == 0:
        return float("nan")
    spreads = one_squared - one**2 / count, other_squared - other**2 / count
    if min(spreads) <= count * _NOTHING:
        return float("nan")
    return float((product - one * other / count) / np.sqrt(spreads[0] * spreads[1]))
