"""Policies without training, and the architectures of trainable ones."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.policies.base import (
    FeedForward32Policy,
    HardCodedPolicy,
    NonTrainablePolicy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
    SAC1024Policy,
    ZeroPolicy,
)

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = [
    spaces.Box(-2.0, 2.0, (2,), np.float32),
    spaces.Discrete(3),
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(2),
]


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_random_actions_are_valid_and_follow_the_seed(space):
    policy = RandomPolicy(VECTOR, space)
    observations = np.zeros((20, 3), np.float32)
    space.seed(0)
    first, _ = policy.predict(observations)
    space.seed(0)
    second, _ = policy.predict(observations)
    np.testing.assert_array_equal(first, second)
    assert all(space.contains(action) for action in first)
    assert len(np.unique(first, axis=0)) > 1


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_zero_actions_are_valid(space):
    actions, _ = ZeroPolicy(VECTOR, space).predict(np.zeros((2, 3), np.float32))
    assert all(space.contains(action) for action in actions)
    assert np.all(actions == getattr(space, "start", 0))


def test_zero_outside_the_action_space_is_refused():
    with pytest.raises(ValueError, match="action_space"):
        ZeroPolicy(VECTOR, spaces.Box(1.0, 2.0, (1,), np.float32))


def test_random_actions_accept_dict_observations():
    space = spaces.Dict({"a": VECTOR, "b": spaces.Discrete(4)})
    policy = RandomPolicy(space, spaces.Discrete(2))
    actions, _ = policy.predict({"a": np.zeros((5, 3), np.float32), "b": np.zeros(5, np.int64)})
    assert actions.shape == (5,)


def test_policies_without_training_have_no_forward_pass():
    assert HardCodedPolicy is NonTrainablePolicy
    with pytest.raises(NotImplementedError, match="RandomPolicy"):
        RandomPolicy(VECTOR, VECTOR).forward(th.zeros(1, 3))


def test_feed_forward_32_shares_two_layers_of_32():
    policy = FeedForward32Policy(VECTOR, spaces.Discrete(2), lambda _: 1e-3)
    assert [p.shape for p in policy.mlp_extractor.policy_net.parameters()] == [
        (32, 3), (32,), (32, 32), (32,)
    ]  # fmt: skip


def test_sac_1024_has_layers_of_1024():
    policy = SAC1024Policy(VECTOR, ACTIONS[0], lambda _: 1e-3)
    assert policy.actor.latent_pi[2].weight.shape == (1024, 1024)


def test_statistics_are_updated_in_training_and_fixed_when_acting():
    policy = FeedForward32Policy(
        VECTOR, spaces.Discrete(2), lambda _: 1e-3,
        features_extractor_class=NormalizeFeaturesExtractor,
    )  # fmt: skip
    norm = policy.features_extractor.normalize
    policy.set_training_mode(True)
    policy.extract_features(th.full((4, 3), 0.5))
    th.testing.assert_close(norm.running_mean, th.full((3,), 0.5))
    policy.predict(np.ones((2, 3), np.float32))
    th.testing.assert_close(norm.running_mean, th.full((3,), 0.5))
