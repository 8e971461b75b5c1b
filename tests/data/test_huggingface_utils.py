import dataclasses

import numpy as np
import pytest

from imitbench.data.huggingface_utils import (
    TrajectoryDatasetSequence,
    trajectories_to_dataset,
    trajectories_to_dict,
)
from imitbench.data.rollout import rollout_stats
from imitbench.data.trajectories import Trajectory
from imitbench.errors import InputError


@pytest.fixture
def made(trajectories):
    """Trajectories with infos, as a data set always has them."""
    return [
        dataclasses.replace(t, infos=np.array([{"i": i} for i in range(len(t))]))
        for t in trajectories()
    ]


def test_a_data_set_is_a_sequence_of_the_same_trajectories(made):
    sequence = TrajectoryDatasetSequence(trajectories_to_dataset(made))
    assert len(sequence) == 3
    assert list(sequence) == made
    assert sequence[-1] == made[-1]
    assert list(reversed(sequence)) == made[::-1]
    with pytest.raises(IndexError):
        sequence[3]
    assert rollout_stats(sequence) == rollout_stats(made)


@pytest.mark.parametrize("part", [slice(1, None), slice(None, None, -1), slice(0, 0)])
def test_a_slice_is_a_sequence_too(made, part):
    sequence = TrajectoryDatasetSequence(trajectories_to_dataset(made))[part]
    assert isinstance(sequence, TrajectoryDatasetSequence)
    assert list(sequence) == made[part]


def test_data_types_are_kept(trajectories):
    for dtype in (np.float32, np.float64):
        dataset = trajectories_to_dataset(trajectories(obs_dtype=dtype))
        assert TrajectoryDatasetSequence(dataset)[0].obs.dtype == dtype


def test_shuffled_and_selected_data_sets_keep_their_order(made):
    dataset = trajectories_to_dataset(made).select([2, 0])
    assert list(TrajectoryDatasetSequence(dataset)) == [made[2], made[0]]


def test_the_data_set_of_a_sequence_is_returned_unchanged(made):
    dataset = trajectories_to_dataset(made)
    sequence = TrajectoryDatasetSequence(dataset)
    assert sequence.dataset is dataset
    assert trajectories_to_dataset(sequence) is dataset


def test_a_description_is_kept(made):
    import datasets

    info = datasets.DatasetInfo(description="three episodes", license="MIT")
    assert trajectories_to_dataset(made, info).info.description == "three episodes"


def test_a_dictionary_of_columns_makes_the_same_data_set(made):
    import datasets

    dataset = datasets.Dataset.from_dict(trajectories_to_dict(made))
    assert list(TrajectoryDatasetSequence(dataset)) == made


def test_columns_hold_the_fields_of_the_trajectories(trajectories):
    first = trajectories()[0]
    columns = trajectories_to_dict([first])
    assert list(columns) == ["obs", "acts", "infos", "terminal", "rews"]
    assert columns["infos"] == [["{}", "{}", "{}"]]
    plain = Trajectory(first.obs, first.acts, None, False)
    assert "rews" not in trajectories_to_dict([plain])
    with pytest.raises(ValueError, match="some trajectories have rewards"):
        trajectories_to_dict([first, plain])


def test_a_data_set_without_trajectories_is_refused():
    import datasets

    with pytest.raises(InputError, match="no column acts, terminal among obs"):
        TrajectoryDatasetSequence(datasets.Dataset.from_dict({"obs": [[1.0]]}))
