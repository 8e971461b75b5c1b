"""The cross-entropy of preferences, its gradient for ensembles, and its metrics."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import LinearReward, linear_ensemble, pairs_of, perceptron

from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
)
from imitbench.rewards.reward_nets import BasicRewardNet, RewardEnsemble

WEIGHTS = ([0.7, -1.2, 0.4], [0.0, 1.0, 0.0], [-2.0, 0.5, 0.1])
PREFERENCES = np.array([1.0, 0.0, 0.5, 0.25, 1.0], dtype=np.float32)


@pytest.fixture
def pairs():
    return pairs_of(np.random.default_rng(0), [6] * 5)


def cross_entropy(probabilities, preferences=PREFERENCES):
    p, q = np.asarray(probabilities, dtype=np.float64), preferences
    return (-q * np.log(p) - (1 - q) * np.log(1 - p)).mean()


@pytest.mark.parametrize(
    "settings", [{}, {"noise_prob": 0.3}, {"threshold": 0.2, "discount_factor": 0.9}], ids=str
)
def test_loss_and_metrics_equal_the_closed_forms(pairs, settings):
    model = PreferenceModel(LinearReward(WEIGHTS[0]), **settings)
    output = CrossEntropyRewardLoss()(pairs, PREFERENCES, model)
    probabilities, true = (each.detach().numpy() for each in model(pairs))
    assert output.loss.item() == pytest.approx(cross_entropy(probabilities), rel=1e-5)
    assert output.metrics["gt_reward_loss"].item() == pytest.approx(cross_entropy(true), rel=1e-5)
    assert set(output.metrics) == {"accuracy", "gt_reward_loss"}
    assert not any(metric.requires_grad for metric in output.metrics.values())


def test_the_gradient_is_that_of_bradley_and_terry(pairs):
    net = LinearReward(WEIGHTS[0])
    model = PreferenceModel(net)
    CrossEntropyRewardLoss()(pairs, PREFERENCES, model).loss.backward()
    features = np.array([first.obs[:-1].sum(0) - second.obs[:-1].sum(0) for first, second in pairs])
    probabilities = 1 / (1 + np.exp(-features @ np.array(WEIGHTS[0])))
    expected = ((probabilities - PREFERENCES)[:, None] * features).mean(axis=0)
    assert np.allclose(net.weight.grad, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"noise_prob": 0.3, "discount_factor": 0.9}], ids=str)
def test_each_member_of_an_ensemble_gets_the_gradient_it_would_get_alone(pairs, settings):
    members = [perceptron(seed) for seed in range(3)]
    spaces = members[0].observation_space, members[0].action_space
    together = PreferenceModel(RewardEnsemble(*spaces, members), **settings)
    output = CrossEntropyRewardLoss()(pairs, PREFERENCES, together)
    output.loss.backward()
    losses, accuracies = [], []
    for seed, member in enumerate(members):
        alone = perceptron(seed)
        own = CrossEntropyRewardLoss()(pairs, PREFERENCES, PreferenceModel(alone, **settings))
        own.loss.backward()
        for ours, expected in zip(member.parameters(), alone.parameters(), strict=True):
            assert th.equal(ours.grad, expected.grad)
        losses.append(own.loss.item())
        accuracies.append(own.metrics["accuracy"].item())
    assert output.loss.item() == pytest.approx(sum(losses), rel=1e-6)
    assert output.metrics["accuracy"].item() == pytest.approx(np.mean(accuracies), rel=1e-6)
    assert output.metrics["gt_reward_loss"].item() == own.metrics["gt_reward_loss"].item()


def test_the_loss_of_an_ensemble_is_not_that_of_its_mean_probability(pairs):
    model = PreferenceModel(linear_ensemble(*WEIGHTS))
    probabilities = model(pairs)[0].detach().numpy()
    loss = CrossEntropyRewardLoss()(pairs, PREFERENCES, model).loss.item()
    assert loss == pytest.approx(sum(map(cross_entropy, probabilities.T)), rel=1e-5)
    assert abs(loss - cross_entropy(probabilities.mean(axis=1))) > 0.1


def test_loss_stays_finite_and_exact_for_confident_errors(pairs):
    net = LinearReward([1000.0, 0.0, 0.0])
    model = PreferenceModel(net)
    wrong = (model(pairs)[0] < 0.5).numpy().astype(np.float32)
    assert CrossEntropyRewardLoss()(pairs, wrong, model).loss.item() == pytest.approx(50.0)
    net.weight.data = th.tensor([25.0, 0.0, 0.0]) / abs(
        pairs[0][0].obs[:-1, 0].sum() - pairs[0][1].obs[:-1, 0].sum()
    )
    output = CrossEntropyRewardLoss()(pairs[:1], wrong[:1], model)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(25.0, rel=1e-5)
    difference = 25.0 / float(net.weight[0].detach())
    assert abs(net.weight.grad[0].item()) == pytest.approx(difference, rel=1e-5)


def test_ties_count_half_on_one_side_and_whole_on_both():
    rng = np.random.default_rng(0)
    pairs = [(first, first) for first, _ in pairs_of(rng, [3, 3])]  # the network sees a tie
    model = PreferenceModel(LinearReward(WEIGHTS[0]))
    for preferences, accuracy in (([0.5, 0.5], 1.0), ([1.0, 0.0], 0.5), ([0.5, 1.0], 0.75)):
        output = CrossEntropyRewardLoss()(pairs, np.array(preferences, np.float32), model)
        assert output.metrics["accuracy"].item() == accuracy


def test_without_true_rewards_only_accuracy_is_measured():
    pairs = pairs_of(np.random.default_rng(0), [3] * 5, rewards=False)
    output = CrossEntropyRewardLoss()(pairs, PREFERENCES, PreferenceModel(perceptron()))
    assert set(output.metrics) == {"accuracy"}


def test_there_is_one_preference_per_pair(pairs):
    model = PreferenceModel(perceptron())
    with pytest.raises(ValueError, match=r"preferences have shape \(4,\); 5 pairs need \(5,\)"):
        CrossEntropyRewardLoss()(pairs, PREFERENCES[:4], model)


def test_the_network_evaluates_the_whole_batch_once(pairs):
    net = LinearReward(WEIGHTS[0])
    seen = []
    net.register_forward_hook(lambda *args: seen.append(len(args[2])))
    CrossEntropyRewardLoss()(pairs, PREFERENCES, PreferenceModel(net))
    assert seen == [2 * 5 * 6]
    assert not isinstance(net, BasicRewardNet)
