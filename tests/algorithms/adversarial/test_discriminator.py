"""Batches of the expert, probabilities of actions, and statistics."""

import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC
from support.drift import drift_venv

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.common import compute_train_stats
from imitbench.algorithms.adversarial.discriminator import (
    ExpertBatches,
    checked_batches,
    log_action_probability,
)
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.policies.bounded_actions import ActionBounds

from .conftest import make_trainer, make_venv, random_transitions


def test_statistics_of_a_small_batch():
    logits = th.tensor([2.0, -1.0, 3.0, -0.5, 0.5])
    stats = compute_train_stats(logits, th.tensor([1, 1, 0, 0, 0]), th.tensor(0.25))
    p = 1 / (1 + np.exp(-logits.numpy()))
    assert stats["disc_loss"] == 0.25
    assert stats["disc_acc"] == pytest.approx(2 / 5)
    assert stats["disc_acc_expert"] == pytest.approx(1 / 2)
    assert stats["disc_acc_gen"] == pytest.approx(1 / 3)
    assert stats["disc_proportion_expert_true"] == pytest.approx(2 / 5)
    assert stats["disc_proportion_expert_pred"] == pytest.approx(3 / 5)
    assert (stats["n_expert"], stats["n_generated"]) == (2, 3)
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
    assert stats["disc_entropy"] == pytest.approx(entropy, rel=1e-5)


def test_without_samples_of_a_kind_their_accuracy_is_unknown():
    nothing = compute_train_stats(th.ones(0), th.ones(0), th.ones(0))
    assert nothing.pop("n_expert") == nothing.pop("n_generated") == 0
    assert all(math.isnan(value) for value in nothing.values())
    stats = compute_train_stats(th.tensor([1.0]), th.tensor([1]), th.tensor(0.0))
    assert np.isnan(stats["disc_acc_gen"])
    assert stats["disc_acc_expert"] == 1.0


def test_a_pass_yields_each_transition_once():
    transitions = random_transitions(make_venv(), count=12)
    batches = ExpertBatches(transitions, 4, np.random.default_rng(0))
    first = np.concatenate([next(batches)["obs"] for _ in range(3)])
    second = np.concatenate([next(batches)["obs"] for _ in range(3)])
    for seen in (first, second):
        np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(transitions.obs, axis=0))
    assert (first != second).any()


def test_fields_of_a_batch_stay_together():
    transitions = random_transitions(make_venv(), count=12)
    batch = next(ExpertBatches(transitions, 5, np.random.default_rng(0)))
    for obs, act, next_obs, done in zip(*batch.values(), strict=True):
        [index] = np.flatnonzero((transitions.obs == obs).all(axis=1))
        assert transitions.acts[index] == act
        assert transitions.dones[index] == done
        np.testing.assert_array_equal(transitions.next_obs[index], next_obs)


def test_too_little_data_is_reported():
    with pytest.raises(ValueError, match="12 transitions, fewer than batch_size 13"):
        ExpertBatches(random_transitions(make_venv(), 12), 13, np.random.default_rng(0))


def test_given_batches_are_repeated_and_checked():
    transitions = random_transitions(make_venv(), count=6)
    batch = {name: getattr(transitions, name) for name in ("obs", "acts", "next_obs", "dones")}
    batches = checked_batches([batch], 6)
    np.testing.assert_array_equal(next(batches)["obs"], next(batches)["obs"])
    with pytest.raises(ValueError, match="no 'dones'"):
        next(checked_batches([{k: v for k, v in batch.items() if k != "dones"}], 6))
    once = checked_batches(iter([batch]), 6)
    next(once)
    with pytest.raises(ValueError, match="single pass"):
        next(once)


@pytest.mark.parametrize("name", ["seals/CartPole-v0", "Pendulum-v1"])
def test_actor_critic_probabilities_are_those_of_the_policy(name):
    venv = make_venv(name)
    policy = PPO("MlpPolicy", venv, seed=0, device="cpu").policy
    data = random_transitions(venv, 20)
    obs, acts = th.tensor(data.obs), th.tensor(data.acts)
    got = log_action_probability(policy, obs, acts)
    th.testing.assert_close(got, policy.evaluate_actions(obs, acts)[1].detach())
    assert not got.requires_grad


SPACES = {
    "multi-binary": spaces.MultiBinary(3),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "one number": spaces.Box(-2.0, 2.0, (1, 1), np.float32),
    "matrix": spaces.Box(np.array([[-2.0], [0.0]]), np.array([[2.0], [8.0]]), dtype=np.float32),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_probabilities_of_every_kind_of_action(space):
    venv = drift_venv(space)
    policy = PPO("MlpPolicy", venv, seed=0, device="cpu").policy
    space.seed(0)
    obs = th.randn(16, 3)
    acts = th.as_tensor(np.stack([space.sample() for _ in range(16)]))
    got = log_action_probability(policy, obs, acts)
    assert got.shape == (16,)
    one_by_one = [
        policy.get_distribution(o[None]).log_prob(a.reshape(1, -1).float())
        for o, a in zip(obs, acts, strict=True)
    ]
    th.testing.assert_close(got, th.cat(one_by_one).detach())


@pytest.mark.parametrize("name", ["one number", "matrix"])
def test_sac_s_density_does_not_depend_on_the_shape_of_actions(name):
    shaped = SPACES[name]
    flat = spaces.Box(shaped.low.ravel(), shaped.high.ravel())
    densities, obs = [], th.randn(16, 3)
    shaped.seed(0)
    acts = th.as_tensor(np.stack([shaped.sample() for _ in range(16)]))
    for space in (shaped, flat):
        policy = SAC("MlpPolicy", drift_venv(space), seed=0, device="cpu", buffer_size=10).policy
        densities.append(log_action_probability(policy, obs, acts.reshape(16, *space.shape)))
    assert densities[0].shape == (16,)
    assert th.equal(*densities)


def test_sac_s_density_is_finite_at_the_bounds_and_unchanged_inside():
    venv = make_venv("Pendulum-v1")
    policy = SAC("MlpPolicy", venv, seed=0, device="cpu", buffer_size=10).policy
    bounds = ActionBounds.of(venv.action_space)
    obs, acts = th.randn(3, 3), th.tensor([[2.0], [-2.0], [0.5]])
    tailed = log_action_probability(policy, obs, acts, bounds)
    squashed = log_action_probability(policy, obs, acts)
    assert float(tailed[2]) == pytest.approx(float(squashed[2]), abs=1e-5)
    # At most 20 for each entry on (-1, 1), and half of that on (-2, 2).
    assert (tailed[:2] < math.log(10)).all()
    assert (tailed[:2] > -5).all()


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_airl_trains_on_every_kind_of_action(space):
    trainer = make_trainer(AIRL, drift_venv(space), demo_batch_size=16)
    trainer.train(120)


def test_computing_probabilities_does_not_change_the_policy_s_normalizer():
    venv = make_venv()
    kwargs = {"features_extractor_class": NormalizeFeaturesExtractor}
    policy = PPO("MlpPolicy", venv, seed=0, device="cpu", policy_kwargs=kwargs).policy
    policy.set_training_mode(True)
    data = random_transitions(venv, 20)
    log_action_probability(policy, th.tensor(data.obs), th.tensor(data.acts))
    assert policy.features_extractor.normalize.count == 0
    assert policy.training


def test_sac_s_density_integrates_to_one_over_the_environment_s_actions():
    venv = make_venv("Pendulum-v1")
    policy = SAC("MlpPolicy", venv, seed=0, device="cpu").policy
    low, high = venv.action_space.low.item(), venv.action_space.high.item()
    grid = th.linspace(low, high, 20_001)[:-1] + (high - low) / 40_000
    obs = th.zeros(len(grid), 3)
    density = log_action_probability(policy, obs, grid[:, None]).exp()
    assert float(density.sum()) * (high - low) / 20_000 == pytest.approx(1.0, abs=1e-2)


def test_sac_s_density_is_finite_at_the_edge_of_the_action_space():
    venv = make_venv("Pendulum-v1")
    policy = SAC("MlpPolicy", venv, seed=0, device="cpu").policy
    edges = th.as_tensor(np.stack([venv.action_space.low, venv.action_space.high]))
    assert th.isfinite(log_action_probability(policy, th.zeros(2, 3), edges)).all()


def test_a_deterministic_policy_gives_no_probabilities():
    venv = make_venv()
    assert isinstance(venv.action_space, spaces.Discrete)
    policy = DQN("MlpPolicy", venv, device="cpu", buffer_size=10).policy
    data = random_transitions(venv, 4)
    obs, acts = th.tensor(data.obs), th.tensor(data.acts)
    assert log_action_probability(policy, obs, acts) is None
