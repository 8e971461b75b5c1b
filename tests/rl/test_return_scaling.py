"""Rewards scaled by the deviation of the returns: a rollout at a time, and as others do it."""

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.vec_env import VecNormalize

from imitbench.rl.ppo import PPO
from imitbench.rl.rollout import ReturnScaling
from imitbench.rl.training import algorithm_state, load_algorithm_state

GAMMA = 0.97
PLAIN = {"n_steps": 128, "batch_size": 64, "n_epochs": 2, "seed": 0, "device": "cpu"}


def parameters(model):
    return th.nn.utils.parameters_to_vector(model.policy.parameters()).detach().numpy().copy()


def scaled(model, gamma=GAMMA):
    model.return_scaling = ReturnScaling(model.n_envs, gamma)
    return model


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 300.0])
def test_scales_as_vec_normalize_does_step_by_step(make_venv, scale):
    rng = np.random.default_rng(0)
    rewards = (scale * rng.normal(0.3, 1.0, (300, 4))).astype(np.float32)
    dones = rng.random((300, 4)) < 0.05
    other = VecNormalize(make_venv("CartPole-v1"), norm_obs=False, gamma=GAMMA)
    other.returns = np.zeros(4)
    expected = []
    for reward, done in zip(rewards, dones, strict=True):
        other._update_reward(reward)
        expected.append(other.normalize_reward(reward))
        other.returns[done] = 0
    own = ReturnScaling(4, GAMMA)
    parts = [own(rewards[part], dones[part]) for part in (slice(100), slice(100, 300))]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_lean_path_and_stable_baselines3_agree(make_venv, env):
    """With the very wrapper of Stable-Baselines3, time limits included."""

    def trained(cls, venv, scale, **kwargs):
        model = cls("MlpPolicy", venv, gamma=GAMMA, **PLAIN, **kwargs)
        return (scaled(model) if scale else model).learn(2 * 4 * 128)

    normalized = VecNormalize(make_venv(env), norm_obs=False, gamma=GAMMA)
    theirs = trained(stable_baselines3.PPO, normalized, scale=False)
    assert np.ptp(theirs.rollout_buffer.rewards) > 0
    for lean in (True, False):
        model = trained(PPO, make_venv(env), scale=True, lean=lean)
        own, due = model.rollout_buffer, theirs.rollout_buffer
        np.testing.assert_allclose(own.rewards, due.rewards, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(parameters(model), parameters(theirs), rtol=1e-2, atol=1e-4)


def test_what_is_logged_of_rewards_is_not_scaled(make_venv):
    model = scaled(PPO("MlpPolicy", make_venv("CartPole-v1"), **PLAIN))
    model.learn(4 * 128)
    np.testing.assert_array_equal(model.last_rollout.rews, 1.0)
    assert model.rollout_buffer.rewards.max() != 1.0


@pytest.mark.parametrize("lean", [None, False])
def test_resumes_to_the_bit(make_venv, lean):
    rng = np.random.default_rng(0)
    scaling, other = ReturnScaling(3, GAMMA), ReturnScaling(3, GAMMA)
    scaling(rng.normal(size=(50, 3)), rng.random((50, 3)) < 0.1)
    model = PPO("MlpPolicy", make_venv("CartPole-v1", 3), lean=lean, **PLAIN)
    model.return_scaling = scaling
    state = algorithm_state(model)
    again = rng.normal(size=(50, 3)), rng.random((50, 3)) < 0.1
    expected = scaling(*again)
    model.return_scaling = other
    load_algorithm_state(model, state)
    np.testing.assert_array_equal(other(*again), expected)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("lean", [None, False])
def test_the_critic_can_be_trained_alone(make_venv, env, lean):
    model = PPO("MlpPolicy", make_venv(env), lean=lean, ent_coef=0.1, target_kl=1e-9, **PLAIN)
    model.critic_only = True
    before = {name: each.detach().clone() for name, each in model.policy.named_parameters()}
    model.learn(2 * 4 * 128)
    after = dict(model.policy.named_parameters())
    moved = {name for name, each in before.items() if not th.equal(each, after[name])}
    assert moved == {name for name in before if "value_net" in name}
    assert model.target_kl == 1e-9
    model.critic_only, model.target_kl = False, None
    model.learn(4 * 128, reset_num_timesteps=False)
    assert all(not th.equal(each, after[name]) for name, each in before.items())
    assert lean is not None or model.lean
