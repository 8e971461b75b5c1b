"""The short cut for perceptrons: loss and gradient as autograd has them, where it may be taken."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.preference_pairs import OBS_SPACE, LinearReward, pairs_of, perceptron
from torch import nn

from imitbench.algorithms.preference_comparisons import closed_form_gradient as module
from imitbench.algorithms.preference_comparisons.closed_form_gradient import (
    closed_form_gradient,
    cross_entropies,
)
from imitbench.algorithms.preference_comparisons.fragment_batch import FragmentPairs
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
)
from imitbench.rewards.reward_nets import BasicRewardNet, NormalizedRewardNet
from imitbench.util.networks import EMANorm, RunningNorm

NETS = {
    "usual": {},
    "deep": {"hid_sizes": (16, 8, 4)},
    "linear": {"hid_sizes": ()},
    "tanh": {"activation": nn.Tanh},
    "normalized": {"normalize_input_layer": RunningNorm},
    "forgetting": {"normalize_input_layer": EMANorm, "hid_sizes": (64,)},
    "everything": {"use_next_state": True, "use_done": True},
    "state": {"use_action": False},
}
SETTINGS = [
    {},
    {"discount_factor": 0.8},
    {"noise_prob": 0.2},
    {"threshold": 0.3},
    {"discount_factor": 0.5, "noise_prob": 0.1, "threshold": 2.0},
    {"noise_prob": 1.0},
]
PREFERENCES = np.array([1.0, 0.0, 0.5, 0.25, 1.0], dtype=np.float32)


@pytest.fixture
def pairs():
    return FragmentPairs(pairs_of(np.random.default_rng(0), [6] * 5, terminal=True))


def autograd(model, pairs, preferences, share=1.0):
    output = CrossEntropyRewardLoss()(pairs, preferences, model)
    gradients = th.autograd.grad(share * output.loss, list(model.parameters()))
    values = {name: value.item() for name, value in output.metrics.items()}
    return {"loss": output.loss.item(), **values}, gradients


def by_hand(model, pairs, preferences, share=1.0):
    lean = closed_form_gradient(CrossEntropyRewardLoss(), model, pairs)
    values = lean.add(pairs, preferences, share)
    return values, [each.grad for each in model.parameters()]


def assert_same(ours, theirs):
    assert ours[0] == pytest.approx(theirs[0], rel=1e-5, abs=1e-7)
    assert list(ours[0]) == list(theirs[0])
    for one, other in zip(ours[1], theirs[1], strict=True):
        assert one.shape == other.shape
        assert th.allclose(one, other, rtol=1e-4, atol=1e-6 + 1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kwargs", NETS.values(), ids=NETS)
def test_loss_metrics_and_gradient_equal_those_of_autograd(pairs, kwargs, settings):
    lean, plain = (PreferenceModel(perceptron(**kwargs), **settings) for _ in range(2))
    ours = by_hand(lean, pairs, PREFERENCES, share=0.7)
    assert_same(ours, autograd(plain, pairs, PREFERENCES, share=0.7))
    statistics = dict(lean.named_buffers())
    for name, buffer in plain.named_buffers():  # they were updated by one batch
        assert th.equal(buffer, statistics[name])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_cross_entropies_equal_those_of_the_model(settings):
    model = PreferenceModel(perceptron(), **settings)
    difference = th.linspace(-60, 60, 81, dtype=th.float64, requires_grad=True)
    preferences = th.linspace(0, 1, 81, dtype=th.float64)
    losses = model.cross_entropies(difference, preferences)
    (gradient,) = th.autograd.grad(losses.sum(), difference)
    ours = cross_entropies(model, difference.detach().numpy(), preferences.numpy())
    assert np.allclose(ours[0], losses.detach(), rtol=1e-12, atol=1e-12)
    assert np.allclose(ours[1], gradient, rtol=1e-10, atol=1e-12)


def test_gradients_add_up_in_the_same_tensors_until_they_are_zeroed(pairs):
    model = PreferenceModel(perceptron())
    lean = closed_form_gradient(CrossEntropyRewardLoss(), model, pairs)
    places = [each.grad for each in model.parameters()]
    lean.add(pairs, PREFERENCES, 1.0)
    once = [each.clone() for each in places]
    lean.add(pairs, PREFERENCES, 0.5)
    assert all(th.allclose(now, 1.5 * then) for now, then in zip(places, once, strict=True))
    lean.zero()
    assert all(not each.any() for each in places)
    assert [id(each.grad) for each in model.parameters()] == [id(each) for each in places]


@pytest.mark.parametrize("limit", [0, 2**26], ids=["each batch", "at once"])
@pytest.mark.parametrize("chosen", [[0, 3], [4, 4, 1]])
def test_batches_of_joined_steps_give_the_same_gradient(pairs, chosen, limit, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_ENCODED", limit)
    chosen = np.array(chosen)
    settings = {"use_next_state": True, "use_done": True}
    lean, plain = (PreferenceModel(perceptron(**settings), discount_factor=0.9) for _ in range(2))
    taken = pairs.take(chosen)
    expected = autograd(plain, [pairs[index] for index in chosen], PREFERENCES[chosen])
    assert_same(by_hand(lean, taken, PREFERENCES[chosen]), expected)


def test_encoded_steps_are_cached_per_network(pairs):
    taken = pairs.take(np.array([0, 1]))
    for kwargs in ({}, {"use_action": False}, {"use_done": True}, {}):
        lean, plain = (PreferenceModel(perceptron(**kwargs)) for _ in range(2))
        expected = autograd(plain, taken, PREFERENCES[:2])
        assert_same(by_hand(lean, taken, PREFERENCES[:2]), expected)


def test_discrete_actions_are_encoded():
    pairs = pairs_of(np.random.default_rng(0), [6] * 5)
    for index, each in enumerate(fragment for pair in pairs for fragment in pair):
        object.__setattr__(each, "acts", (np.arange(6) + index) % 3)
    models = []
    for _ in range(2):
        th.manual_seed(0)
        models.append(PreferenceModel(BasicRewardNet(OBS_SPACE, spaces.Discrete(3))))
    known = FragmentPairs(pairs)
    assert_same(by_hand(models[0], known, PREFERENCES), autograd(models[1], known, PREFERENCES))


def test_reward_normalization_for_policies_is_ignored(pairs):
    lean = PreferenceModel(NormalizedRewardNet(perceptron(), RunningNorm))
    expected = autograd(PreferenceModel(perceptron()), pairs, PREFERENCES)
    assert_same(by_hand(lean, pairs, PREFERENCES), expected)
    assert lean.model.normalize_output_layer.count == 0


def test_without_true_rewards_only_accuracy_is_measured():
    pairs = FragmentPairs(pairs_of(np.random.default_rng(0), [6] * 5, rewards=False))
    values, _ = by_hand(PreferenceModel(perceptron()), pairs, PREFERENCES)
    assert list(values) == ["loss", "accuracy"]


def test_a_prediction_that_is_not_finite_is_reported(pairs):
    net = perceptron()
    net.mlp.dense0.weight.data[0] = np.nan
    with pytest.raises(ValueError, match=r"pair 0: .*training has diverged"):
        by_hand(PreferenceModel(net), pairs, PREFERENCES)


class Shifted(BasicRewardNet):
    def forward(self, *args):
        return super().forward(*args) + 1


class OtherModel(PreferenceModel):
    pass


class OtherLoss(CrossEntropyRewardLoss):
    pass


def hooked(net):
    net.mlp.dense0.register_forward_hook(lambda *_: None)
    return net


def frozen(net):
    net.mlp.dense0.weight.requires_grad_(False)
    return net


@pytest.mark.parametrize(
    "make",
    [
        lambda: perceptron(dropout_prob=0.5),
        lambda: perceptron(activation=nn.GELU),
        lambda: perceptron(normalize_input_layer=nn.LayerNorm),
        lambda: perceptron().double(),
        lambda: hooked(perceptron()),
        lambda: frozen(perceptron()),
        lambda: NormalizedRewardNet(perceptron(), nn.LayerNorm),
        lambda: Shifted(OBS_SPACE, OBS_SPACE),
        lambda: LinearReward([1.0, 0.0, 0.0]),
    ],
)
def test_other_networks_use_autograd(pairs, make):
    assert closed_form_gradient(CrossEntropyRewardLoss(), PreferenceModel(make()), pairs) is None


def test_other_losses_models_and_lengths_use_autograd(pairs):
    loss, model = CrossEntropyRewardLoss(), PreferenceModel(perceptron())
    assert closed_form_gradient(loss, model, pairs) is not None
    assert closed_form_gradient(OtherLoss(), model, pairs) is None
    assert closed_form_gradient(loss, OtherModel(perceptron()), pairs) is None
    ragged = FragmentPairs(pairs_of(np.random.default_rng(0), [3, 4]))
    assert closed_form_gradient(loss, model, ragged) is None
