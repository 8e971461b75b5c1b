"""States and actions become the rows that Gymnasium's own flattening makes of them."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.algorithms.density_model import FeatureMaker, flatten_batch
from imitbench.data.types import DictObs, Trajectory, Transitions, TransitionsMinimal

NESTED = spaces.Dict(
    {
        "b": spaces.Discrete(4),
        "a": spaces.Box(-1, 1, (2, 3), np.float32),
        "c": spaces.Dict({"d": spaces.MultiBinary(3)}),
    }
)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-2, 2, (3,), np.float32),
        spaces.Box(-2, 2, (2, 2), np.float64),
        spaces.Box(0, 255, (2, 2, 1), np.uint8),
        spaces.Discrete(5),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([2, 3, 4]),
        spaces.MultiBinary(4),
        NESTED,
    ],
    ids=str,
)
def test_a_batch_is_flattened_as_gymnasium_flattens_each(space):
    space.seed(0)
    elements = [space.sample() for _ in range(20)]
    expected = np.stack([spaces.flatten(space, element) for element in elements])
    batch = gym.vector.utils.concatenate(
        space, elements, gym.vector.utils.create_empty_array(space, 20)
    )
    got = flatten_batch(space, batch)
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected)


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match="Text"):
        flatten_batch(spaces.Text(3), np.array(["abc"]))


OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTS = spaces.Discrete(3)
FIRST = Trajectory(
    obs=np.arange(8, dtype=np.float32).reshape(4, 2),
    acts=np.array([0, 2, 1]),
    infos=None,
    terminal=True,
)
SECOND = Trajectory(obs=np.ones((2, 2), np.float32), acts=np.array([1]), infos=None, terminal=False)


def maker(use_action=False, use_next=False):
    return FeatureMaker(OBS, ACTS, use_action=use_action, use_next=use_next)


def as_transitions(trajectory):
    steps = len(trajectory)
    return Transitions(
        obs=trajectory.obs[:-1],
        acts=trajectory.acts,
        infos=np.array([{}] * steps),
        next_obs=trajectory.obs[1:],
        dones=np.zeros(steps, dtype=bool),
    )


def test_rows_of_states():
    rows, _ = maker().of_demonstrations([FIRST])
    assert rows.dtype == np.float64
    assert rows.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_rows_of_states_and_actions():
    rows, _ = maker(use_action=True).of_demonstrations([FIRST])
    assert rows.tolist() == [[0, 1, 1, 0, 0], [2, 3, 0, 0, 1], [4, 5, 0, 1, 0]]


def test_rows_of_states_and_next_states():
    rows, _ = maker(use_next=True).of_demonstrations([FIRST])
    assert rows.tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]


def test_only_trajectories_have_time_steps():
    _, times = maker().of_demonstrations([FIRST, SECOND])
    assert times.tolist() == [0, 1, 2, 0]
    assert maker().of_demonstrations(as_transitions(FIRST))[1] is None


@pytest.mark.parametrize("as_tensors", [False, True])
def test_any_kind_of_demonstrations_gives_the_same_rows(as_tensors):
    expected, _ = maker(use_next=True).of_demonstrations([FIRST, SECOND])
    convert = th.as_tensor if as_tensors else np.asarray
    batches = [
        {"obs": convert(t.obs[:-1]), "acts": convert(t.acts), "next_obs": convert(t.obs[1:])}
        for t in (FIRST, SECOND)
    ]
    for given in (iter([FIRST, SECOND]), batches, iter(batches)):
        assert np.array_equal(maker(use_next=True).of_demonstrations(given)[0], expected)
    rows, _ = maker(use_next=True).of_demonstrations(as_transitions(FIRST))
    assert np.array_equal(rows, expected[:3])


def test_dictionaries_of_observations():
    space = spaces.Dict({"x": OBS, "n": spaces.Discrete(2)})
    obs = DictObs({"x": np.zeros((3, 2), np.float32), "n": np.array([0, 1, 1])})
    trajectory = Trajectory(obs=obs, acts=np.array([0, 1]), infos=None, terminal=True)
    make = FeatureMaker(space, ACTS, use_action=False, use_next=False)
    assert make.of_demonstrations([trajectory])[0].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "demonstrations are empty"),
        ([{"obs": np.zeros((2, 2))}], "acts is missing"),
        ([{"obs": np.zeros((2, 2)), "acts": np.zeros(2, int)}], "next_obs is missing"),
        (TransitionsMinimal(np.zeros((1, 2)), np.zeros(1, int), np.array([{}])), "next_obs"),
        ([{"obs": np.zeros((2, 3)), "acts": np.zeros(2, int), "next_obs": 0}], "shape"),
        (
            [
                {
                    "obs": np.zeros((1, 2)),
                    "acts": np.zeros(1, int),
                    "next_obs": np.full((1, 2), np.nan),
                }
            ],
            "not finite",
        ),
        (
            [{"obs": np.zeros((1, 2)), "acts": np.array([3]), "next_obs": np.zeros((1, 2))}],
            "outside",
        ),
    ],
)
def test_bad_demonstrations_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        maker(use_next=True).of_demonstrations(given)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="demonstrations must be"):
        maker().of_demonstrations(3)
