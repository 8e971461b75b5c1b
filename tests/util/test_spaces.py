"""Spaces survive a round trip through JSON."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from imitbench.util.spaces import space_from_json, space_to_json

SPACES = [
    spaces.Box(-1.0, 1.0, (3,), np.float32),
    spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, 2.5]), dtype=np.float64),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiBinary(4),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0.0, 1.0, (2,))}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_round_trip(space):
    text = json.dumps(space_to_json(space), allow_nan=False)
    assert space_from_json(json.loads(text)) == space


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match="Text"):
        space_to_json(spaces.Text(3))


@pytest.mark.parametrize("document", [{}, {"type": "Torus"}, {"type": "Box", "shape": [2]}])
def test_malformed_descriptions_are_refused(document):
    with pytest.raises(ValueError, match="space"):
        space_from_json(document)
