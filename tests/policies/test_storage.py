"""Stored policies: the same actions after a round trip; malicious files are refused."""

import json
import sys

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from safetensors.torch import load_file, save_file
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy

from imitbench.errors import InputError
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    MixturePolicy,
)
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
    ZeroPolicy,
)
from imitbench.policies.storage import load_policy, save_policy
from imitbench.util.networks import EMANorm, RunningNorm

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
TORQUE = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICE = spaces.Discrete(4)


def rate(_):
    return 1e-3


def normalized(norm):
    return {
        "features_extractor_class": NormalizeFeaturesExtractor,
        "features_extractor_kwargs": {"normalize_class": norm},
    }


POLICIES = {
    "actor-critic discrete": lambda: ActorCriticPolicy(VECTOR, CHOICE, rate, net_arch=[8]),
    "actor-critic box": lambda: ActorCriticPolicy(
        VECTOR, TORQUE, rate, net_arch={"pi": [8, 8], "vf": [4]}, activation_fn=th.nn.ReLU
    ),
    "gSDE squashed": lambda: ActorCriticPolicy(
        VECTOR, TORQUE, rate, net_arch=[8], use_sde=True, squash_output=True
    ),
    "normalized": lambda: ActorCriticPolicy(VECTOR, CHOICE, rate, **normalized(RunningNorm)),
    "unshared extractors": lambda: ActorCriticPolicy(
        VECTOR, CHOICE, rate, **normalized(RunningNorm), share_features_extractor=False
    ),
    "feed-forward 32": lambda: FeedForward32Policy(VECTOR, TORQUE, rate, **normalized(EMANorm)),
    "dict": lambda: MultiInputActorCriticPolicy(
        spaces.Dict({"a": VECTOR, "b": CHOICE}), TORQUE, rate, net_arch=[8]
    ),
    "sac": lambda: SACPolicy(VECTOR, TORQUE, rate, net_arch=[8, 8]),
    "sac, shared extractor": lambda: SACPolicy(
        VECTOR, TORQUE, rate, net_arch=[8], share_features_extractor=True
    ),
    "deterministic": lambda: DeterministicPolicy(
        VECTOR, TORQUE, net_arch=[8], activation_fn=th.nn.ReLU, **normalized(RunningNorm)
    ),
    "mixture": lambda: MixturePolicy(VECTOR, TORQUE, n_components=2, min_std=0.1, low_noise=False),
    "flow": lambda: FlowPolicy(
        spaces.Dict({"a": VECTOR, "b": CHOICE}), TORQUE, net_arch=[8], steps=3
    ),
    "ensemble": lambda: EnsemblePolicy(VECTOR, TORQUE, net_arch=[8, 8], n_members=3),
    "gaussian ensemble": lambda: EnsemblePolicy(
        VECTOR, TORQUE, n_members=2, gaussian=True, **normalized(EMANorm)
    ),
    "zero": lambda: ZeroPolicy(VECTOR, TORQUE),
}


def batch_of(space):
    space.seed(0)
    return (
        {
            key: np.stack([sample[key] for sample in samples])
            for samples in [[space.sample() for _ in range(5)]]
            for key in space.spaces
        }
        if isinstance(space, spaces.Dict)
        else np.stack([space.sample() for _ in range(5)])
    )


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_a_policy_acts_the_same_after_a_round_trip(tmp_path, make):
    th.manual_seed(0)
    policy = make()
    policy.set_training_mode(False)
    save_policy(policy, tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert type(again) is type(policy)
    observations = batch_of(policy.observation_space)
    for deterministic in (True, False):
        actions = []
        for each in (policy, again):
            th.manual_seed(1)
            if getattr(each, "use_sde", False):
                each.reset_noise()
            actions.append(each.predict(observations, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*actions)


def test_sharing_of_extractors_is_kept(tmp_path):
    save_policy(POLICIES["unshared extractors"](), tmp_path)
    assert not load_policy(tmp_path).share_features_extractor


def test_exploration_of_gsde_is_sampled_from_the_trained_deviation(tmp_path):
    policy = POLICIES["gSDE squashed"]()
    with th.no_grad():
        policy.log_std.fill_(-20.0)  # hardly any
    save_policy(policy, tmp_path)
    loaded, obs = load_policy(tmp_path), np.ones((1, 3), np.float32)
    sampled, best = (loaded.predict(obs, deterministic=choice)[0] for choice in (False, True))
    np.testing.assert_allclose(sampled, best, atol=1e-6)


def test_a_random_policy_keeps_its_spaces(tmp_path):
    save_policy(RandomPolicy(VECTOR, TORQUE), tmp_path)
    assert load_policy(tmp_path).action_space == TORQUE


def test_a_policy_of_unknown_class_is_refused_by_name(tmp_path):
    class Mine(ActorCriticPolicy):
        pass

    with pytest.raises(ValueError, match="Mine"):
        save_policy(Mine(VECTOR, CHOICE, rate), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def stored(tmp_path):
    save_policy(POLICIES["actor-critic box"](), tmp_path)
    return tmp_path


def test_a_policy_of_sb3_contrib_needs_that_package(tmp_path, monkeypatch):
    pytest.importorskip("sb3_contrib", reason="sb3-contrib is missing: pip install sb3-contrib")
    from sb3_contrib.qrdqn.policies import QRDQNPolicy

    policy = QRDQNPolicy(
        spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), lambda _: 1e-3, net_arch=[4]
    )
    save_policy(policy, tmp_path)
    for name in ("sb3_contrib", "sb3_contrib.qrdqn", "sb3_contrib.qrdqn.policies"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="QRDQNPolicy needs sb3_contrib, which"):
        load_policy(tmp_path)


def test_a_truncated_weights_file_is_refused(stored):
    weights = stored / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(InputError, match="truncated or altered"):
        load_policy(stored)


def test_a_truncated_description_is_refused(stored):
    path = stored / "policy.json"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"policy\.json"):
        load_policy(stored)


def test_missing_files_are_refused(stored):
    (stored / "policy.safetensors").unlink()
    with pytest.raises(InputError, match=r"policy\.safetensors"):
        load_policy(stored)
    with pytest.raises(InputError, match="no such file"):
        load_policy(stored / "absent")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["policy_class"], "os.system", "not known"),
        (["kwargs", "activation_fn"], {"$type": "os.system"}, "not known"),
        (["kwargs", "net_arch"], [3], "does not describe its weights"),
        (["kwargs", "surprise"], 1, "does not describe its weights"),
        (["observation_space", "type"], "Torus", "unknown kind of space"),
        (["extra"], 1, "extra"),
    ],
)
def test_invalid_descriptions_are_refused(stored, path, value, message):
    file = stored / "policy.json"
    document = json.loads(file.read_text())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        load_policy(stored)
    assert "\n" not in str(caught.value)


def test_weights_of_another_policy_are_refused(stored, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    save_policy(POLICIES["actor-critic discrete"](), other)
    (stored / "policy.safetensors").write_bytes((other / "policy.safetensors").read_bytes())
    with pytest.raises(InputError, match="altered"):
        load_policy(stored)


def test_weights_are_plain_tensors(stored, tmp_path):
    tensors = load_file(stored / "policy.safetensors")
    assert all(isinstance(tensor, th.Tensor) for tensor in tensors.values())
    save_file(tensors, tmp_path / "copy")
