"""Comparisons on their way into training: checks, bags, splits and batches."""

import numpy as np
import pytest
from support.preference_pairs import pairs_of
from torch.utils.data import DataLoader

from imitbench.algorithms.preference_comparisons.dataset import (
    PreferenceDataset,
    TrainingData,
    in_batches,
    preference_collate_fn,
)


@pytest.fixture
def dataset():
    rng = np.random.default_rng(0)
    filled = PreferenceDataset()
    filled.push(pairs_of(rng, [3] * 10), rng.random(10).astype(np.float32))
    return filled


def test_entries_are_those_of_the_dataset(dataset):
    data = TrainingData.of(dataset)
    assert len(data) == 10
    assert [data[index] for index in range(10)] == [dataset[index] for index in range(10)]
    assert TrainingData.of(data) is data


def test_any_dataset_of_comparisons_is_accepted(dataset):
    plain = [dataset[index] for index in range(4)]
    assert np.array_equal(TrainingData.of(plain).preferences, dataset.preferences[:4])


def test_an_empty_dataset_is_reported():
    with pytest.raises(ValueError, match="dataset is empty: push comparisons"):
        TrainingData.of(PreferenceDataset())


@pytest.mark.parametrize("bad", [np.nan, -0.5, 1.5])
def test_a_preference_that_is_not_a_probability_is_reported(dataset, bad):
    dataset.preferences[3] = bad
    with pytest.raises(ValueError, match=f"the preference of comparison 3 is {bad}"):
        TrainingData.of(dataset)


def test_batches_cover_the_order_once():
    order = np.array([3, 1, 4, 0, 2])
    assert [batch.tolist() for batch in in_batches(order, 2)] == [[3, 1], [4, 0], [2]]


def test_a_split_divides_all_comparisons(dataset):
    data = TrainingData.of(dataset)
    train, held_out = data.split(0.25, np.random.default_rng(1))
    assert (len(train), len(held_out)) == (8, 2)
    assert sorted([*train.origins, *held_out.origins]) == list(range(10))
    assert np.array_equal(train.preferences, dataset.preferences[train.origins])
    again = data.split(0.25, np.random.default_rng(1))
    assert np.array_equal(again[1].origins, held_out.origins)


def test_a_bag_is_never_validated_on_what_it_is_trained_on(dataset):
    rng = np.random.default_rng(0)
    for _ in range(20):
        bag = TrainingData.of(dataset).take(rng.integers(10, size=10))
        train, held_out = bag.split(0.3, rng)
        assert len(train) + len(held_out) == 10
        assert not set(train.origins) & set(held_out.origins)


@pytest.mark.parametrize("share", [0.05, 0.999])
def test_too_few_comparisons_for_a_split_are_reported(dataset, share):
    data = TrainingData.of(dataset).take(np.array([0, 1, 1, 1]))
    if share > 0.5:
        data = data.take(np.array([0]))
    with pytest.raises(ValueError, match=r"too few to validate on a share of .*val_split"):
        data.split(share, np.random.default_rng(0))


def test_collating_is_for_data_loaders(dataset):
    loader = DataLoader(dataset, batch_size=4, collate_fn=preference_collate_fn)
    pairs, preferences = next(iter(loader))
    assert pairs == [dataset[index][0] for index in range(4)]
    assert np.array_equal(preferences, dataset.preferences[:4])
