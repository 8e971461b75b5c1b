"""Probabilities of preferences: closed forms, batches, ensembles, and what is refused."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import (
    ACT_SPACE,
    OBS_SPACE,
    LinearReward,
    fragment,
    linear_ensemble,
    pairs_of,
    perceptron,
)

from imitbench.algorithms.preference_comparisons import preference_model
from imitbench.algorithms.preference_comparisons.preference_model import (
    PreferenceModel,
    accuracies,
    get_base_model,
)
from imitbench.data.rollout import flatten_trajectories
from imitbench.rewards.reward_nets import (
    AddSTDRewardWrapper,
    NormalizedRewardNet,
    RewardEnsemble,
    ShapedRewardNet,
)
from imitbench.util.networks import RunningNorm

WEIGHT = [0.7, -1.2, 0.4]
MEMBERS = (WEIGHT, [0.0, 1.0, 0.0], [-2.0, 0.5, 0.1])
SETTINGS = [
    {},
    {"discount_factor": 0.9},
    {"noise_prob": 0.2},
    {"threshold": 0.5},
    {"discount_factor": 0.5, "noise_prob": 0.1, "threshold": 2.0},
    {"noise_prob": 1.0},
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def pairs(rng):
    return pairs_of(rng, [6] * 8)


def closed_form(pair, weight, *, noise_prob=0.0, discount_factor=1.0, threshold=50.0):
    """Probability of a linear reward, and its derivative by the weight, in float64."""
    decay = discount_factor ** np.arange(len(pair[0]))
    features = [decay @ each.obs[:-1].astype(np.float64) for each in pair]
    difference = (features[0] - features[1]) @ np.array(weight)
    clipped = np.clip(difference, -threshold, threshold)
    sigmoid = 1 / (1 + np.exp(-clipped))
    inside = abs(difference) < threshold
    slope = (1 - noise_prob) * sigmoid * (1 - sigmoid) * inside
    probability = noise_prob / 2 + (1 - noise_prob) * sigmoid
    return probability, slope * (features[0] - features[1])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_probability_and_its_gradient_equal_the_closed_forms(pairs, settings):
    net = LinearReward(WEIGHT)
    probabilities, _ = PreferenceModel(net, **settings)(pairs)
    assert probabilities.shape == (8,)
    for pair, probability in zip(pairs, probabilities, strict=True):
        expected, derivative = closed_form(pair, WEIGHT, **settings)
        (gradient,) = th.autograd.grad(probability, net.weight, retain_graph=True)
        assert probability.item() == pytest.approx(expected, rel=1e-5)
        assert np.allclose(gradient, derivative, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_cross_entropies_and_their_gradients_equal_the_closed_forms(settings):
    model = PreferenceModel(LinearReward(WEIGHT), **settings).double()
    noise, threshold = settings.get("noise_prob", 0.0), settings.get("threshold", 50.0)
    difference = th.tensor([-3.0, -0.4, 0.0, 0.3, 1.9], dtype=th.float64, requires_grad=True)
    target = th.tensor([0.0, 1.0, 0.5, 0.25, 1.0], dtype=th.float64)
    losses = model.cross_entropies(difference, target)
    (gradient,) = th.autograd.grad(losses.sum(), difference)
    d, q = difference.detach().numpy(), target.numpy()
    s = 1 / (1 + np.exp(-np.clip(d, -threshold, threshold)))
    p = noise / 2 + (1 - noise) * s
    assert np.allclose(losses.detach(), -q * np.log(p) - (1 - q) * np.log(1 - p), rtol=1e-12)
    slope = (1 - noise) * s * (1 - s) * (abs(d) < threshold)
    assert np.allclose(gradient, slope * (p - q) / (p * (1 - p)), rtol=1e-10, atol=1e-15)


def test_cross_entropy_is_exact_where_the_probability_rounds_to_one():
    model = PreferenceModel(LinearReward(WEIGHT))
    difference = th.tensor([30.0, 49.0, 60.0], requires_grad=True)
    losses = model.cross_entropies(difference, th.zeros(3))
    (gradient,) = th.autograd.grad(losses.sum(), difference)
    assert losses.tolist() == [30.0, 49.0, 50.0]
    assert gradient.tolist() == [1.0, 1.0, 0.0]  # beyond the threshold there is none


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("lengths", [[5] * 6, [5, 3, 8, 1, 5, 2]], ids=["equal", "ragged"])
@pytest.mark.parametrize("make", [perceptron, lambda: LinearReward(WEIGHT)])
def test_a_batch_gives_what_pairs_give_one_at_a_time(rng, lengths, make, settings):
    model = PreferenceModel(make(), **settings)
    pairs = pairs_of(rng, lengths)
    together, true_together = model(pairs)
    singly = [model([pair]) for pair in pairs]
    assert th.allclose(together, th.cat([each for each, _ in singly]), atol=1e-6)
    assert th.allclose(true_together, th.cat([true for _, true in singly]), atol=1e-7)


def test_the_methods_agree_with_each_other(pairs):
    model = PreferenceModel(perceptron(), discount_factor=0.9, noise_prob=0.1)
    probabilities, _ = model(pairs)
    returns1, returns2 = model.returns(pairs)
    for index, pair in enumerate(pairs):
        rewards = [model.rewards(flatten_trajectories([each])) for each in pair]
        assert rewards[0].shape == (6,)
        assert th.allclose(model.probability(*rewards), probabilities[index], atol=1e-6)
        total = (0.9 ** th.arange(6) * rewards[0]).sum()
        assert th.allclose(total, returns1[index], atol=1e-5)
    assert th.allclose(model.probability_of_difference(returns1 - returns2), probabilities)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("net", [LinearReward(WEIGHT), linear_ensemble(WEIGHT, [1.0, 0.0, 0.0])])
def test_true_probabilities_follow_the_same_formula(pairs, net, settings):
    _, true = PreferenceModel(net, **settings)(pairs)
    noise, threshold = settings.get("noise_prob", 0.0), settings.get("threshold", 50.0)
    decay = settings.get("discount_factor", 1.0) ** np.arange(6)
    for pair, probability in zip(pairs, true, strict=True):
        difference = decay @ (pair[0].rews - pair[1].rews)
        expected = 1 / (1 + np.exp(-np.clip(difference, -threshold, threshold)))
        assert probability.item() == pytest.approx(noise / 2 + (1 - noise) * expected, rel=1e-6)
    assert true.shape == (8,)


def test_without_true_rewards_there_are_no_true_probabilities(rng):
    assert PreferenceModel(perceptron())(pairs_of(rng, [3], rewards=False))[1] is None


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_members_of_an_ensemble_give_what_they_give_alone(pairs, settings):
    model = PreferenceModel(linear_ensemble(*MEMBERS), **settings)
    probabilities, _ = model(pairs)
    assert probabilities.shape == (8, 3)
    assert model.rewards(flatten_trajectories([pairs[0][0]])).shape == (6, 3)
    for index, weight in enumerate(MEMBERS):
        alone = PreferenceModel(LinearReward(weight), **settings)
        expected = alone(pairs)[0]
        assert th.equal(probabilities[:, index], expected)
        assert th.equal(model.member_pref_models[index](pairs)[0], expected)
        member = model.ensemble_model.members[index]
        ours = th.autograd.grad(probabilities[:, index].sum(), member.weight, retain_graph=True)
        theirs = th.autograd.grad(expected.sum(), alone.model.weight)
        assert th.equal(ours[0], theirs[0])


def test_reward_normalization_for_policies_has_no_effect(pairs):
    members = [NormalizedRewardNet(LinearReward(w), RunningNorm) for w in MEMBERS]
    model = PreferenceModel(RewardEnsemble(OBS_SPACE, ACT_SPACE, members))
    expected = PreferenceModel(linear_ensemble(*MEMBERS))(pairs)[0]
    assert th.equal(model(pairs)[0], expected)
    assert all(member.normalize_output_layer.count == 0 for member in members)


def test_an_ensemble_is_found_inside_the_wrapper_of_its_deviation(pairs):
    ensemble = linear_ensemble(*MEMBERS)
    model = PreferenceModel(AddSTDRewardWrapper(ensemble, default_alpha=-1.0))
    assert model.ensemble_model is ensemble
    assert th.equal(model(pairs)[0], PreferenceModel(ensemble)(pairs)[0])
    assert [name for name, _ in model.named_parameters()] == [
        f"model._base.members.{index}.weight" for index in range(3)
    ]


def test_an_ensemble_inside_another_wrapper_is_refused():
    wrapped = NormalizedRewardNet(linear_ensemble(*MEMBERS), RunningNorm)
    with pytest.raises(ValueError, match=r"AddSTDRewardWrapper, not in NormalizedRewardNet"):
        PreferenceModel(wrapped)
    deviation = AddSTDRewardWrapper(linear_ensemble(*MEMBERS))
    with pytest.raises(ValueError, match="not in NormalizedRewardNet"):
        PreferenceModel(NormalizedRewardNet(deviation, RunningNorm))


def test_a_single_network_has_no_members():
    model = PreferenceModel(perceptron())
    assert model.ensemble_model is None
    assert model.member_pref_models == []


def test_the_base_model_is_inside_all_wrappers():
    net = perceptron()
    shaped = ShapedRewardNet(net, lambda state: state[:, 0], 0.9)
    assert get_base_model(NormalizedRewardNet(shaped, RunningNorm)) is net
    assert get_base_model(net) is net


@pytest.mark.parametrize("mode", [True, False])
def test_the_caller_decides_whether_statistics_are_updated_once_per_batch(pairs, mode):
    model = PreferenceModel(perceptron(normalize_input_layer=RunningNorm)).train(mode)
    model(pairs)
    norm = model.model.mlp.normalize_input
    assert int(norm.count) == (2 * 8 * 6 if mode else 0)
    steps = np.concatenate(
        [np.hstack([each.obs[:-1], each.acts]) for pair in pairs for each in pair]
    )
    expected = steps.mean(axis=0) if mode else np.zeros(4)
    assert np.allclose(norm.running_mean, expected, atol=1e-6)


def test_evaluation_is_bounded_in_memory_and_changes_nothing(pairs, monkeypatch):
    model = PreferenceModel(perceptron(normalize_input_layer=RunningNorm)).train()
    model(pairs)  # some statistics
    before = {name: value.clone() for name, value in model.state_dict().items()}
    whole = model.predicted_returns(pairs)
    monkeypatch.setattr(preference_model, "_EVALUATED_AT_ONCE", 3 * 2 * 6 * 3 * 4)
    seen = []
    model.model.register_forward_hook(lambda *args: seen.append(len(args[2])))
    parts = model.predicted_returns(pairs)
    assert seen == [36, 36, 24]  # three pairs at a time
    for one, other in zip(whole, parts, strict=True):
        assert not one.requires_grad
        assert th.allclose(one, other, atol=1e-5)
    assert all(th.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.model.training


def test_scores_of_predictions_count_ties_half():
    differences = th.tensor([2.0, -1.0, 0.0, 0.0, 0.3, -0.3])
    preferences = th.tensor([1.0, 1.0, 1.0, 0.5, 0.5, 0.2])
    assert accuracies(differences, preferences).tolist() == [1.0, 0.0, 0.5, 1.0, 0.5, 1.0]
    members = th.stack([differences, -differences], dim=1)
    assert accuracies(members, preferences)[:, 1].tolist() == [0.0, 1.0, 0.5, 1.0, 0.5, 0.0]


def test_agreement_is_the_mean_score(pairs):
    model = PreferenceModel(linear_ensemble(WEIGHT, [-w for w in WEIGHT]))
    first_is_better = model.member_pref_models[0](pairs)[0] > 0.5
    preferences = first_is_better.numpy().astype(np.float32)
    assert model.member_pref_models[0].agreement(pairs, preferences) == 1.0
    assert model.member_pref_models[1].agreement(pairs, preferences) == 0.0
    assert model.agreement(pairs, preferences) == 0.5


class Overflowing(LinearReward):
    def forward(self, *args):
        return super().forward(*args) / 0


@pytest.mark.parametrize("make", [perceptron, lambda: LinearReward(WEIGHT)])
def test_a_prediction_that_is_not_finite_is_reported(rng, make):
    pairs = pairs_of(rng, [4] * 3)
    net = make()
    next(net.parameters()).data[:] = np.nan
    with pytest.raises(ValueError, match=r"pair 0: .*first fragment is nan, .*has diverged.*lr"):
        PreferenceModel(net)(pairs)
    with pytest.raises(ValueError, match="has diverged"):
        PreferenceModel(Overflowing(WEIGHT))(pairs)


def test_an_observation_that_is_not_finite_is_reported(rng):
    pairs = pairs_of(rng, [4] * 3)
    pairs[2][1].obs[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"pair 2: .*second fragment .* some observations"):
        PreferenceModel(perceptron())(pairs)


def test_large_but_finite_returns_pass(rng):
    pairs = pairs_of(rng, [1] * 2)
    for pair in pairs:
        for each in pair:
            each.obs[:] = 1.0
    probabilities, _ = PreferenceModel(LinearReward([3e38, 0.0, 0.0]))(pairs)
    assert probabilities.tolist() == [0.5, 0.5]


def test_rewards_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(4,\)"):
        PreferenceModel(perceptron()).probability(th.zeros(3), th.zeros(4))


class Columns(LinearReward):
    def forward(self, *args):
        return super().forward(*args).unsqueeze(1)


def test_a_network_gives_one_reward_per_step(pairs):
    with pytest.raises(ValueError, match=r"rewards have shape \(96, 1\)"):
        PreferenceModel(Columns(WEIGHT))(pairs)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("noise_prob", -0.1), ("noise_prob", 1.1), ("discount_factor", 2.0), ("threshold", 0.0)],
)
def test_numbers_out_of_range_are_reported(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        PreferenceModel(perceptron(), **{argument: value})


def test_fragments_need_no_rewards_of_their_own(rng):
    model = PreferenceModel(perceptron())
    pair = (fragment(rng, rewards=False), fragment(rng, rewards=False))
    assert model([pair])[0].shape == (1,)
