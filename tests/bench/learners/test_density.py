"""Density-based reward modelling in the harness: its budget and its curve."""

import numpy as np
import pytest

SMALL = {"n_envs": "2", "n_steps": "100", "hidden_size": "8"}


@pytest.mark.parametrize("stationary", ["true", "false"])
@pytest.mark.parametrize("density_type", ["state", "state_action", "state_state"])
def test_rollouts_fill_the_budget_and_never_exceed_it(set_up, train, density_type, stationary):
    learner = set_up("density", density_type=density_type, is_stationary=stationary, **SMALL)
    spent, points = train(learner, 899)
    assert spent == 800
    assert [step for step, _ in points] == [200, 400, 600, 800]
    ended = [metrics for _, metrics in points if "rollout/return_mean" in metrics]
    assert len(ended) == 2  # episodes have 200 steps, and end with every second rollout
    assert all(metrics["rollout/length_mean"] == 200 for metrics in ended)
    assert all(np.isfinite(metrics["rollout/log_density_mean"]) for metrics in ended)


def test_a_budget_below_one_rollout_is_reported(set_up, train):
    with pytest.raises(ValueError, match=r"199 environment steps is less than .* 200"):
        train(set_up("density", **SMALL), 199)


def test_training_raises_the_density(set_up, train):
    options = {"n_envs": "4", "n_steps": "200", "learning_rate": "0.003", "density_type": "state"}
    _, points = train(set_up("density", **options), 8000)
    returns = [m["rollout/log_density_mean"] for _, m in points if m]
    assert np.mean(returns[-3:]) > np.mean(returns[:3]) + 50
