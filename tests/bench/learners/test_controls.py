"""Controls: their reward is constant, so only the length of episodes matters."""

import numpy as np
import pytest

from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.experts.lookup import find_environment

CONTROLS = [name for name in algorithm_names() if load_algorithm(name).role == "control"]
SMALL = {"n_envs": "4", "n_steps": "50", "hidden_size": "8", "learning_rate": "0.02"}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_need_neither_demonstrations_nor_expert_nor_reward(name):
    card = load_algorithm(name)
    assert not (card.needs.demos or card.needs.expert or card.needs.true_reward)


@pytest.mark.parametrize(
    ("name", "lean"), [*((name, "true") for name in CONTROLS), (CONTROLS[0], "false")]
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


def test_the_reward_is_constant(set_up):
    learner = set_up("constant_minus", demos=[], **SMALL)
    obs, acts = np.zeros((5, 3)), np.zeros((5, 1))
    np.testing.assert_array_equal(learner._rewards(obs, acts, obs, np.zeros(5)), -np.ones(5))
