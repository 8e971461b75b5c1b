"""Behavior that all reward networks share."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import nn

from imitbench.rewards.base import frozen
from imitbench.rewards.reward_nets import BasicRewardNet, RewardNet
from imitbench.util.networks import RunningNorm


class SumNet(RewardNet):
    """The custom network of the tutorial: no parameters, only a forward pass."""

    def forward(self, state, action, next_state, done):
        return state.sum(1) + 10 * action.argmax(1) + 100 * next_state.sum(1) + 1000 * done


def test_a_custom_network_needs_only_a_forward_pass(vector_space, choice_space, batch):
    state, action, next_state, done = batch
    net = SumNet(vector_space, choice_space)
    expected = state.sum(1) + 10 * action + 100 * next_state.sum(1) + 1000 * done
    for predicted in (net.predict(*batch), net.predict_processed(*batch, whatever=1)):
        assert predicted.dtype == np.float32
        np.testing.assert_allclose(predicted, expected, rtol=1e-5)
    assert isinstance(net.predict_th(*batch), th.Tensor)
    assert (net.device, net.dtype) == (th.device("cpu"), th.float32)


def test_forward_of_preprocess_is_predict(vector_space, choice_space, batch):
    net = BasicRewardNet(vector_space, choice_space, use_next_state=True, use_done=True)
    rewards = net(*net.preprocess(*batch))
    assert rewards.requires_grad
    np.testing.assert_array_equal(rewards.detach().numpy(), net.predict(*batch))


def test_preprocess_encodes_arrays_and_tensors_the_same_way(vector_space, choice_space, batch):
    net = BasicRewardNet(vector_space, choice_space)
    from_arrays = net.preprocess(*batch)
    from_tensors = net.preprocess(*map(th.from_numpy, batch))
    for one, other in zip(from_arrays, from_tensors, strict=True):
        assert one.dtype == th.float32
        assert th.equal(one, other)
    assert from_arrays[1].shape == (9, 4)
    assert from_arrays[3].tolist() == batch[3].astype(float).tolist()


def test_a_network_in_double_precision_predicts_in_double_precision(
    vector_space, choice_space, batch
):
    net = BasicRewardNet(vector_space, choice_space).double()
    assert net.dtype == th.float64
    assert net.predict(*batch).dtype == np.float64


def test_predictions_carry_no_gradient(vector_space, choice_space, batch):
    net = BasicRewardNet(vector_space, choice_space)
    assert not net.predict_th(*batch).requires_grad
    assert th.is_grad_enabled()


def test_predictions_do_not_change_statistics_or_modes(vector_space, choice_space, batch):
    net = BasicRewardNet(
        vector_space, choice_space, normalize_input_layer=RunningNorm, dropout_prob=0.5
    )
    net(*net.preprocess(*batch))
    norm = net.mlp.normalize_input
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    assert before["count"] == 9
    rewards = [
        predict(*batch)
        for predict in (net.predict, net.predict, net.predict_processed, net.predict_th)
    ]
    for other in rewards[1:]:  # no dropout: always the same
        np.testing.assert_array_equal(rewards[0], other)
    for key, value in norm.state_dict().items():
        assert th.equal(before[key], value), key
    assert all(part.training for part in net.modules())


def test_the_mode_of_every_module_is_restored_even_after_an_error():
    net = nn.Sequential(nn.Linear(1, 1), nn.Dropout()).train()
    net[1].eval()
    with pytest.raises(RuntimeError, match="stop"), frozen(net):
        assert not any(part.training for part in net.modules())
        assert not th.is_grad_enabled()
        raise RuntimeError("stop")
    assert [part.training for part in net.modules()] == [True, True, False]
    assert th.is_grad_enabled()


def test_a_forward_pass_of_another_shape_is_refused(vector_space, choice_space, batch):
    class Column(SumNet):
        def forward(self, *args):
            return super().forward(*args).unsqueeze(1)

    with pytest.raises(ValueError, match=r"rewards have shape \(9, 1\)"):
        Column(vector_space, choice_space).predict(*batch)


def test_inconsistent_batches_are_refused(vector_space, choice_space, batch):
    state, action, next_state, done = batch
    net = BasicRewardNet(vector_space, choice_space)
    with pytest.raises(ValueError, match="9 states, 8 actions"):
        net.predict(state, action[:8], next_state, done)
    with pytest.raises(ValueError, match=r"next_state has shape \(9, 2\); it needs \(n, 3\)"):
        net.predict(state, action, next_state[:, :2], done)
    with pytest.raises(ValueError, match="done has shape"):
        net.predict(state, action, next_state, done[:, None])
    with pytest.raises(ValueError, match="action holds a value that is not in its space"):
        net.predict(state, action + 4, next_state, done)


def test_an_empty_batch_has_no_rewards(vector_space, choice_space, batch):
    net = BasicRewardNet(vector_space, choice_space)
    assert net.predict(*(part[:0] for part in batch)).shape == (0,)


def test_dictionary_spaces_are_refused_by_the_name_of_the_argument(vector_space, choice_space):
    composite = spaces.Dict({"a": vector_space})
    with pytest.raises(ValueError, match=r"^observation_space: Dict"):
        BasicRewardNet(composite, choice_space)
    with pytest.raises(ValueError, match=r"^action_space: Dict"):
        BasicRewardNet(vector_space, composite)
