"""Wrappers: what they change, what they keep, and what they may wrap."""

import functools

import numpy as np
import pytest
import torch as th
from torch import nn

from imitbench.rewards.reward_nets import (
    AddSTDRewardWrapper,
    BasicRewardNet,
    BasicShapedRewardNet,
    ForwardWrapper,
    NormalizedRewardNet,
    PredictProcessedWrapper,
    RewardEnsemble,
    RewardNet,
    RewardNetWrapper,
)
from imitbench.util.networks import EMANorm, RunningNorm


class Doubled(ForwardWrapper):
    def forward(self, *args):
        return 2 * self.base(*args)


class Raised(PredictProcessedWrapper):
    def predict_processed(self, *args, by=1.0, **kwargs):
        return self.base.predict_processed(*args, **kwargs) + by


class Kwargs(RewardNet):
    """Records the keyword arguments of `predict_processed`."""

    def forward(self, state, action, next_state, done):
        return state[:, 0]

    def predict_processed(self, *args, **kwargs):
        self.seen = kwargs
        return self.predict(*args)


@pytest.fixture
def base(vector_space, choice_space):
    return BasicRewardNet(vector_space, choice_space)


def test_forward_wrappers_change_everything(base, batch):
    net = Doubled(base)
    expected = 2 * base.predict(*batch)
    np.testing.assert_array_equal(net(*net.preprocess(*batch)).detach(), expected)
    for predict in (net.predict_th, net.predict, net.predict_processed):
        np.testing.assert_array_equal(predict(*batch), expected)


def test_predict_processed_wrappers_change_only_that(base, batch):
    net = Raised(base)
    expected = base.predict(*batch)
    np.testing.assert_array_equal(net.predict_processed(*batch), expected + 1)
    np.testing.assert_array_equal(net(*net.preprocess(*batch)).detach(), expected)
    for predict in (net.predict_th, net.predict):
        np.testing.assert_array_equal(predict(*batch), expected)


def test_wrappers_have_spaces_device_and_data_type_of_the_wrapped_network(base):
    net = NormalizedRewardNet(Doubled(base.double()), RunningNorm)
    assert isinstance(net, RewardNetWrapper)
    assert net.base.base is base
    assert (net.observation_space, net.action_space) == (base.observation_space, base.action_space)
    assert (net.device, net.dtype) == (th.device("cpu"), th.float64)


def test_forward_wrappers_must_be_inside_the_others(base):
    Raised(Doubled(base))
    for inside in (Raised(base), Raised(Doubled(base)), RewardNetWrapperOnly(Raised(base))):
        with pytest.raises(ValueError, match="Doubled changes forward and cannot go around"):
            Doubled(inside)


class RewardNetWrapperOnly(RewardNetWrapper):
    def forward(self, *args):
        return self.base(*args)


def test_keyword_arguments_reach_the_wrapped_network(vector_space, choice_space, batch):
    inner = Kwargs(vector_space, choice_space)
    net = NormalizedRewardNet(Raised(inner), RunningNorm)
    net.predict_processed(*batch, by=2.0, other="thing")
    assert inner.seen == {"other": "thing"}


@pytest.mark.parametrize("norm", [RunningNorm, EMANorm])
def test_normalization_uses_the_statistics_of_earlier_calls(base, batch, norm):
    net = NormalizedRewardNet(base, norm)
    raw = base.predict(*batch)
    reference = norm(1)
    for scale in (1, 2, 3):
        state, *rest = batch
        transitions = (state * scale, *rest)
        raw = th.from_numpy(base.predict(*transitions))[:, None]
        with th.no_grad():
            expected = reference.eval()(raw).squeeze(1)
        np.testing.assert_array_equal(net.predict_processed(*transitions), expected)
        with th.no_grad():
            reference.train()(raw)
    for key, value in reference.state_dict().items():
        assert th.equal(net.normalize_output_layer.state_dict()[key], value)


def test_normalized_rewards_have_mean_zero_and_variance_one(base, batch):
    net = NormalizedRewardNet(base, RunningNorm)
    net.predict_processed(*batch)
    rewards = net.predict_processed(*batch, update_stats=False)
    assert rewards.mean() == pytest.approx(0.0, abs=1e-5)
    assert rewards.std() == pytest.approx(1.0, rel=0.01)


def test_statistics_are_fixed_on_request_and_in_all_other_predictions(base, batch):
    net = NormalizedRewardNet(NormalizedRewardNet(base, RunningNorm), RunningNorm)
    net.predict_processed(*batch)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    partial = functools.partial(net.predict_processed, update_stats=False)
    for predict in (partial, net.predict, net.predict_th):
        predict(*batch)
        for key, value in net.state_dict().items():
            assert th.equal(before[key], value), key
    net.predict_processed(*batch)
    assert net.normalize_output_layer.count == net.base.normalize_output_layer.count == 18


def test_an_empty_batch_does_not_change_statistics(base, batch):
    net = NormalizedRewardNet(base, RunningNorm)
    assert net.predict_processed(*(part[:0] for part in batch)).shape == (0,)
    assert np.isfinite(net.predict_processed(*batch)).all()


def test_any_layer_that_keeps_the_shape_can_normalize(base, batch):
    np.testing.assert_array_equal(
        NormalizedRewardNet(base, nn.Identity).predict_processed(*batch), base.predict(*batch)
    )
    assert (NormalizedRewardNet(base, nn.LayerNorm).predict_processed(*batch) == 0).all()


def test_predictions_keep_training_mode(base, batch):
    net = NormalizedRewardNet(base, RunningNorm)
    net.predict_processed(*batch)
    assert all(part.training for part in net.modules())


@pytest.mark.parametrize("alpha", [0.0, 1.5, -2.0])
def test_standard_deviations_are_added(vector_space, choice_space, batch, alpha):
    members = [BasicRewardNet(vector_space, choice_space) for _ in range(3)]
    each = np.stack([member.predict(*batch) for member in members])
    expected = each.mean(0) + alpha * each.std(0, ddof=1)
    ensemble = RewardEnsemble(vector_space, choice_space, members)
    by_default = AddSTDRewardWrapper(ensemble, default_alpha=alpha)
    by_call = AddSTDRewardWrapper(ensemble)
    for rewards in (
        by_default.predict_processed(*batch),
        by_call.predict_processed(*batch, alpha=alpha),
        NormalizedRewardNet(by_call, nn.Identity).predict_processed(*batch, alpha=alpha),
    ):
        np.testing.assert_allclose(rewards, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_default.predict(*batch), each.mean(0), rtol=1e-5, atol=1e-6)


def test_standard_deviations_need_a_network_with_variance(vector_space, choice_space, base):
    for certain in (base, BasicShapedRewardNet(vector_space, choice_space)):
        with pytest.raises(TypeError, match="base: needs a RewardNetWithVariance"):
            AddSTDRewardWrapper(certain)
