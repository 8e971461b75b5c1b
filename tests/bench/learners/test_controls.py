"""Controls: their reward is constant, so only the length of episodes matters, or random."""

import dataclasses

import numpy as np
import pytest
import torch as th
from torch.nn.utils import parameters_to_vector

from imitbench.algorithms.off_policy.rewarded import ConstantRewardTrainer
from imitbench.bench.learners.controls import RandomRewardLearner
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.experts.lookup import find_environment
from imitbench.rewards.storage import load_reward_net, save_reward

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


@pytest.mark.parametrize("env", ["Pendulum-v1", "seals/CartPole-v0"])
@pytest.mark.parametrize("name", PPO_CONTROLS)
def test_the_stored_reward_is_the_one_that_trains(set_up, train, tmp_path, name, env):
    learner = set_up(name, env, demos=[], **SMALL)
    train(learner, 200)
    save_reward(learner.reward(), tmp_path)
    space = learner.task.observation_space
    obs, after = np.random.default_rng(0).normal(size=(2, 5, *space.shape)).astype(space.dtype)
    acts = np.stack([learner.task.action_space.sample() for _ in range(5)])
    steps = obs, acts, after, np.arange(5) == 4
    given = learner.ppo.reward_fn(*steps)
    stored = load_reward_net(tmp_path).predict(*steps)
    np.testing.assert_array_equal(stored, given)
    assert stored.dtype == given.dtype
    constants = {"zero_reward": 0, "constant_plus": 1, "constant_minus": -1}
    assert len(set(given)) == (1 if name in constants else 5)
    if name in constants:
        assert given[0] == constants[name]


def test_random_rewards_are_drawn_by_the_seed_and_do_not_see_hidden_entries(set_up):
    one = set_up("random_reward", demos=[], hidden=[0], **SMALL).reward()
    th.manual_seed(5)
    again = set_up("random_reward", demos=[], hidden=[0], **SMALL).reward()
    assert all(map(th.equal, one.parameters(), again.parameters()))
    obs = np.arange(3.0)[None].repeat(2, axis=0).astype(np.float32)
    obs[1, 0] = 9.0
    rewards = one.predict(obs, np.zeros((2, 1)), obs, np.zeros(2))
    assert rewards[0] == rewards[1]

    def drawn(seed):
        learner = RandomRewardLearner()
        learner.make_reward(dataclasses.replace(task, seed=seed), [], np.random.default_rng(0))
        return parameters_to_vector(learner.reward().parameters())

    task = set_up("random_reward", demos=[], **SMALL).task
    assert not th.equal(drawn(0), drawn(1))
