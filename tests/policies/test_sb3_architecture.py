"""Policies rebuilt from zips act as those that Stable-Baselines3 unpickles."""

import json
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from support.drift import CHOICE, TORQUE, drift_venv

from imitbench.errors import InputError
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    SAC1024Policy,
)
from imitbench.policies.sb3_architecture import build_policy
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.util.networks import EMANorm


class Images(gym.Env):
    """Random images."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = CHOICE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (36, 36, 3), np.uint8), {}

    def step(self, action):
        return *self.reset()[:1], 0.0, False, False, {}


class Parts(Images):
    """Dictionaries of an image and numbers."""

    observation_space = spaces.Dict(
        {"image": Images.observation_space, "numbers": spaces.Box(-1, 1, (4,), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        image, info = super().reset(seed=seed)
        return {"image": image, "numbers": self.np_random.normal(size=4)}, info


SHORT = {"n_steps": 8, "batch_size": 8, "n_epochs": 2}
OFF = {"buffer_size": 100, "learning_starts": 4, "batch_size": 4}
SMALL = {"net_arch": [8, 6]}
NORMALIZED = {"features_extractor_class": NormalizeFeaturesExtractor}


def ppo(policy="MlpPolicy", action_space=TORQUE, policy_kwargs=None, **kwargs):
    # A copy, because algorithms write into it.
    settings = dict(policy_kwargs or {})
    return PPO(policy, drift_venv(action_space), policy_kwargs=settings, seed=0, **SHORT, **kwargs)


def off(cls, action_space=TORQUE, policy="MlpPolicy", policy_kwargs=None, **kwargs):
    settings = dict(policy_kwargs or {})
    kwargs = {**OFF, **kwargs}
    return cls(policy, drift_venv(action_space), policy_kwargs=settings, seed=0, **kwargs)


def images(env, policy):
    return PPO(policy, DummyVecEnv([env]), seed=0, **SHORT)


MODELS = {
    "ppo": ppo,
    "ppo discrete": lambda: ppo(action_space=CHOICE),
    "ppo multi-discrete": lambda: ppo(action_space=spaces.MultiDiscrete([2, 3])),
    "ppo multi-binary": lambda: ppo(action_space=spaces.MultiBinary(2)),
    "ppo relu, separate": lambda: ppo(
        policy_kwargs={"activation_fn": th.nn.ReLU, "net_arch": {"pi": [8], "vf": [6, 4]}}
    ),
    "ppo linear": lambda: ppo(policy_kwargs={"net_arch": []}),
    "ppo feed-forward 32": lambda: ppo(FeedForward32Policy),
    "ppo normalized": lambda: ppo(policy_kwargs={**NORMALIZED, **SMALL}),
    "ppo normalized, EMA": lambda: ppo(
        policy_kwargs={**NORMALIZED, "features_extractor_kwargs": {"normalize_class": EMANorm}}
    ),
    "ppo normalized, unshared": lambda: ppo(
        policy_kwargs={**NORMALIZED, "share_features_extractor": False}
    ),
    "ppo gSDE": lambda: ppo(use_sde=True, policy_kwargs=SMALL),
    "ppo gSDE, squashed": lambda: ppo(
        use_sde=True, policy_kwargs={"squash_output": True, "full_std": False, "use_expln": True}
    ),
    "ppo images": lambda: images(Images, "CnnPolicy"),
    "ppo dictionaries": lambda: images(Parts, "MultiInputPolicy"),
    "a2c": lambda: A2C("MlpPolicy", drift_venv(), seed=0),
    "sac": lambda: off(SAC),
    "sac separate": lambda: off(SAC, policy_kwargs={"net_arch": {"pi": [8], "qf": [6, 4]}}),
    "sac elu, three critics": lambda: off(
        SAC, policy_kwargs={"activation_fn": th.nn.ELU, "n_critics": 3}
    ),
    "sac 1024": lambda: off(SAC, policy=SAC1024Policy, learning_starts=100),
    "sac gSDE": lambda: off(SAC, use_sde=True, policy_kwargs=SMALL),
    "sac gSDE, unclipped": lambda: off(
        SAC, use_sde=True, policy_kwargs={**SMALL, "clip_mean": 0.0}
    ),
    "sac normalized": lambda: off(SAC, policy_kwargs=NORMALIZED),
    "td3": lambda: off(TD3),
    "ddpg": lambda: off(DDPG, policy_kwargs=SMALL),
    "dqn": lambda: off(DQN, action_space=CHOICE, policy_kwargs=SMALL),
}


def save(model, path):
    model.save(path)
    return read_sb3_zip(path)


def rebuild(archive, venv):
    return build_policy(archive, venv.observation_space, venv.action_space)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_rebuilt_policy_acts_as_the_unpickled_one(tmp_path, make):
    model = make()
    model.learn(24)
    archive = save(model, tmp_path / "model.zip")
    policy, plan = rebuild(archive, model.get_env())
    expected = type(model).load(tmp_path / "model.zip").policy
    assert type(policy) is type(expected)
    assert plan.faithful
    observations = model.get_env().reset()
    for deterministic in (True, False):
        actions = []
        for each in (policy, expected):
            th.manual_seed(0)
            acting = getattr(each, "actor", each)
            if getattr(acting, "use_sde", False):
                acting.reset_noise(len(observations))
            actions.append(each.predict(observations, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*actions)
    state = expected.state_dict()
    assert list(policy.state_dict()) == list(state)
    assert all(th.equal(value, state[key]) for key, value in policy.state_dict().items())


def test_torchs_generator_is_left_alone(tmp_path):
    archive = save(ppo(), tmp_path / "model.zip")
    th.manual_seed(3)
    expected = th.rand(2)
    th.manual_seed(3)
    rebuild(archive, drift_venv())
    assert th.equal(th.rand(2), expected)


def alter(path, change):
    """Rewrites `data` in a zip."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(files["data"])
    change(data)
    files["data"] = json.dumps(data)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return read_sb3_zip(path)


class MyPolicy(ActorCriticPolicy):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class MyExtractor(FlattenExtractor):
    pass


UNDETERMINED = {
    "policy_class": lambda: ppo(MyPolicy),
    "features_extractor_class": lambda: ppo(
        policy_kwargs={"features_extractor_class": MyExtractor}
    ),
    "activation_fn": lambda: ppo(policy_kwargs={"activation_fn": th.nn.Softplus}),
    "features_extractor_kwargs": lambda: ppo(
        policy_kwargs={
            **NORMALIZED,
            "features_extractor_kwargs": {"normalize_class": lambda n: EMANorm(n, decay=0.5)},
        }
    ),
}


@pytest.mark.parametrize("part", UNDETERMINED)
def test_what_cannot_be_determined_is_named(tmp_path, part):
    archive = save(UNDETERMINED[part](), tmp_path / "model.zip")
    with pytest.raises(InputError, match=rf"{part}: .*trust=True") as caught:
        rebuild(archive, drift_venv())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("squash_output", "yes"), ("surprise", 1), ("clip_mean", "wide"), ("activation_fn", 3)],
)
def test_settings_that_make_no_sense_are_named(tmp_path, name, value):
    save(ppo(), tmp_path / "model.zip")

    def change(data):
        data["policy_kwargs"] = {name: value}

    with pytest.raises(InputError, match=rf"policy_kwargs\.{name}"):
        rebuild(alter(tmp_path / "model.zip", change), drift_venv())


def test_a_zip_without_text_about_its_policy_is_read_by_its_weights(tmp_path):
    model = off(SAC, policy_kwargs=SMALL)
    save(model, tmp_path / "model.zip")

    def change(data):
        del data["policy_class"], data["policy_kwargs"], data["action_space"]

    policy, _ = rebuild(alter(tmp_path / "model.zip", change), drift_venv())
    observations = model.get_env().reset()
    np.testing.assert_array_equal(
        policy.predict(observations, deterministic=True)[0],
        model.predict(observations, deterministic=True)[0],
    )


@pytest.mark.parametrize(
    ("space", "size", "message"),
    [
        (TORQUE, 5, "observations of 3 numbers, but the environment has 5"),
        (TORQUE, 2, "time feature"),
        (CHOICE, 3, "2 continuous actions, but the environment has Discrete"),
        (spaces.Box(-2, 2, (4,)), 3, "2 continuous actions"),
        (spaces.Box(-1, 1, (2,)), 3, r"low = \[-2\. -2\.\]"),
        (spaces.Dict({"a": TORQUE}), 3, "made for"),
    ],
)
def test_an_environment_that_does_not_fit_is_told(tmp_path, space, size, message):
    archive = save(ppo(), tmp_path / "model.zip")
    observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
    with pytest.raises(InputError, match=message):
        build_policy(archive, observation_space, space)


def test_layers_shared_by_old_versions_are_unfolded(tmp_path):
    """Until version 1.8 `net_arch=[8, {"pi": [4], "vf": []}]` shared the first layer."""
    model = ppo(policy_kwargs={"net_arch": {"pi": [8, 4], "vf": [8]}})
    archive = save(model, tmp_path / "model.zip")
    old = dict(archive.weights)
    for what in ("weight", "bias"):
        shared = old.pop(f"mlp_extractor.policy_net.0.{what}")
        old[f"mlp_extractor.shared_net.0.{what}"] = shared
        old[f"mlp_extractor.policy_net.0.{what}"] = old.pop(f"mlp_extractor.policy_net.2.{what}")
        del old[f"mlp_extractor.value_net.0.{what}"]
        model.policy.mlp_extractor.value_net.load_state_dict({f"0.{what}": shared}, strict=False)
    archive.weights.clear()
    archive.weights.update(old)
    policy, plan = rebuild(archive, drift_venv())
    assert not plan.faithful
    observations = th.as_tensor(drift_venv().reset())
    model.policy.set_training_mode(False)
    for found, wanted in zip(
        policy(observations, deterministic=True),
        model.policy(observations, deterministic=True),
        strict=True,
    ):
        assert th.equal(found, wanted)


def test_the_extractor_that_old_versions_wrote_once_is_found(tmp_path):
    """Until version 1.7 there were no separate names for actor's and critic's extractors."""
    model = ppo(policy_kwargs=NORMALIZED)
    model.learn(8)
    archive = save(model, tmp_path / "model.zip")
    for key in list(archive.weights):
        if key.startswith(("pi_", "vf_")):
            del archive.weights[key]
    policy, _ = rebuild(archive, drift_venv())
    observations = drift_venv().reset()
    np.testing.assert_array_equal(
        policy.predict(observations, deterministic=True)[0],
        model.predict(observations, deterministic=True)[0],
    )
