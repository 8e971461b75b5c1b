"""Ensembles: mean and variance of their members."""

import numpy as np
import pytest
import torch as th

from imitbench.rewards.reward_nets import (
    BasicRewardNet,
    NormalizedRewardNet,
    RewardEnsemble,
    RewardNetWithVariance,
)
from imitbench.util.networks import RunningNorm


@pytest.fixture
def ensemble(vector_space, choice_space):
    members = (BasicRewardNet(vector_space, choice_space) for _ in range(4))
    return RewardEnsemble(vector_space, choice_space, members)


def test_moments_are_those_of_the_members(ensemble, batch):
    assert isinstance(ensemble, RewardNetWithVariance)
    assert ensemble.num_members == len(ensemble.members) == 4
    each = np.stack([member.predict(*batch) for member in ensemble.members], axis=1)
    np.testing.assert_array_equal(ensemble.predict_processed_all(*batch), each)
    mean, variance = ensemble.predict_reward_moments(*batch)
    np.testing.assert_allclose(mean, np.mean(each, axis=1), rtol=1e-6)
    np.testing.assert_allclose(variance, np.var(each, axis=1, ddof=1), rtol=1e-5)
    for predict in (ensemble.predict, ensemble.predict_processed, ensemble.predict_th):
        np.testing.assert_array_equal(predict(*batch), mean)
    assert isinstance(ensemble.predict_th(*batch), th.Tensor)


def test_members_are_normalized_separately(vector_space, choice_space, batch):
    members = [
        NormalizedRewardNet(BasicRewardNet(vector_space, choice_space), RunningNorm)
        for _ in range(2)
    ]
    ensemble = RewardEnsemble(vector_space, choice_space, members)

    def counts():
        return [int(member.normalize_output_layer.count) for member in members]

    ensemble.predict_processed(*batch)
    assert counts() == [9, 9]
    frozen = ensemble.predict_processed(*batch, update_stats=False)
    ensemble.predict(*batch)
    ensemble.predict_th(*batch)
    assert counts() == [9, 9]
    each = [member.predict_processed(*batch, update_stats=False) for member in members]
    assert np.abs(np.mean(each, axis=1)).max() < 1e-5
    np.testing.assert_allclose(frozen, np.mean(each, axis=0), atol=1e-6)


def test_an_ensemble_has_no_forward_pass(ensemble, batch):
    with pytest.raises(NotImplementedError, match="train its members"):
        ensemble(*ensemble.preprocess(*batch))


@pytest.mark.parametrize("number", [0, 1])
def test_an_ensemble_needs_two_members(vector_space, choice_space, number):
    members = [BasicRewardNet(vector_space, choice_space) for _ in range(number)]
    with pytest.raises(ValueError, match=f"at least 2, not {number}"):
        RewardEnsemble(vector_space, choice_space, members)
