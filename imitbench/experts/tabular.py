"""Experts of tabular environments, computed exactly from the environment's model."""

from __future__ import annotations

from typing import Any

import numpy as np

from imitbench.algorithms.mce_planning import mce_partition_fh
from imitbench.algorithms.optimal_planning import optimal_policy
from imitbench.data.tabular import TabularModel
from imitbench.policies.tabular import ObservationTabularPolicy


def compute_expert(env: Any, temperature: float = 0.0) -> ObservationTabularPolicy:
    """Computes the expert of a tabular environment.

    Args:
        env: Tabular environment.
        temperature: 0 for the deterministic policy with the highest expected return; above 0 for
            the policy that maximizes return plus `temperature` times causal entropy, in nats.

    Returns:
        The policy, for the environment's observations.

    Raises:
        ValueError: `env` is not tabular, or `temperature` is negative.
    """
    if not temperature >= 0:
        raise ValueError(f"temperature must not be negative, but is {temperature}")
    model = TabularModel.of(env)
    if temperature == 0:
        pi, _ = optimal_policy(model)
    else:
        _, _, pi = mce_partition_fh(env, reward=np.asarray(model.rewards) / temperature)
    return ObservationTabularPolicy.of(env, pi)
