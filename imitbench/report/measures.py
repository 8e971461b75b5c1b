"""Averages and explains the measurements that methods make in addition to returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imitbench.records.runs import MeasureRow
from imitbench.report.model import MeasureSummary

MEANINGS = {
    "reward_correlation": (
        "Spearman's rank correlation of learned and true returns over episodes that training "
        "never saw"
    ),
    "reward_step_correlation": (
        "the same of single steps, in episodes of the expert, of the policy and of random actions"
    ),
    "preference_accuracy": (
        "share of fragment pairs from such episodes that the learned reward orders as the true "
        "one does"
    ),
    "agreement_dard": (
        "DARD distance of learned and true reward: 0 for the same up to shaping and scale, 0.71 "
        "for unrelated ones, 1 for opposites; compares steps that the dynamics allow"
    ),
    "agreement_epic": "EPIC distance of learned and true reward, on the same scale",
    "agreement_pair_accuracy": (
        "share of pairs of fragments, of episodes of expert, learner, random actions and mixtures, "
        "that both rewards order alike"
    ),
    "agreement_pearson_return": "Pearson's correlation of the returns of such episodes",
    "agreement_pearson_step": "Pearson's correlation of the rewards of their steps",
    "agreement_spearman_return": "Spearman's rank correlation of their returns",
    "agreement_spearman_step": "Spearman's rank correlation of the rewards of their steps",
    "transfer_return": (
        "mean return of an agent that started from scratch on the learned reward, which learned no "
        "more"
    ),
    "transfer_score": "the score of that agent",
    "disagreement_demonstrations": (
        "standard deviation of an ensemble's actions, scaled to [-1, 1], in the demonstrations"
    ),
    "disagreement_visited": "the same in fresh episodes of the ensemble itself",
    "expert_queries": "observations for which the expert was asked for an action during training",
    "expert_share": "share of the environment steps of training in which the expert acted",
    "expert_takeovers": "how often the expert began to act",
    "swept_error_area": "area between a motion and the demonstration that it began near, in mm²",
    "end_distance": "distance to the goal at the end of a motion, in mm",
    "dtw_distance": (
        "dynamic time warping distance of a motion to the nearest demonstration, in mm per point"
    ),
}
"""Meanings of the measurements of bundled methods; others are shown by name only."""

_ENDS = ("_low", "_high")
"""Ends of intervals of single runs, which are not averaged: they are in the database."""


def summarize_measures(rows: Sequence[MeasureRow]) -> tuple[MeasureSummary, ...]:
    """Averages measurements over runs.

    Args:
        rows: Measurements of runs that may be averaged, in any order.

    Returns:
        One entry for each environment, algorithm and measure, sorted.
    """
    values: dict[tuple[str, str, str], list[tuple[int, str, float]]] = {}
    names = {row.measure for row in rows}
    for row in rows:
        if any(row.measure.removesuffix(end) in names - {row.measure} for end in _ENDS):
            continue
        found = values.setdefault((row.env, row.algo, row.measure), [])
        found.append((row.seed, row.run_id, row.value))
    summaries = []
    for (environment, algorithm, measure), found in sorted(values.items()):
        # Sorted, so that rounding does not depend on the order of the rows.
        column = np.array([value for _, _, value in sorted(found)])
        std = float(column.std(ddof=1)) if len(column) > 1 else None
        summaries.append(
            MeasureSummary(environment, algorithm, measure, len(column), float(column.mean()), std)
        )
    return tuple(summaries)
