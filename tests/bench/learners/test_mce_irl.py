"""MCE IRL in the harness: its policy, its curve, and its errors."""

import numpy as np
import pytest
from support.plans import request_of

from imitbench.algorithms.mce_irl import TabularRewardNet
from imitbench.algorithms.mce_planning import policy_value_regret
from imitbench.bench.artifacts import demos_of_run
from imitbench.bench.environments import make_environment
from imitbench.bench.learner import Task
from imitbench.bench.learners.batch_learner import CURVE_POINTS
from imitbench.bench.learners.mce_irl import MCEIRLLearner
from imitbench.bench.spec import make_spec
from imitbench.cards.catalog import load_algorithm, load_suite, suite_directory
from imitbench.data.tabular import TabularModel
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.rewards.storage import load_reward_net, save_reward

SUITE = load_suite("tabular")
ENV_ID = "imitbench/RandomMDP-0-v0"


def set_up(spec=None, **settings):
    card = load_algorithm("mce_irl")
    values = card.resolve({name: str(value) for name, value in settings.items()})
    run = make_spec(SUITE, ENV_ID, card, values, 0, request_of())
    demos = demos_of_run(run, suite_directory("tabular"))
    env = make_environment(run.environment)
    task = Task(spec or run.environment, env.observation_space, env.action_space, values, seed=0)
    learner = MCEIRLLearner()
    learner.setup(task, demos, np.random.default_rng(0), "cpu")
    return learner, env


@pytest.mark.parametrize("tabular_reward", [True, False])
def test_learns_a_policy_as_good_as_the_expert(tabular_reward):
    learner, env = set_up(tabular_reward=tabular_reward, learning_rate=0.02)
    points = []
    budget = Budget(name="quick", unit="batches", amount=600)
    assert learner.train(budget, lambda step, metrics: points.append((step, metrics))) == 0
    assert points[-1][0] == 600
    regrets = [metrics["mce_irl/regret"] for _, metrics in points]
    card = SUITE.environments[ENV_ID].references
    assert regrets[-1] < 0.1 * (card.expert.mean - card.random.mean)
    assert len(regrets) == CURVE_POINTS
    assert points[-1][1]["mce_irl/visit_distance"] < 0.05
    assert points[-1][1]["mce_irl/reward_rank_correlation"] > 0.3
    # The evaluated policy is the learned one, on observations.
    assert policy_value_regret(env, learner.policy().pi) == pytest.approx(regrets[-1])


@pytest.mark.parametrize("tabular_reward", [True, False])
def test_the_stored_reward_is_that_of_each_state(tmp_path, tabular_reward):
    learner, env = set_up(tabular_reward=tabular_reward, learning_rate=0.02)
    learner.train(Budget(name="quick", unit="batches", amount=5), lambda *_: None)
    save_reward(learner.reward(), tmp_path)
    stored = load_reward_net(tmp_path)
    assert isinstance(stored, TabularRewardNet) == tabular_reward
    assert stored.observation_space == env.observation_space
    model = TabularModel.of(env)
    states = np.arange(model.states) if model.observations is None else model.observations
    some = states[[3, 0, 5, 3]]
    found = stored.predict(some, np.zeros(4), some, np.zeros(4))
    np.testing.assert_array_equal(found, learner._irl.rewards()[[3, 0, 5, 3]].astype(np.float32))
    assert np.ptp(found) > 0


def test_an_environment_without_a_model_is_reported():
    with pytest.raises(ValueError, match=r"task: CartPole.* is not a tabular environment"):
        set_up(EnvironmentSpec(id="CartPole-v1"))
