"""A policy's copy in NumPy computes what the policy does."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    MultiInputActorCriticPolicy,
)
from torch import nn

from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor
from imitbench.rl.numpy_policy import NumpyPolicy, why_no_numpy_policy

DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32)
POLICIES = [
    {},
    {"net_arch": [16, 16], "activation_fn": nn.ReLU},
    {"net_arch": {"pi": [7], "vf": [9, 8]}},
    {"net_arch": {"pi": [], "vf": [4]}},
    {"net_arch": []},
    {"cls": FeedForward32Policy, "features_extractor_class": NormalizeFeaturesExtractor},
]


@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
@pytest.mark.parametrize("kwargs", POLICIES)
def test_values_log_probabilities_and_entropies_are_the_policys(
    make_policy, evaluate, space, kwargs
):
    policy = make_policy(space, th.float64, **kwargs)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(1100, 5))
    if "features_extractor_class" in kwargs:
        policy.features_extractor(th.from_numpy(3 + obs))  # gives the normalizer something to know
    policy.set_training_mode(False)
    acts = rng.integers(3, size=1100) if space is DISCRETE else rng.normal(size=(1100, 2))
    with th.no_grad():
        values, log_prob, entropy = evaluate(policy, obs, acts)
    copied = NumpyPolicy(policy)
    copied.load()
    outputs, numpy_values = copied.network.evaluate(copied.features(obs))
    numpy_log_prob, numpy_entropy = copied.head.log_prob(outputs, copied.head.encode(acts))
    for found, expected in (
        (numpy_values, values), (numpy_log_prob, log_prob), (numpy_entropy, entropy),
        (copied.network.act(copied.features(obs)), outputs),
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
def test_draws_the_actions_that_the_policy_draws(make_policy, space):
    policy = make_policy(space)
    copied = NumpyPolicy(policy)
    copied.load()
    obs = np.random.default_rng(0).normal(size=(200, 6, 5)).astype(np.float32)
    th.manual_seed(1)
    with th.no_grad():
        expected = np.stack([policy(th.from_numpy(each))[0].numpy() for each in obs])
    th.manual_seed(1)
    found = np.stack(
        [copied.head.sample(copied.network.act(copied.features(each))) for each in obs]
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
def test_parameters_survive_the_way_there_and_back(make_policy, space):
    policy = make_policy(space, net_arch={"pi": [7], "vf": [9, 8]})
    before = {name: each.clone() for name, each in policy.state_dict().items()}
    copied = NumpyPolicy(policy)
    copied.load()
    with th.no_grad():
        for each in policy.parameters():
            each.zero_()
    copied.store()
    for name, each in policy.state_dict().items():
        assert th.equal(each, before[name])


def test_no_longer_fits_when_parameters_were_replaced(make_policy):
    policy = make_policy(DISCRETE)
    copied = NumpyPolicy(policy)
    assert copied.fits(policy)
    policy.value_net.weight.data = policy.value_net.weight.data.clone()
    assert not copied.fits(policy)
    assert not copied.fits(make_policy(DISCRETE))


def test_refuses_parameters_that_are_not_finite(make_policy):
    policy = make_policy(DISCRETE)
    policy.value_net.bias.data.fill_(np.nan)
    with pytest.raises(ValueError, match="not finite"):
        NumpyPolicy(policy).load()


class _OwnValues(ActorCriticPolicy):
    def predict_values(self, obs):
        return super().predict_values(obs) + 1


class _Twice(nn.Module):
    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"cls": _OwnValues}, "not a plain ActorCriticPolicy"),
        ({"activation_fn": nn.ELU}, "Tanh or ReLU"),
        ({"dtype": th.float64}, "float64"),
        ({"action_space": spaces.MultiDiscrete([2, 2])}, "MultiCategorical"),
        (
            {
                "features_extractor_class": NormalizeFeaturesExtractor,
                "features_extractor_kwargs": {"normalize_class": _Twice},
            },
            "another library",
        ),
        (
            {
                "features_extractor_class": NormalizeFeaturesExtractor,
                "share_features_extractor": False,
            },
            "separately",
        ),
    ],
)
def test_says_why_a_policy_has_no_copy(make_policy, kwargs, reason):
    assert reason in why_no_numpy_policy(make_policy(**{"action_space": DISCRETE, **kwargs}))


def test_observations_other_than_vectors_have_no_copy():
    image = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    parts = spaces.Dict({"a": spaces.Box(0, 1, (2,))})
    for cls, space in ((ActorCriticCnnPolicy, image), (MultiInputActorCriticPolicy, parts)):
        assert "not vectors" in why_no_numpy_policy(cls(space, DISCRETE, lambda _: 1e-3))


def test_frozen_parameters_have_no_copy(make_policy):
    policy = make_policy(DISCRETE)
    policy.value_net.bias.requires_grad_(False)
    assert "frozen" in why_no_numpy_policy(policy)
