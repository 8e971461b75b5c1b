"""Actions in a box are scaled to [-1, 1] and back; others are left alone."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.util.actions import action_rows, scale_actions, unscale_actions

BOX = spaces.Box(
    np.array([[-2.0, 0.0], [1.0, -1.0]], np.float32), np.array([[2.0, 8.0], [2.0, 1.0]], np.float32)
)


def test_bounds_and_middle():
    acts = np.stack([BOX.low, (BOX.low + BOX.high) / 2, BOX.high])
    scaled = scale_actions(acts, BOX)
    np.testing.assert_array_equal(scaled, np.array([-1, 0, 1])[:, None, None] * np.ones((2, 2)))
    np.testing.assert_array_equal(unscale_actions(scaled, BOX), acts)


def test_what_leaves_the_bounds_is_clipped():
    acts = np.stack([BOX.high + 5, BOX.low - 5])
    np.testing.assert_array_equal(np.abs(scale_actions(acts, BOX)), np.ones((2, 2, 2)))


@pytest.mark.parametrize("space", [spaces.Discrete(4), spaces.MultiBinary(2)])
def test_choices_are_no_scale(space):
    acts = np.stack([space.sample() for _ in range(3)])
    assert scale_actions(acts, space) is acts
    assert unscale_actions(acts, space) is acts


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Discrete(4), (3,)),
        (spaces.MultiDiscrete([2, 3]), (3, 2)),
        (spaces.MultiBinary([2, 2]), (3, 4)),
        (spaces.Box(-1, 1, (2, 2)), (3, 4)),
        (spaces.Box(-1, 1, ()), (3, 1)),
    ],
    ids=str,
)
def test_distributions_take_one_row_of_numbers_an_action(space, shape):
    acts = th.as_tensor(np.stack([space.sample() for _ in range(3)]))
    rows = action_rows(acts, space)
    assert tuple(rows.shape) == shape
    assert rows.is_floating_point() or not isinstance(space, spaces.MultiBinary)
