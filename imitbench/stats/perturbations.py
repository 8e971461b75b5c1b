"""Does a perturbation cost one algorithm more than another? Differences of differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from imitbench.stats.mean_test import mean_test
from imitbench.stats.significance import holm, welch

if TYPE_CHECKING:
    from imitbench.stats.strata import FloatArray


@dataclass(frozen=True)
class PerturbationEffect:
    """What a perturbation changes for two algorithms.

    Attributes:
        perturbed: Environment with the perturbation.
        control: The same without.
        changes: Mean score with it less mean score without, of the first and the second.
        difference: The first change less the second; above 0 if it costs the first less.
        low: Lower end of the interval of the difference; NaN where a cell has a single run.
        high: Upper end.
        p_value: Two-sided p of no difference.
        adjusted: The same, corrected by Holm for all perturbations.
    """

    perturbed: str
    control: str
    changes: tuple[float, float]
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float


def perturbation_effects(
    first: Mapping[str, FloatArray],
    second: Mapping[str, FloatArray],
    controls: Mapping[str, str],
    *,
    level: float = 0.95,
    replicates: int = 50_000,
    seed: int = 0,
) -> list[PerturbationEffect]:
    """Compares two algorithms by what perturbations change.

    An algorithm that is worse everywhere has a lower score under a perturbation, too: only the
    change against its own control says whether it is less robust. With the sides of the control
    exchanged, the difference of two changes is twice a mean difference over two environments, so
    that the tests and intervals of these hold for it.

    Args:
        first: Scores of the first algorithm by environment.
        second: Scores of the second.
        controls: Environments without perturbation, by that with it. Those that lack runs of an
            algorithm in one of both are left out.
        level: Confidence level of the intervals, in (0, 1).
        replicates: Number of permutations, if they are drawn.
        seed: Seed of these.

    Returns:
        An effect for each perturbation, in the order of `controls`.

    Source: `imitbench.stats.mean_test` and `imitbench.stats.significance.welch` for the mean over
    environments; Holm 1979.
    """
    found = []
    for perturbed, control in controls.items():
        if any(env not in scores for env in (perturbed, control) for scores in (first, second)):
            continue
        one = {perturbed: first[perturbed], control: second[control]}
        other = {perturbed: second[perturbed], control: first[control]}
        half = welch(one, other, level=level)
        p_value = mean_test(one, other, replicates=replicates, rng=np.random.default_rng(seed))
        ours, theirs = (
            float(np.mean(scores[perturbed]) - np.mean(scores[control]))
            for scores in (first, second)
        )
        ends = (2 * half.low, 2 * half.high)
        found.append(
            PerturbationEffect(
                perturbed, control, (ours, theirs), ours - theirs, *ends, p_value, p_value
            )
        )
    adjusted = holm({effect.perturbed: effect.p_value for effect in found})
    return [replace(effect, adjusted=adjusted[effect.perturbed]) for effect in found]
