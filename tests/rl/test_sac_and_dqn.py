"""The lean DQN and SAC train to the same networks as Stable-Baselines3's, given the same seeds."""

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from support.environments import Counter, DictCounter
from torch import nn

from imitbench.rl.dqn import DQN
from imitbench.rl.sac import SAC

DQN_CASES = {
    "default": {},
    "often": {"train_freq": 1, "gradient_steps": 2, "max_grad_norm": 0.01},
    "targets": {"target_update_interval": 40, "tau": 0.5},
    "tanh": {"policy_kwargs": {"net_arch": [8], "activation_fn": nn.Tanh}},
    "linear": {"policy_kwargs": {"net_arch": []}},
    "two environments": {"n_envs": 2},
    "schedule": {"learning_rate": LinearSchedule(1e-3, 1e-4, 1.0)},
}
SAC_CASES = {
    "default": {},
    "small": {"policy_kwargs": {"net_arch": [16, 8]}, "batch_size": 32},
    "tanh": {"policy_kwargs": {"net_arch": [16], "activation_fn": nn.Tanh}, "batch_size": 32},
    "fixed entropy": {"ent_coef": 0.1, "policy_kwargs": {"net_arch": [16]}},
    "seldom": {
        "train_freq": 4,
        "gradient_steps": 3,
        "target_update_interval": 2,
        "policy_kwargs": {"net_arch": [16], "n_critics": 3},
    },
    "many steps": {"n_steps": 3, "policy_kwargs": {"net_arch": [16]}},
}


def train(cls, env, steps, n_envs=1, **options):
    venv = make_vec_env(env, n_envs, seed=0)
    options = {"learning_starts": 50, "buffer_size": 1000, **options}
    model = cls("MlpPolicy", venv, seed=0, device="cpu", **options)
    return model.learn(steps)


def assert_same(own, theirs, tolerance):
    assert own.num_timesteps == theirs.num_timesteps
    assert own._n_updates == theirs._n_updates
    th.testing.assert_close(
        own.policy.state_dict(), theirs.policy.state_dict(), rtol=tolerance, atol=tolerance
    )
    for name in ("actions", "observations"):
        np.testing.assert_allclose(
            getattr(own.replay_buffer, name), getattr(theirs.replay_buffer, name), atol=tolerance
        )
    ours, other = (model.logger.name_to_value for model in (own, theirs))
    assert {key for key in ours if "train" in key} == {key for key in other if "train" in key}
    for key in ours:
        if "train" in key:
            assert ours[key] == pytest.approx(other[key], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("options", DQN_CASES.values(), ids=DQN_CASES)
def test_dqn_is_stable_baselines3s(options):
    own, theirs = (train(cls, "CartPole-v1", 200, **options) for cls in (DQN, sb3.DQN))
    assert own.lean
    assert_same(own, theirs, 1e-4)


@pytest.mark.parametrize("options", SAC_CASES.values(), ids=SAC_CASES)
def test_sac_is_stable_baselines3s(options):
    own, theirs = (train(cls, "Pendulum-v1", 80, **options) for cls in (SAC, sb3.SAC))
    assert own.lean
    assert_same(own, theirs, 1e-3)


@pytest.mark.parametrize(
    ("cls", "env", "options", "reason"),
    [
        (SAC, "Pendulum-v1", {"use_sde": True}, "use_sde"),
        (SAC, "Pendulum-v1", {"policy_kwargs": {"activation_fn": nn.ELU}}, "linear layers"),
        (DQN, "CartPole-v1", {"policy_kwargs": {"activation_fn": nn.ELU}}, "linear layers"),
        (
            DQN,
            "CartPole-v1",
            {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0.1}}},
            "options of Adam",
        ),
        (DQN, "CartPole-v1", {"policy_kwargs": {"optimizer_class": th.optim.SGD}}, "SGD"),
    ],
)
def test_anything_else_is_left_to_stable_baselines3(cls, env, options, reason):
    own = train(cls, env, 60, **options)
    assert not own.lean
    assert reason in own.why_not_lean()
    theirs = train(cls.__bases__[1], env, 60, **options)
    assert_same(own, theirs, 0.0)
    with pytest.raises(ValueError, match="lean: "):
        cls("MlpPolicy", gym.make(env), lean=True, **options)


def test_the_lean_path_can_be_switched_off():
    own = train(DQN, "CartPole-v1", 60, lean=False)
    assert own.why_not_lean() == "it was switched off"


def test_greedy_actions_are_the_policys_own():
    model = train(DQN, "CartPole-v1", 100)
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    expected, _ = model.policy.predict(obs, deterministic=True)
    got, _ = model.predict(obs, deterministic=True)
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected)
    single, _ = model.predict(obs[0], deterministic=True)
    assert single == expected[0]


def test_dictionaries_of_observations_are_left_to_stable_baselines3():
    model = DQN("MultiInputPolicy", DictCounter(Counter()), learning_starts=5, buffer_size=100)
    model.learn(20)
    assert "not vectors" in model.why_not_lean()


@pytest.mark.parametrize(("cls", "env"), [(DQN, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_models_can_be_stored_and_go_on_after_that(cls, env, tmp_path):
    model = train(cls, env, 80)
    model.save(tmp_path / "model")
    again = cls.load(tmp_path / "model", env=make_vec_env(env, 1, seed=0), device="cpu")
    th.testing.assert_close(again.policy.state_dict(), model.policy.state_dict())
    again.learn(60, reset_num_timesteps=False)
    assert again.lean


def test_replaced_parameters_are_noticed():
    """`set_parameters` replaces the optimizer's state; a moved policy, its parameters."""
    models = [train(cls, "Pendulum-v1", 60) for cls in (SAC, sb3.SAC)]
    for model in models:
        model.set_parameters(model.get_parameters())
        for parameter in model.policy.parameters():
            parameter.data = parameter.data.clone()
        th.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        model.train(5, 64)
    th.testing.assert_close(
        models[0].policy.state_dict(), models[1].policy.state_dict(), rtol=1e-3, atol=1e-4
    )
