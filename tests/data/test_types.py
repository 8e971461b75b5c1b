import dataclasses
import pickle

import numpy as np
import pytest
import torch as th
from torch.utils.data import DataLoader

from imitbench.data import types
from imitbench.data.types import (
    DictObs,
    Trajectory,
    TrajectoryWithRew,
    Transitions,
    TransitionsMinimal,
    TransitionsWithRew,
    dataclass_quick_asdict,
    transitions_collate_fn,
)


@pytest.fixture
def trajectory():
    return TrajectoryWithRew(
        obs=np.arange(8.0).reshape(4, 2),
        acts=np.arange(3),
        infos=np.array([{}, {}, {"last": np.ones(2)}]),
        terminal=True,
        rews=np.ones(3),
    )


@pytest.fixture
def transitions():
    obs = np.arange(10.0).reshape(5, 2)
    return TransitionsWithRew(
        obs=obs[:-1],
        acts=np.arange(4),
        infos=np.array([{"step": i} for i in range(4)]),
        next_obs=obs[1:],
        dones=np.array([False, False, False, True]),
        rews=np.linspace(0, 1, 4),
    )


@pytest.mark.parametrize("name", types.__all__)
def test_every_public_name_exists(name):
    assert hasattr(types, name)


def test_the_length_of_a_trajectory_is_its_number_of_actions(trajectory):
    assert len(trajectory) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.zeros((3, 2))}, "3 observations and 3 actions"),
        ({"infos": np.array([{}])}, "1 infos for 3 actions"),
        ({"acts": np.zeros(0), "obs": np.zeros((1, 2)), "infos": None}, "at least one action"),
        ({"rews": np.ones(2)}, r"shape \(2,\)"),
        ({"rews": np.ones((3, 1))}, r"shape \(3, 1\)"),
        ({"rews": np.ones(3, dtype=int)}, "data type int64"),
    ],
)
def test_inconsistent_trajectories_are_refused(trajectory, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(trajectory, **change)


def test_trajectories_are_equal_by_content(trajectory):
    assert trajectory == pickle.loads(pickle.dumps(trajectory))
    assert trajectory != dataclasses.replace(trajectory, terminal=False)
    assert trajectory != dataclasses.replace(trajectory, infos=np.array([{}] * 3))
    assert trajectory != dataclasses.replace(trajectory, rews=np.zeros(3))
    assert trajectory != Trajectory(
        trajectory.obs, trajectory.acts, trajectory.infos, trajectory.terminal
    )


def test_trajectories_hold_dictionary_observations(trajectory):
    obs = DictObs({"a": np.zeros((4, 1)), "b": np.zeros(4)})
    assert dataclasses.replace(trajectory, obs=obs).obs == obs
    with pytest.raises(ValueError, match="3 observations"):
        dataclasses.replace(trajectory, obs=obs[:3])


def test_quick_asdict_does_not_copy(trajectory):
    fields = dataclass_quick_asdict(trajectory)
    assert list(fields) == ["obs", "acts", "infos", "terminal", "rews"]
    assert fields["obs"] is trajectory.obs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.zeros((3, 2))}, "3 observations for 4 actions"),
        ({"infos": np.array([{}])}, "1 infos for 4 actions"),
        ({"next_obs": np.zeros((4, 3))}, "next_obs has shape"),
        ({"next_obs": np.zeros((4, 2), np.float32)}, "next_obs has float32"),
        ({"dones": np.zeros((4, 1), bool)}, "dones has shape"),
        ({"dones": np.zeros(4)}, "dones has data type"),
        ({"rews": np.zeros(3)}, r"shape \(3,\)"),
        ({"rews": np.zeros(4, int)}, "data type int64"),
    ],
)
def test_inconsistent_transitions_are_refused(transitions, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(transitions, **change)


def test_an_integer_index_gives_one_entry(transitions):
    entry = transitions[1]
    assert entry["obs"].tolist() == [2.0, 3.0]
    assert entry["next_obs"].tolist() == [4.0, 5.0]
    assert entry["infos"] == {"step": 1}
    assert entry["acts"] == 1
    assert not entry["dones"]


@pytest.mark.parametrize(
    ("index", "acts"),
    [
        (slice(1, 3), [1, 2]),
        (slice(4, None), []),
        (np.array([3, 0, 0]), [3, 0, 0]),
        (np.array([True, False, False, True]), [0, 3]),
    ],
)
def test_other_indices_give_a_batch_of_the_same_class(transitions, index, acts):
    batch = transitions[index]
    assert type(batch) is TransitionsWithRew
    assert batch.acts.tolist() == acts
    assert batch.rews.tolist() == transitions.rews[index].tolist()


def test_transitions_are_read_only_but_the_given_arrays_are_not(transitions):
    acts = np.zeros(2)
    batch = TransitionsMinimal(obs=DictObs({"a": np.zeros(2)}), acts=acts, infos=np.array([{}, {}]))
    for array in (batch.acts, batch.infos, batch.obs.get("a"), transitions.rews):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    acts[0] = 1


def test_transitions_are_equal_by_content(transitions):
    assert transitions == pickle.loads(pickle.dumps(transitions))
    assert transitions != dataclasses.replace(transitions, acts=transitions.acts + 1)
    fields = dataclass_quick_asdict(transitions)
    del fields["rews"]
    assert transitions != Transitions(**fields)


def test_a_data_loader_collates_everything_but_infos_into_tensors(transitions):
    (batch,) = DataLoader(transitions, batch_size=4, collate_fn=transitions_collate_fn)
    assert batch["infos"] == list(transitions.infos)
    for name in ("obs", "acts", "next_obs", "dones", "rews"):
        expected = getattr(transitions, name)
        assert isinstance(batch[name], th.Tensor)
        assert batch[name].numpy().dtype == expected.dtype
        assert np.array_equal(batch[name], expected)


def test_dictionary_observations_collate_into_one_dictobs():
    obs = DictObs({"a": np.arange(4.0), "b": np.ones((4, 2))})
    batch = TransitionsMinimal(obs=obs, acts=np.arange(4), infos=np.array([{}] * 4))
    assert transitions_collate_fn(list(batch))["obs"] == obs
