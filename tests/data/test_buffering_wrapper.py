"""The buffering wrapper: every step comes out exactly once, in order, whatever is popped when."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.data.wrappers import BufferingWrapper


def step(venv, times=1):
    for _ in range(times):
        venv.step(np.zeros(venv.num_envs, dtype=np.int64))


@pytest.fixture
def wrapped(counters):
    """Episodes of 3 steps in one environment and of 5 in the other."""
    venv = BufferingWrapper(counters(3, 5))
    venv.reset()
    return venv


def test_transitions_are_those_of_the_environment(wrapped):
    step(wrapped, 4)
    assert wrapped.n_transitions == 8
    popped = wrapped.pop_transitions()
    assert len(popped) == 8
    assert wrapped.n_transitions == 0
    # A counter counts up by one, and its reward is the count.
    np.testing.assert_array_equal(popped.next_obs[:, 0], popped.obs[:, 0] + 1)
    np.testing.assert_array_equal(popped.rews, popped.next_obs[:, 0])
    assert popped.dones.sum() == 1


def test_nothing_is_lost_or_doubled_between_pops(wrapped):
    seen = []
    for times in (1, 2, 4, 3):
        step(wrapped, times)
        seen.append(wrapped.pop_transitions())
    assert sum(map(len, seen)) == 2 * 10
    # 10 steps are 3 episodes of 3 steps and one step, and 2 episodes of 5 steps.
    counts = np.concatenate([part.next_obs[:, 0] for part in seen]).astype(int)
    assert np.bincount(counts).tolist() == [0, 3 + 1 + 2, 3 + 2, 3 + 2, 2, 2]


def test_finished_trajectories_leave_running_ones_alone(wrapped):
    step(wrapped, 4)
    trajectories, lengths = wrapped.pop_finished_trajectories()
    assert [len(t) for t in trajectories] == lengths == [3]
    assert trajectories[0].terminal
    assert wrapped.n_transitions == 1 + 4
    step(wrapped)
    trajectories, lengths = wrapped.pop_finished_trajectories()
    assert [len(t) for t in trajectories] == lengths == [5]


def test_an_episode_popped_in_the_middle_comes_in_parts_with_its_whole_length(wrapped):
    step(wrapped, 2)
    trajectories, lengths = wrapped.pop_trajectories()
    assert [(len(t), t.terminal) for t in trajectories] == [(2, False), (2, False)]
    assert lengths == []
    step(wrapped)
    trajectories, lengths = wrapped.pop_trajectories()
    assert [(len(t), t.terminal) for t in trajectories] == [(1, True), (1, False)]
    assert lengths == [3]
    assert trajectories[0].obs[0, 0] == 2


def test_popping_nothing(wrapped):
    assert wrapped.pop_trajectories() == ([], [])
    with pytest.raises(RuntimeError, match="no transitions"):
        wrapped.pop_transitions()


def test_a_reset_that_would_lose_steps_is_refused_unless_allowed(wrapped, counters):
    step(wrapped)
    with pytest.raises(RuntimeError, match="lose 2 recorded"):
        wrapped.reset()
    wrapped.pop_transitions()
    wrapped.reset()
    careless = BufferingWrapper(counters(3), error_on_premature_reset=False)
    careless.reset()
    step(careless)
    careless.reset()
    assert careless.n_transitions == 0


def test_a_step_needs_a_reset():
    with pytest.raises(RuntimeError, match="reset"):
        step(BufferingWrapper(DummyVecEnv([Counter])))
