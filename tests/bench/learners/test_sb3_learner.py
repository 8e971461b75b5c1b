"""Algorithms of Stable-Baselines3 train on a learned reward, within the budget, and resume."""

import numpy as np
import pytest

from imitbench.bench.learners.sb3_learner import SB3Learner, find_rl_algorithm
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.test_bed import MethodUnderTest, practice_test_bed
from imitbench.errors import InputError
from imitbench.policies.storage import load_policy, save_policy

LEARNER = """
from imitbench.bench.learners.sb3_learner import SB3Learner
from imitbench.rewards.reward_nets import BasicRewardNet


class MyReward(SB3Learner):
    def make_reward(self, task, demos, rng):
        return BasicRewardNet(task.observation_space, task.action_space, hid_sizes=[4])
"""
CARD = """
schema_version: 1
name: mine
title: Mine
summary: Any algorithm on a reward.
implementation: learner:MyReward
needs: {{demos: true, action_spaces: [{space}]}}
budget_unit: env_steps
seconds_per_1000: 1.0
hyperparameters:
  rl_algorithm: {{type: str, default: {algorithm}, help: Which.}}
  n_envs: {{type: int, default: 2, help: Environments.}}
{further}
"""
STEPS = {"rl_n_steps": 25}
STARTS = {
    "rl_learning_starts": 20, "rl_buffer_size": 500, "rl_batch_size": 16, "rl_train_freq": 5,
}  # fmt: skip
CASES = {
    "PPO": ("multi_discrete", STEPS | {"rl_batch_size": 25}),
    "stable_baselines3:A2C": ("discrete", STEPS),
    "DQN": ("discrete", STARTS),
    "SAC": ("box", STARTS),
    "TD3": ("box", STARTS),
    "DDPG": ("box", STARTS),
    "sb3_contrib:TQC": ("box", STARTS),
    "sb3_contrib:QRDQN": ("discrete", STARTS),
    "sb3_contrib:TRPO": ("box", STEPS | {"rl_batch_size": 25}),
}


@pytest.fixture
def subject(tmp_path):
    def make(algorithm, space, further, amount=210):
        lines = [f"  {k}: {{type: int, default: {v}, help: x}}" for k, v in further.items()]
        (tmp_path / "learner.py").write_text(LEARNER)
        card = CARD.format(algorithm=algorithm, space=space, further="\n".join(lines))
        (tmp_path / "card.yaml").write_text(card)
        found = find_algorithm(str(tmp_path))
        return MethodUnderTest(found, found.resolve({}), amount), practice_test_bed(space)

    return make


@pytest.mark.parametrize("algorithm", CASES)
def test_every_algorithm_trains_and_resumes(algorithm, subject, tmp_path):
    package, colon, _ = algorithm.rpartition(":")
    if colon:
        pytest.importorskip(package, reason=f"pip install {package}")
    method, bed = subject(algorithm, *CASES[algorithm])
    whole = method.train(bed)
    assert 150 <= whole.real_steps <= 210
    assert whole.claimed_steps == whole.real_steps
    assert whole.offers >= 2
    resumed = method.train_interrupted(bed)
    for name, value in whole.learner.policy().state_dict().items():
        np.testing.assert_array_equal(value, resumed.policy().state_dict()[name], err_msg=name)
    save_policy(resumed.policy(), tmp_path / "stored")
    observations = bed.observations()
    one, other = (
        each.predict(observations, deterministic=True)[0]
        for each in (resumed.policy(), load_policy(tmp_path / "stored"))
    )
    np.testing.assert_array_equal(one, other)


def test_a_budget_below_one_rollout_is_refused(subject):
    method, bed = subject("PPO", *CASES["PPO"], amount=49)
    with pytest.raises(ValueError, match="less than a single rollout of 50"):
        method.train(bed)


def test_wrong_names_are_reported():
    with pytest.raises(InputError, match="no such algorithm; use PPO"):
        find_rl_algorithm("PPOO")
    with pytest.raises(InputError, match="install the package"):
        find_rl_algorithm("no_such_package:TRPO")


def test_unknown_arguments_of_an_algorithm_are_reported(subject):
    method, bed = subject("A2C", "discrete", {"rl_clip_range": 1})
    with pytest.raises(InputError, match="clip_range"):
        method.train(bed)


def test_the_class_is_abstract(subject):
    assert "make_reward" in SB3Learner.__abstractmethods__
