"""Comparisons count in training by the weights of their answers."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import LinearReward, pairs_of, perceptron, quiet_logger, weights

from imitbench.algorithms.preference_comparisons import (
    AnsweredPairs,
    CrossEntropyRewardLoss,
    PreferenceDataset,
    PreferenceGatherer,
    PreferenceModel,
    make_reward_trainer,
)
from imitbench.algorithms.preference_comparisons.closed_form_gradient import closed_form_gradient
from imitbench.algorithms.preference_comparisons.dataset import TrainingData


@pytest.fixture
def pairs():
    return pairs_of(np.random.default_rng(0), [4] * 6)


PREFERENCES = np.float32([0, 1, 0.5, 1, 0.25, 0])


def test_weights_are_kept_with_their_comparisons(pairs, tmp_path):
    dataset = PreferenceDataset(max_size=3)
    skipped = np.float32([1, np.nan, 0, 1, 0, 1])
    dataset.push(pairs, skipped, np.float32([1, 2, 3, 4, 5, 6]))
    assert dataset.weights.tolist() == [4, 5, 6]
    dataset.push(pairs[:1], skipped[:1])
    assert dataset.weights.tolist() == [5, 6, 1]
    dataset.save(tmp_path / "set")
    assert PreferenceDataset.load(tmp_path / "set").weights.tolist() == [5, 6, 1]
    assert "weights" in dataset.state_dict()["arrays"]


def test_files_without_weights_stay_as_they_were(pairs):
    dataset = PreferenceDataset()
    dataset.push(pairs, PREFERENCES)
    state = dataset.state_dict()
    assert "weights" not in state["arrays"]
    dataset.load_state_dict(state)
    assert dataset.weights.tolist() == [1] * 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(5), r"weights must have shape \(6,\)"),
        (np.array([1, 1, 0, 1, 1, 1]), "must be positive and finite, but that of pair 2 is 0"),
        (np.array([1, np.inf, 1, 1, 1, 1]), "that of pair 1 is inf"),
    ],
)
def test_wrong_weights_are_refused(pairs, given, message):
    dataset = PreferenceDataset()
    with pytest.raises(ValueError, match=message):
        dataset.push(pairs, PREFERENCES, given)
    assert len(dataset) == 0


def test_weights_multiply_the_loss_of_each_pair(pairs):
    model = PreferenceModel(LinearReward([0.0, 0.0, 0.0]))
    # Without rewards every cross-entropy is log 2.
    given = np.float32([2, 1, 0.5, 1, 1, 0.5])
    loss = CrossEntropyRewardLoss()(pairs, PREFERENCES, model, given).loss
    assert loss.item() == pytest.approx(np.log(2))
    half = CrossEntropyRewardLoss()(pairs, PREFERENCES, model, given / 2).loss
    assert half.item() == pytest.approx(np.log(2) / 2)


def test_training_uses_weights_relative_to_their_mean(pairs):
    dataset = PreferenceDataset()
    dataset.push(pairs, PREFERENCES, np.float32([2, 4, 6, 2, 4, 6]))
    data = TrainingData.of(dataset)
    assert data.weights.tolist() == [0.5, 1.0, 1.5, 0.5, 1.0, 1.5]
    assert data.take(np.array([2, 0])).weights.tolist() == [1.5, 0.5]
    dataset = PreferenceDataset()
    dataset.push(pairs, PREFERENCES, np.full(6, 3.0))
    assert TrainingData.of(dataset).weights is None


def test_the_closed_form_has_the_same_weighted_gradient(pairs):
    dataset = PreferenceDataset()
    dataset.push(pairs, PREFERENCES, np.float32([1, 2, 3, 4, 5, 6]))
    data = TrainingData.of(dataset)
    model = PreferenceModel(perceptron())
    loss = CrossEntropyRewardLoss()
    expected = loss(data.pairs, data.preferences, model, data.weights)
    expected.loss.backward()
    gradients = [each.grad.clone() for each in model.parameters()]
    lean = closed_form_gradient(loss, model, data.pairs)
    metrics = lean.add(data.pairs, data.preferences, 1.0, data.weights)
    assert metrics["loss"] == pytest.approx(expected.loss.item(), rel=1e-5)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert th.allclose(parameter.grad, gradient, atol=1e-6)


@pytest.mark.parametrize("lean", [True, False])
def test_a_comparison_with_hardly_any_weight_hardly_matters(pairs, tmp_path, lean):
    def trained(preferences):
        dataset = PreferenceDataset()
        dataset.push(pairs, preferences, np.float32([1, 1, 1e-9, 1, 1, 1]))
        net = perceptron() if lean else LinearReward([0.1, 0.2, 0.3])
        trainer = make_reward_trainer(
            PreferenceModel(net),
            CrossEntropyRewardLoss(),
            np.random.default_rng(0),
            {"epochs": 3, "batch_size": 2, "custom_logger": quiet_logger(tmp_path)},
        )
        trainer.train(dataset)
        # A last bias is in both returns of a pair, so its gradient is rounding error.
        return weights(trainer)[:-1] if lean else weights(trainer)

    turned, other = PREFERENCES.copy(), PREFERENCES.copy()
    turned[2], other[1] = 1.0, 0.0
    assert th.allclose(trained(PREFERENCES), trained(turned), atol=1e-3)
    assert not th.allclose(trained(PREFERENCES), trained(other), atol=1e-3)


def test_a_gatherer_gives_all_answers_the_same_weight_by_default(pairs):
    class First(PreferenceGatherer):
        def __call__(self, fragment_pairs):
            return np.ones(len(fragment_pairs), np.float32)

    answered = First().gather(pairs)
    assert isinstance(answered, AnsweredPairs)
    assert answered.pairs is pairs
    assert answered.weights.tolist() == answered.preferences.tolist() == [1] * 6
