"""Demonstrations that do not fit a policy's spaces are refused, and others pass."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.algorithms.demonstration_fit import (
    check_action_space,
    check_fit,
    check_observation_space,
)
from imitbench.data.types import DictObs

OBS = spaces.Box(-1.0, 1.0, (2,), np.float32)
DICT = spaces.Dict({"a": OBS, "b": spaces.Discrete(2)})
TWO = spaces.Discrete(2)
obs, acts = np.zeros((3, 2)), np.array([0, 1, 1])
dict_obs = {"a": obs, "b": acts}


@pytest.mark.parametrize(
    ("observations", "space"),
    [
        (obs, OBS),
        (th.zeros(3, 2), OBS),
        (obs + 5, OBS),  # rounding and clipping may leave a box
        (acts, TWO),
        (dict_obs, DICT),
        (DictObs(dict_obs), DICT),
    ],
    ids=["array", "tensor", "outside the box", "discrete", "dict", "DictObs"],
)
def test_observations_that_fit(observations, space):
    check_fit(observations, acts, space, TWO)


@pytest.mark.parametrize(
    ("actions", "space"),
    [
        (acts, TWO),
        (acts.astype(np.float32), TWO),
        (np.array([[0, 2]] * 3), spaces.MultiDiscrete([1, 3])),
        (np.array([[0, 1]] * 3, np.int8), spaces.MultiBinary(2)),
        (np.full((3, 2), 9.0), OBS),
    ],
    ids=["discrete", "discrete as floats", "multi-discrete", "multi-binary", "box"],
)
def test_actions_that_fit(actions, space):
    check_fit(obs, actions, OBS, space)


@pytest.mark.parametrize(
    ("observations", "actions", "observation_space", "action_space", "message"),
    [
        (obs[:, :1], acts, OBS, TWO, r"obs has shape \(3, 1\), not \(3, 2\)"),
        (obs[:2], acts, OBS, TWO, r"obs has shape \(2, 2\), not \(3, 2\)"),
        (obs + np.inf, acts, OBS, TWO, "obs holds values that are not finite"),
        (dict_obs, acts, OBS, TWO, "do not fit observation_space"),
        (obs, acts, DICT, TWO, "do not fit observation_space"),
        ({"a": obs}, acts, DICT, TWO, r"keys \['a'\], observation_space has \['a', 'b'\]"),
        ({"a": obs, "b": acts[:2]}, acts, DICT, TWO, r"obs\['b'\] has shape"),
        ({"a": obs + np.nan, "b": acts}, acts, DICT, TWO, r"obs\['a'\] holds"),
        (obs, acts[:, None], OBS, TWO, r"acts has shape \(3, 1\), not \(3,\)"),
        (obs, obs + np.nan, OBS, OBS, "acts holds values that are not finite"),
        (obs, acts + 1, OBS, TWO, "acts holds 2 at index 1"),
        (obs, acts - 1, OBS, TWO, "acts holds -1 at index 0"),
        (obs, np.array([[0, 2]] * 3), OBS, spaces.MultiDiscrete([3, 2]), "at index 0"),
        (obs, np.array([[0, 2]] * 3), OBS, spaces.MultiBinary(2), "at index 0"),
    ],
)
def test_values_that_do_not_fit_are_reported(
    observations, actions, observation_space, action_space, message
):
    with pytest.raises(ValueError, match=message):
        check_fit(observations, actions, observation_space, action_space)


def test_choices_are_numbered_from_0():
    check_action_space(spaces.Discrete(3))
    check_action_space(spaces.MultiDiscrete([2, 2]))
    check_action_space(OBS)
    for space in (spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 2], start=[0, 1])):
        with pytest.raises(ValueError, match="does not start at 0"):
            check_action_space(space)


def test_observations_are_numbered_from_0_too():
    check_observation_space(spaces.Discrete(3))
    check_observation_space(spaces.Dict({"a": OBS, "b": spaces.Discrete(3)}))
    shifted = spaces.Discrete(3, start=1)
    with pytest.raises(ValueError, match=r"observation_space: .* shift the observations"):
        check_observation_space(shifted)
    with pytest.raises(ValueError, match=r"observation_space\['b'\]: .* does not start at 0"):
        check_observation_space(spaces.Dict({"a": OBS, "b": shifted}))
