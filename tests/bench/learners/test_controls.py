"""Controls: their reward is constant, so only the length of episodes matters."""

import numpy as np
import pytest

from imitbench.algorithms.off_policy.rewarded import ConstantRewardTrainer
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.experts.lookup import find_environment

CONTROLS = [name for name in algorithm_names() if load_algorithm(name).role == "control"]
PPO_CONTROLS = [name for name in CONTROLS if name != "constant_reward"]
SMALL = {"n_envs": "4", "n_steps": "50", "hidden_size": "8", "learning_rate": "0.02"}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_need_neither_demonstrations_nor_expert_nor_reward(name):
    card = load_algorithm(name)
    assert not (card.needs.demos or card.needs.expert or card.needs.true_reward)


@pytest.mark.parametrize(
    ("name", "lean"), [*((name, "true") for name in PPO_CONTROLS), (PPO_CONTROLS[0], "false")]
)
def test_rollouts_fill_the_budget_and_the_curve_shows_terminations(set_up, train, name, lean):
    spent, points = train(set_up(name, demos=[], lean_ppo=lean, **SMALL), 899)
    assert spent == 800
    assert [step for step, _ in points] == [200, 400, 600, 800]
    assert points[-1][1]["rollout/length_mean"] == 200
    assert points[-1][1]["rollout/termination_rate"] == 0


@pytest.mark.parametrize(
    ("name", "env", "steps"),
    [
        ("constant_plus", "seals/EarlyTermNeg-v0", 10),
        ("constant_minus", "seals/EarlyTermPos-v0", 2),
    ],
)
def test_constant_rewards_teach_survival_or_termination(set_up, train, name, env, steps):
    learner = set_up(name, env=env, demos=[], **SMALL)
    train(learner, 1600)
    with Evaluator(find_environment(env), 10) as evaluator:
        found = evaluator.evaluate(learner.policy(), episodes=20, seed=0, deterministic=False)
    assert abs(np.mean(found.lengths) - steps) < 1


SMALL_REPLAY = {"learning_starts": "100", "hidden_size": "16", "temperature": "0.01",
                "learn_temperature": "false", "policy_tau": "1.0", "gamma": "0.9"}  # fmt: skip


@pytest.mark.parametrize(
    ("reward", "env", "steps"),
    [("1", "seals/EarlyTermNeg-v0", 10), ("-1", "seals/EarlyTermPos-v0", 2)],
)
def test_constant_rewards_teach_the_agent_with_a_replay_buffer(set_up, train, reward, env, steps):
    settings = {**SMALL_REPLAY, "absorbing_states": "false"}
    learner = set_up("constant_reward", env=env, demos=[], reward=reward, **settings)
    train(learner, 1500)
    with Evaluator(find_environment(env), 10) as evaluator:
        found = evaluator.evaluate(learner.policy(), episodes=20, seed=0, deterministic=True)
    assert abs(np.mean(found.lengths) - steps) < 1


def test_absorbing_states_have_the_constant_reward_too(set_up, train):
    """So that all states are worth the same, and the critics learn a constant."""
    env = "seals/EarlyTermNeg-v0"
    learner = set_up("constant_reward", env=env, demos=[], **SMALL_REPLAY)
    train(learner, 1500)
    batch = learner.trainer._replay.sample(learner.trainer.streams, 64)
    assert not batch.terminal.any()
    values = learner.trainer.agent.values(batch.obs, batch.acts).detach().numpy()
    assert values.std() < 0.3
    assert values.mean() > 2


def test_the_reward_of_the_agent_is_finite():
    with pytest.raises(ValueError, match="reward must be finite"):
        ConstantRewardTrainer(reward=float("nan"), venv=None)


def test_the_reward_is_constant(set_up):
    learner = set_up("constant_minus", demos=[], **SMALL)
    obs, acts = np.zeros((5, 3)), np.zeros((5, 1))
    np.testing.assert_array_equal(learner._rewards(obs, acts, obs, np.zeros(5)), -np.ones(5))
