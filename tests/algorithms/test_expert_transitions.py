"""Transitions of demonstrations, with where episodes begin and end."""

import numpy as np
import pytest
from gymnasium import spaces

from imitbench.algorithms.demonstration_fit import expert_transitions
from imitbench.data import rollout, types
from imitbench.data.trajectories import every_nth_step, with_rewards

OBS, ACTS = spaces.Box(-9, 9, (1,)), spaces.Discrete(2)


def trajectory(length, *, terminal):
    obs = np.arange(length + 1, dtype=np.float32)[:, None]
    return types.Trajectory(obs, np.zeros(length, np.int64), None, terminal)


TRAJECTORIES = [trajectory(2, terminal=False), trajectory(1, terminal=True)]
FLAT = rollout.flatten_trajectories([*TRAJECTORIES, trajectory(3, terminal=True)])


@pytest.mark.parametrize(
    ("demonstrations", "starts"),
    [
        # The first ended without its last step being marked.
        ([*TRAJECTORIES, trajectory(3, terminal=True)], [1, 0, 1, 1, 0, 0]),
        # Transitions tell only of ends that are marked.
        (FLAT, [1, 0, 0, 1, 0, 0]),
    ],
)
def test_episodes_begin_at_the_first_transition_and_after_each_end(demonstrations, starts):
    rows = expert_transitions(demonstrations, OBS, ACTS, None)
    assert rows["starts"].tolist() == [bool(each) for each in starts]


@pytest.mark.parametrize(("limit", "truncated"), [(4, [False, True]), (5, [False, False])])
def test_a_kept_step_is_truncated_if_it_is_the_last_before_the_time_limit(limit, truncated):
    kept = every_nth_step(with_rewards(trajectory(4, terminal=True)), every=2, offset=1)
    rows = expert_transitions(kept, OBS, ACTS, limit)
    assert rows["dones"].tolist() == [False, True]
    assert rows["timeouts"].tolist() == truncated
