"""Reward networks to test other code with."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import ACT_SPACE, OBS_SPACE, fragment

from imitbench.data import rollout
from imitbench.testing.reward_nets import MockRewardNet, make_ensemble


@pytest.fixture
def transitions():
    steps = rollout.flatten_trajectories([fragment(np.random.default_rng(0), 5)])
    return steps.obs, steps.acts, steps.next_obs, steps.dones


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_a_mock_gives_its_value_to_every_transition(value, transitions):
    net = MockRewardNet(OBS_SPACE, ACT_SPACE, value=value)
    assert net.predict(*transitions).tolist() == [value] * 5
    assert net.predict_processed(*transitions).tolist() == [value] * 5
    assert MockRewardNet(OBS_SPACE, ACT_SPACE).value == 0.0


def test_an_ensemble_has_the_networks_that_were_asked_for(transitions):
    th.manual_seed(0)
    ensemble = make_ensemble(OBS_SPACE, ACT_SPACE, num_members=3, hid_sizes=(4,))
    rewards = ensemble.predict_processed_all(*transitions)
    assert rewards.shape == (5, 3)
    assert len(np.unique(rewards[0])) == 3
    mean, variance = ensemble.predict_reward_moments(*transitions)
    np.testing.assert_allclose(mean, rewards.mean(1), rtol=1e-5)
    assert (variance > 0).all()
