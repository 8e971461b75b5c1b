"""Normalizing layers keep exact statistics; builders build what they are asked for."""

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from imitbench.util import networks


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=30)
def test_running_norm_statistics_are_those_of_all_data_at_once(sizes, seed):
    data = np.random.default_rng(seed).normal(3.0, 2.0, (sum(sizes), 3)).astype(np.float32)
    norm = networks.RunningNorm(3)
    for batch in th.from_numpy(data).split(sizes):
        norm(batch)
    np.testing.assert_allclose(norm.running_mean, data.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(norm.running_var, data.var(axis=0), rtol=1e-3, atol=1e-4)
    assert norm.count == len(data)


def test_normalized_data_have_mean_0_and_variance_1():
    data = th.randn(1000, 2, generator=th.Generator().manual_seed(0)) * 5 + 7
    out = networks.RunningNorm(2)(data)
    assert out.mean(dim=0).abs().max() < 1e-4
    assert (out.var(dim=0, correction=0) - 1).abs().max() < 1e-3


@pytest.mark.parametrize("cls", [networks.RunningNorm, networks.EMANorm])
def test_statistics_are_frozen_in_evaluation_mode(cls):
    norm = cls(2)
    norm(th.randn(10, 2))
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    norm.eval()
    norm(th.randn(10, 2) + 100)
    assert all(th.equal(before[key], value) for key, value in norm.state_dict().items())


@pytest.mark.parametrize("cls", [networks.RunningNorm, networks.EMANorm])
def test_a_new_or_reset_layer_is_the_identity(cls):
    norm = cls(2)
    norm(th.randn(10, 2))
    norm.reset_running_stats()
    norm.eval()
    x = th.randn(4, 2)
    th.testing.assert_close(norm(x), x, rtol=1e-4, atol=1e-5)


def test_ema_norm_weighs_samples_by_age():
    decay, batches = 0.9, th.randn(6, 5, 2, generator=th.Generator().manual_seed(1))
    norm = networks.EMANorm(2, decay=decay)
    for batch in batches:
        norm(batch)
    # A batch's weight, relative to the newest, shrinks by the decay for every batch after it,
    # so the share of the newest is 1 / (1 + decay + decay^2 + ...).
    weights = th.tensor([1.0])
    for number in range(1, len(batches)):
        share = 1 / sum(decay**n for n in range(number + 1))
        weights = th.cat([weights * (1 - share), th.tensor([share])])
    per_sample = (weights / batches.shape[1]).repeat_interleave(batches.shape[1])[:, None]
    flat = batches.flatten(0, 1)
    mean = (per_sample * flat).sum(dim=0)
    var = (per_sample * (flat - mean).square()).sum(dim=0)
    th.testing.assert_close(norm.running_mean, mean, rtol=1e-4, atol=1e-5)
    th.testing.assert_close(norm.running_var, var, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0])
def test_ema_norm_refuses_a_decay_out_of_range(decay):
    with pytest.raises(ValueError, match="decay"):
        networks.EMANorm(2, decay=decay)


def test_the_mode_may_be_given():
    layer = networks.RunningNorm(1)
    for context, mode in (
        (networks.training_mode(layer), False),
        (networks.training_mode(layer, True), True),
        (networks.training(layer, mode=False), False),
        (networks.evaluating(layer, mode=True), True),
    ):
        with context:
            assert layer.training is mode


def test_training_mode_is_restored():
    layer = nn.Linear(1, 1)
    with networks.evaluating(layer) as inside:
        assert not inside.training
        with networks.training(layer):
            assert layer.training
        assert not layer.training
    assert layer.training


def test_mlp_layers_have_the_asked_sizes_and_names():
    mlp = networks.build_mlp(
        4, [8, 3], out_size=1, name="reward", squeeze_output=True, dropout_prob=0.5,
        flatten_input=True, normalize_input_layer=networks.RunningNorm, activation=nn.Tanh,
    )  # fmt: skip
    assert [name for name, _ in mlp.named_children()] == [
        "reward_flatten", "reward_normalize_input", "reward_dense0", "reward_act0",
        "reward_dropout0", "reward_dense1", "reward_act1", "reward_dropout1",
        "reward_dense_final", "reward_squeeze",
    ]  # fmt: skip
    assert mlp(th.randn(5, 2, 2)).shape == (5,)


def test_slopes_stay_below_the_lipschitz_bound_and_reach_it():
    generator = th.Generator().manual_seed(0)
    x = th.randn(400, 4, generator=generator)
    step = th.randn(400, 4, generator=generator) / 10

    def largest_slope(bound):
        th.manual_seed(1)
        mlp = networks.build_mlp(4, [16], spectral_norm=True, lipschitz=bound)
        fit = th.optim.Adam(mlp.parameters(), 0.01)
        for _ in range(200):  # estimates the singular values, and asks for slopes beyond the bound
            fit.zero_grad()
            (mlp(x).squeeze(1) - 50 * x[:, 0]).square().mean().backward()
            fit.step()
        mlp.eval()
        with th.no_grad():
            return ((mlp(x + step) - mlp(x)).squeeze(1).abs() / step.norm(dim=1)).max().item()

    assert 0.7 < largest_slope(1.0) < 1.02
    assert 2.1 < largest_slope(3.0) < 3.06


def test_a_bound_without_spectral_normalization_is_refused():
    with pytest.raises(ValueError, match="spectral_norm"):
        networks.build_mlp(3, [2], lipschitz=2.0)


def test_cnn_maps_images_to_vectors():
    cnn = networks.build_cnn(3, [4, 4], out_size=2, dropout_prob=0.1)
    assert cnn(th.randn(5, 3, 9, 7)).shape == (5, 2)
    assert networks.build_cnn(1, [2], squeeze_output=True)(th.randn(5, 1, 8, 8)).shape == (5,)


@pytest.mark.parametrize("build", [networks.build_mlp, networks.build_cnn])
def test_only_a_single_output_can_be_squeezed(build):
    with pytest.raises(ValueError, match="out_size"):
        build(3, [2], out_size=2, squeeze_output=True)
    with pytest.raises(ValueError, match="shape"):
        networks.SqueezeLayer()(th.zeros(3, 2))
