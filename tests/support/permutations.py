"""Permutations of the plain difference of means, to compare with the test of verdicts."""

import numpy as np


def permutation_p_value(first, second, *, replicates=50_000):
    """Returns p of drawn relabelings within each environment (Pitman 1937).

    Args:
        first: Scores by environment.
        second: Scores on the same environments.
        replicates: Number of relabelings.
    """
    rng = np.random.default_rng(0)
    actual, shuffled = 0.0, np.zeros(replicates)
    for env, scores in first.items():
        ours, pooled = len(scores), np.concatenate([scores, second[env]])
        actual += pooled[:ours].mean() - pooled[ours:].mean()
        drawn = rng.permuted(np.broadcast_to(pooled, (replicates, pooled.size)), axis=1)
        shuffled += drawn[:, :ours].mean(axis=1) - drawn[:, ours:].mean(axis=1)
    extreme = np.abs(shuffled) >= abs(actual) - 1e-12
    return (extreme.sum() + 1) / (replicates + 1)
