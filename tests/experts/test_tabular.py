"""Computed experts: the optimal policy, softer ones, and saving them."""

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
from support.tabular import small_model

from imitbench.algorithms.mce_planning import mce_partition_fh, policy_value, policy_value_regret
from imitbench.experts.training import compute_expert
from imitbench.policies.storage import load_policy, save_policy


def test_the_optimal_policy_has_no_regret():
    env = gym.make("seals/CliffWorld7x4-v0")
    assert policy_value_regret(env, compute_expert(env).pi) == pytest.approx(0, abs=1e-12)


def test_temperature_trades_return_for_entropy():
    env = small_model(deterministic=False)
    np.testing.assert_allclose(compute_expert(env, 1.0).pi, mce_partition_fh(env)[2])
    values = [policy_value(env, compute_expert(env, t).pi) for t in (0.0, 0.1, 1.0, 10.0)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(policy_value(env, compute_expert(env, 1e-4).pi))


def test_a_negative_temperature_is_refused():
    with pytest.raises(ValueError, match="temperature must not be negative"):
        compute_expert(small_model(deterministic=False), -1.0)


def test_the_policy_is_saved_without_pickle(tmp_path):
    env = gym.make("seals/CliffWorld7x4XY-v0")
    expert = compute_expert(env)
    save_policy(expert, tmp_path)
    again = load_policy(tmp_path)
    np.testing.assert_array_equal(again.pi, expert.pi)
    observations = env.unwrapped.observation_matrix
    np.testing.assert_array_equal(
        again.predict(observations)[0], expert.predict(observations, deterministic=True)[0]
    )
