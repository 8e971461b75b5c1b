"""D-REX: whose trajectories are ranked, and what noise says on a walk with a known optimum."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.drex import DREX, CloneOptions, even_noise
from imitbench.algorithms.trex import ExtrapolationOptions
from imitbench.data.types import Transitions
from imitbench.rewards.reward_nets import BasicRewardNet

STEPS = 20


class Walk(gym.Env):
    """One step left (action 0) or right (1) on a line; the observation is the last step, ±1."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left = STEPS
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        obs = np.full(1, 2 * action - 1, np.float32)
        return obs, float("nan"), False, self.left == 0, {}


def expert(count=64):
    """Always goes right, wherever it went before."""
    obs = np.resize(np.array([-1, 0, 1], np.float32), (count, 1))
    ends = np.zeros(count, bool)
    infos = np.array([{}] * count)
    return Transitions(obs, np.ones(count, np.int64), infos, np.ones_like(obs), ends)


def drex(**given):
    th.manual_seed(0)
    venv = DummyVecEnv([Walk, Walk])
    agent = PPO(
        "MlpPolicy", venv, n_steps=STEPS, batch_size=STEPS, learning_rate=0.01, seed=0, device="cpu"
    )
    net = BasicRewardNet(
        Walk.observation_space, Walk.action_space, use_state=False, use_action=False,
        use_next_state=True, hid_sizes=(),
    )  # fmt: skip
    options = ExtrapolationOptions(
        pairs=300, snippet_length=10, later_start=False, margin=0.3, epochs=20, learning_rate=0.05
    )
    return DREX(
        demonstrations=expert(), venv=venv, rng=np.random.default_rng(0), rl_algo=agent,
        reward_net=net, options=options, clone_options=CloneOptions(batches=100),
        **{"noise_levels": even_noise(5)} | given,
    )  # fmt: skip


def test_noise_levels_are_even_and_never_noise_alone():
    assert even_noise(4) == (0.0, 0.25, 0.5, 0.75)
    assert even_noise(20) == pytest.approx(np.arange(0.0, 1.0, 0.05))


def test_the_clone_acts_once_for_each_level_and_environment():
    algorithm = drex(rollout_venv=DummyVecEnv([Walk] * 3))
    ranked = algorithm.ranked()
    assert ranked.values.tolist() == sorted([0.0, -0.2, -0.4, -0.6, -0.8] * 3, reverse=True)
    assert algorithm.env_steps == 5 * 3 * STEPS
    # By hand: with noise e, a step goes left with probability e / 2.
    left = np.array([(each.acts == 0).mean() for each in ranked.trajectories])
    assert (left[:3] == 0).all()
    for level in range(5):
        assert left[3 * level : 3 * level + 3].mean() == pytest.approx(level / 10, abs=0.15)


def test_noise_0_is_the_clone_and_noise_1_is_random():
    algorithm = drex(noise_levels=(0.0, 1.0), rollout_venv=DummyVecEnv([Walk] * 10))
    ranked = algorithm.ranked()
    share = [np.mean([each.acts for each in ranked.trajectories[part]]) for part in
             (slice(10), slice(10, None))]  # fmt: skip
    assert share[0] == 1
    assert share[1] == pytest.approx(0.5, abs=0.1)


def test_the_reward_prefers_what_noise_disturbs_and_the_policy_follows():
    algorithm = drex()
    algorithm.train_reward()
    # The true order is known: a snippet is better the more steps to the right it has.
    assert algorithm.reward_net.mlp.dense_final.weight.item() > 0
    assert algorithm.accuracy > 0.7
    algorithm.train_policy(40 * STEPS)
    seen = np.ones((1, 1), np.float32)
    assert algorithm.policy.predict(seen, deterministic=True)[0] == [1]
    assert algorithm.policy.predict(-seen, deterministic=True)[0] == [1]


def test_demonstrations_are_not_ranked():
    algorithm = drex(noise_levels=(0.0, 0.5))
    obs = [each.obs for each in algorithm.ranked().trajectories]
    assert len(obs) == 4
    assert {len(each) for each in obs} == {STEPS + 1}
