"""Trajectories are separated from other demonstrations, and no iterator loses an entry."""

import numpy as np
import pytest

from imitbench.algorithms.base import split_kinds
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import Trajectory

TRAJECTORIES = [
    Trajectory(obs=np.arange(steps + 1.0), acts=np.zeros(steps), infos=None, terminal=True)
    for steps in (2, 3)
]
BATCHES = [{"obs": np.zeros(2), "acts": np.zeros(2)}, {"obs": np.ones(1), "acts": np.ones(1)}]


@pytest.mark.parametrize("given", [TRAJECTORIES, tuple(TRAJECTORIES), iter(TRAJECTORIES)])
def test_trajectories_are_kept_and_flattened(given):
    trajectories, flat = split_kinds(given)
    assert trajectories == TRAJECTORIES
    assert flat == flatten_trajectories(TRAJECTORIES)


def test_transitions_are_not_changed():
    transitions = flatten_trajectories(TRAJECTORIES)
    trajectories, rest = split_kinds(transitions)
    assert trajectories is None
    assert rest is transitions


@pytest.mark.parametrize("given", [BATCHES, iter(BATCHES)])
def test_no_batch_is_lost(given):
    trajectories, rest = split_kinds(given)
    assert trajectories is None
    assert list(rest) == BATCHES


@pytest.mark.parametrize("given", [[], iter([])])
def test_empty_demonstrations_are_refused(given):
    with pytest.raises(ValueError, match="demonstrations are empty"):
        split_kinds(given)


@pytest.mark.parametrize("given", [3, [3], "text"])
def test_other_types_are_refused(given):
    with pytest.raises(TypeError, match="demonstrations must"):
        split_kinds(given)
