"""Policies rebuilt from zips act like those that Stable-Baselines3 unpickles."""

import json
import zipfile

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from support.drift import CHOICE, TORQUE, drift_venv
from support.sb3_models import MODELS, NORMALIZED, SMALL, off, ppo

from imitbench.errors import InputError
from imitbench.policies.sb3_architecture import build_policy
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.util.networks import EMANorm


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
    policy, faithful = rebuild(archive, model.get_env())
    expected = type(model).load(tmp_path / "model.zip").policy
    assert isinstance(expected, type(policy))
    assert faithful
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


def test_torchs_generator_is_not_changed(tmp_path):
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
def test_undetermined_parts_are_named(tmp_path, part):
    archive = save(UNDETERMINED[part](), tmp_path / "model.zip")
    with pytest.raises(InputError, match=rf"{part}: .*trust=True") as caught:
        rebuild(archive, drift_venv())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("squash_output", "yes"), ("surprise", 1), ("clip_mean", "wide"), ("activation_fn", 3)],
)
def test_invalid_settings_are_named(tmp_path, name, value):
    save(ppo(), tmp_path / "model.zip")

    def change(data):
        data["policy_kwargs"] = {name: value}

    with pytest.raises(InputError, match=rf"policy_kwargs\.{name}"):
        rebuild(alter(tmp_path / "model.zip", change), drift_venv())


def test_a_zip_without_text_about_its_policy_is_rebuilt_from_its_weights(tmp_path):
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
def test_an_environment_that_does_not_fit_is_refused(tmp_path, space, size, message):
    archive = save(ppo(), tmp_path / "model.zip")
    observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
    with pytest.raises(InputError, match=message):
        build_policy(archive, observation_space, space)


def test_layers_shared_by_old_versions_are_copied(tmp_path):
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
    policy, faithful = rebuild(archive, drift_venv())
    assert not faithful
    observations = th.as_tensor(drift_venv().reset())
    model.policy.set_training_mode(False)
    for found, wanted in zip(
        policy(observations, deterministic=True),
        model.policy(observations, deterministic=True),
        strict=True,
    ):
        assert th.equal(found, wanted)


def test_an_extractor_stored_once_by_old_versions_is_shared(tmp_path):
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


def test_weights_that_are_not_finite_are_named(tmp_path):
    archive = save(ppo(), tmp_path / "model.zip")
    archive.weights["action_net.bias"][0] = float("nan")
    with pytest.raises(InputError, match=r"action_net\.bias has numbers that are not finite"):
        rebuild(archive, drift_venv())


def test_layers_that_do_not_fit_together_are_never_built(tmp_path):
    """A column of 200,000 numbers beside another would make a matrix of 160 GB."""
    archive = save(ppo(), tmp_path / "model.zip")
    for layer in (0, 2):
        archive.weights[f"mlp_extractor.policy_net.{layer}.weight"] = th.zeros(200_000, 3)
        archive.weights[f"mlp_extractor.policy_net.{layer}.bias"] = th.zeros(200_000)
    with pytest.raises(InputError, match="far larger than the weights"):
        rebuild(archive, drift_venv())
