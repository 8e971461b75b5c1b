"""SQIL in the harness: which algorithm, its budget, its curve."""

import pytest
import stable_baselines3

from imitbench.rl.dqn import DQN
from imitbench.rl.sac import SAC

SMALL = {"n_envs": "4", "learning_starts": "40", "buffer_size": "500", "hidden_size": "8"}


@pytest.mark.parametrize(
    ("env", "lean", "kind"),
    [
        ("seals/CartPole-v0", "true", DQN),
        ("Pendulum-v1", "true", SAC),
        ("seals/CartPole-v0", "false", stable_baselines3.DQN),
        ("Pendulum-v1", "false", stable_baselines3.SAC),
    ],
)
def test_the_algorithm_follows_the_action_space(set_up, train, env, lean, kind):
    learner = set_up("sqil", env=env, lean=lean, **SMALL)
    assert type(learner._algorithm) is kind
    assert train(learner, 80)[0] == 80


def test_the_budget_is_never_exceeded(set_up, train):
    learner = set_up("sqil", **SMALL)
    assert train(learner, 1003)[0] == 1000
    assert train(learner, 1003)[0] == 1000  # spent, and not spent again


def test_the_curve_shows_episodes_and_losses(set_up, train):
    _, points = train(set_up("sqil", train_freq="5", **SMALL), 4000)
    steps = [step for step, _ in points]
    assert steps == sorted(set(steps))
    assert 35 <= len(steps) <= 45
    assert steps[-1] == 4000
    ended = [metrics for _, metrics in points if "rollout/return_mean" in metrics]
    assert sum(1 for _ in ended) == 5  # four environments, 1,000 steps each, episodes of 200
    assert all(-2000 < metrics["rollout/return_mean"] < 0 for metrics in ended)
    assert "train/critic_loss" in points[-1][1]
