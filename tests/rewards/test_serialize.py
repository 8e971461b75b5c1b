"""Loading a stored reward as a function, with or without its wrappers."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.errors import InputError
from imitbench.rewards import serialize
from imitbench.rewards.reward_nets import (
    AddSTDRewardWrapper,
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    RewardEnsemble,
)
from imitbench.rewards.serialize import load_reward, reward_registry
from imitbench.rewards.storage import save_reward
from imitbench.util.networks import RunningNorm

TYPES = [
    "RewardNet_normalized",
    "RewardNet_unnormalized",
    "RewardNet_shaped",
    "RewardNet_unshaped",
    "RewardNet_std_added",
    "zero",
]


@pytest.fixture
def venv():
    return DummyVecEnv([Counter])


@pytest.fixture
def nets(vector_space, choice_space, batch):
    """One network of each structure; normalizers have statistics."""

    def basic():
        return BasicRewardNet(vector_space, choice_space)

    def ensemble(members):
        return RewardEnsemble(vector_space, choice_space, members)

    shaped = BasicShapedRewardNet(vector_space, choice_space)
    nets = {
        "basic": basic(),
        "shaped": shaped,
        "normalized": NormalizedRewardNet(basic(), RunningNorm),
        "normalized shaped": NormalizedRewardNet(shaped, RunningNorm),
        "std": AddSTDRewardWrapper(
            ensemble([NormalizedRewardNet(basic(), RunningNorm) for _ in range(2)]), 0.5
        ),
        "normalized std": NormalizedRewardNet(
            AddSTDRewardWrapper(ensemble([basic(), basic()]), 0.5), RunningNorm
        ),
        "shaped members": ensemble([shaped, shaped]),
    }
    for net in nets.values():
        net.predict_processed(*batch)
    return nets


@pytest.fixture
def load(tmp_path, venv, nets):
    def load_type(reward_type, name, **kwargs):
        save_reward(nets[name], tmp_path / name)
        return load_reward(reward_type, tmp_path / name, venv, **kwargs)

    return load_type


def processed(net, batch, **kwargs):
    return net.predict_processed(*batch, update_stats=False, **kwargs)


def test_the_documented_types_are_registered():
    assert sorted(reward_registry.keys()) == sorted(TYPES)


@pytest.mark.parametrize("name", ["normalized", "normalized shaped", "normalized std"])
def test_normalized_rewards_use_fixed_statistics_by_default(load, nets, batch, name):
    reward = load("RewardNet_normalized", name)
    expected = processed(nets[name], batch)
    for _ in range(2):
        np.testing.assert_array_equal(reward(*batch), expected)


def test_normalized_rewards_update_statistics_on_request(load, nets, batch):
    state, *rest = batch
    elsewhere = (state + 3, *rest)
    reward = load("RewardNet_normalized", "normalized", update_stats=True)
    assert not np.array_equal(reward(*elsewhere), reward(*elsewhere))


@pytest.mark.parametrize("name", ["basic", "shaped", "normalized", "normalized shaped", "std"])
def test_unnormalized_rewards_skip_normalization(load, nets, batch, name):
    reward = load("RewardNet_unnormalized", name, update_stats=False)
    expected = nets[name].predict(*batch)
    for _ in range(2):
        np.testing.assert_array_equal(reward(*batch), expected)


@pytest.mark.parametrize("name", ["shaped", "normalized shaped"])
def test_shaped_and_unshaped_differ_by_the_shaping(load, nets, batch, name):
    shaped = nets["shaped"]
    np.testing.assert_array_equal(load("RewardNet_shaped", name)(*batch), shaped.predict(*batch))
    np.testing.assert_array_equal(
        load("RewardNet_unshaped", name)(*batch), shaped.base.predict(*batch)
    )
    assert not np.allclose(shaped.predict(*batch), shaped.base.predict(*batch))


@pytest.mark.parametrize("name", ["basic", "normalized", "std"])
def test_unshaped_equals_the_reward_of_a_network_without_shaping(load, nets, batch, name):
    expected = nets[name].predict(*batch)
    np.testing.assert_array_equal(load("RewardNet_unshaped", name)(*batch), expected)


@pytest.mark.parametrize("name", ["std", "normalized std"])
def test_std_added_uses_fixed_statistics_and_a_given_alpha(load, nets, batch, name):
    reward = load("RewardNet_std_added", name)
    expected = processed(nets[name], batch)
    for _ in range(2):
        np.testing.assert_array_equal(reward(*batch), expected)
    other = load("RewardNet_std_added", name, alpha=-3.0)(*batch)
    np.testing.assert_array_equal(other, processed(nets[name], batch, alpha=-3.0))
    assert not np.allclose(other, expected)


def test_zero_needs_no_file(venv, batch):
    assert load_reward("zero", "nowhere", venv)(*batch).tolist() == [0.0] * 9
    assert serialize.load_zero("nowhere", venv)(*batch).shape == (9,)


@pytest.mark.parametrize(
    ("reward_type", "name", "missing"),
    [
        ("RewardNet_normalized", "basic", "NormalizedRewardNet"),
        ("RewardNet_normalized", "std", "NormalizedRewardNet"),
        ("RewardNet_shaped", "normalized", "ShapedRewardNet"),
        ("RewardNet_std_added", "normalized shaped", "AddSTDRewardWrapper"),
    ],
)
def test_a_missing_wrapper_is_an_error(load, reward_type, name, missing):
    with pytest.raises(InputError, match=f"has no {missing}.*, it is "):
        load(reward_type, name)


def test_shaped_ensemble_members_cannot_be_unshaped(load, nets, batch):
    with pytest.raises(InputError, match="members of its ensemble are shaped"):
        load("RewardNet_unshaped", "shaped members")
    load("RewardNet_unnormalized", "shaped members")(*batch)


def test_an_unknown_type_names_the_nearest(venv):
    with pytest.raises(InputError, match="did you mean 'RewardNet_shaped'"):
        load_reward("RewardNet_shapd", "nowhere", venv)


def test_a_path_without_a_network_is_refused(venv, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_reward("RewardNet_shaped", str(tmp_path), venv)


def test_transitions_of_another_shape_are_refused(load, batch):
    state, action, next_state, done = batch
    reward = load("RewardNet_unnormalized", "basic")
    with pytest.raises(ValueError, match="state has shape"):
        reward(state[:, :2], action, next_state, done)
