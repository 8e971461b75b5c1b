"""Density-based reward modeling in the harness: its budget and its curve."""

import numpy as np
import pytest

from imitbench.rewards.storage import load_reward_net, save_reward

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


@pytest.mark.parametrize(
    ("env", "density_type", "settings"),
    [
        ("Pendulum-v1", "state", {}),
        ("Pendulum-v1", "state_state", {"standardise_inputs": "false"}),
        ("Pendulum-v1", "state_action", {"kernel": "exponential"}),
        ("seals/CartPole-v0", "state_action", {}),
    ],
)
def test_the_stored_reward_is_the_one_that_trains(set_up, tmp_path, env, density_type, settings):
    learner = set_up("density", env, density_type=density_type, **settings, **SMALL)
    demos, space = learner.trainer.transitions[None], learner.task.observation_space
    rng = np.random.default_rng(0)
    obs = demos[rng.integers(len(demos), size=20), : space.shape[0]].astype(space.dtype)
    learner.task.action_space.seed(0)
    acts = np.stack([learner.task.action_space.sample() for _ in range(20)])
    steps = obs, acts, obs[::-1].copy(), np.zeros(20)
    save_reward(learner.reward(), tmp_path)
    stored = load_reward_net(tmp_path).predict(*steps)
    np.testing.assert_array_equal(stored, learner.ppo.reward_fn(*steps))
    assert np.ptp(stored) > 0.1
    files = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 8 * demos.size < files < 8 * demos.size + 4096


def test_a_density_of_each_time_step_is_no_function_of_a_transition(set_up):
    learner = set_up("density", is_stationary="false", **SMALL)
    assert learner.reward() is None
    with pytest.raises(ValueError, match="does not see the time step"):
        learner.trainer.reward_net()


def test_a_budget_below_one_rollout_is_reported(set_up, train):
    with pytest.raises(ValueError, match=r"199 environment steps is less than .* 200"):
        train(set_up("density", **SMALL), 199)


def test_training_raises_the_density(set_up, train):
    options = {"n_envs": "4", "n_steps": "200", "learning_rate": "0.003", "density_type": "state"}
    _, points = train(set_up("density", **options), 8000)
    returns = [m["rollout/log_density_mean"] for _, m in points if m]
    assert np.mean(returns[-3:]) > np.mean(returns[:3]) + 50
