"""What offline methods see of demonstrations and supplement."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.algorithms.offline.data import OfflineData
from imitbench.data.trajectories import every_nth_step
from imitbench.data.types import TrajectoryWithRew

OBS = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ACTS = spaces.Box(-2.0, 2.0, (1,), np.float32)


def walk(first, steps, act=0.0, terminal=True):
    """Observations `first`, `first + 1`, …, and always the same action."""
    return TrajectoryWithRew(
        obs=np.arange(first, first + steps + 1, dtype=np.float32)[:, None],
        acts=np.full((steps, 1), act, np.float32),
        infos=None,
        terminal=terminal,
        rews=np.zeros(steps),
    )


def make(demos, others, **given):
    return OfflineData(demos, others, OBS, ACTS, **given)


def test_the_union_is_the_expert_and_then_the_supplement():
    data = make([walk(0, 2, act=1.0)], [walk(10, 2), walk(20, 1)], time_limit=2)
    assert data.obs[:, 0].tolist() == [0, 1, 10, 11, 20]
    assert data.starts.tolist() == [0, 2, 4]
    assert (data.size, data.n_expert, data.largest_ratio) == (5, 2, 2.5)
    assert data.expert.sizes == [2]
    # Encoded actions are scaled from [-2, 2] to [-1, 1].
    assert data.union.column("acts", 0)[:2, 0].tolist() == [0.5, 0.5]


def test_statistics_are_those_of_both_sets_in_equal_parts():
    same = [walk(0, 1)] * 3
    data = make([walk(10, 1)], same, time_limit=1)
    assert data.union.column("obs", 0)[:, 0].tolist() == [1, -1, -1, -1]  # mean 5, deviation 5


def test_only_ends_before_the_time_limit_lead_to_the_absorbing_state():
    data = make([walk(0, 3)], [walk(0, 2)], time_limit=3)
    assert data.features == 2
    marks = data.union.column("next_obs", 0)[:, 1]
    assert marks.tolist() == [0, 0, 0, 0, 1, 1]  # the last one is inside
    assert data.union.sizes == [6]
    assert data.size == 5
    assert make([walk(0, 3)], [walk(0, 3)], time_limit=3).features == 1


def test_thinned_steps_keep_their_next_observation_start_and_end():
    thinned = every_nth_step(walk(0, 5), 2, 0)  # steps 0, 2 and 4
    data = make(thinned, [walk(10, 5)], time_limit=5)
    raw = data.obs[:, 0].tolist()
    assert raw[:3] == [0, 2, 4]
    assert data.starts.tolist() == [0, 3]
    assert data.features == 1  # step 4 is the fifth, at the limit
    spread = data.union.column("obs", 0)[:, 0]
    ahead = data.union.column("next_obs", 0)[:, 0] - spread
    assert th.allclose(ahead, ahead[0].expand_as(ahead), atol=1e-5)


def test_without_any_first_step_all_kept_steps_count_as_first():
    thinned = every_nth_step(walk(0, 5), 2, 1)
    data = make(thinned, every_nth_step(walk(10, 5), 3, 1), time_limit=5)
    assert data.starts.tolist() == list(range(data.size))


def test_demonstrations_may_be_left_out_of_the_union():
    data = make([walk(0, 2)], [walk(10, 3)], clone_expert=False, time_limit=3)
    assert data.obs[:, 0].tolist() == [10, 11, 12]
    assert data.largest_ratio == float("inf")


def test_actions_without_bounds_are_refused():
    endless = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    with pytest.raises(ValueError, match="with bounds"):
        OfflineData([walk(0, 2)], [walk(0, 2)], OBS, endless)
