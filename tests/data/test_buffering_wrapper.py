"""The buffering wrapper returns every step exactly once, in order, for any sequence of pops."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.data.types import TrajectoryWithRew, dataclass_quick_asdict
from imitbench.data.wrappers import BufferingWrapper
from imitbench.util.state_file import load_state, save_state


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


def test_popping_finished_trajectories_keeps_running_ones(wrapped):
    step(wrapped, 4)
    trajectories, lengths = wrapped.pop_finished_trajectories()
    assert [len(t) for t in trajectories] == lengths == [3]
    assert trajectories[0].terminal
    assert wrapped.n_transitions == 0
    step(wrapped)
    assert wrapped.n_transitions == 2
    trajectories, lengths = wrapped.pop_finished_trajectories()
    assert [len(t) for t in trajectories] == lengths == [5]
    trajectories, _ = wrapped.pop_trajectories()
    assert [(len(t), t.terminal) for t in trajectories] == [(2, False)]


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


def test_popping_transitions_without_steps_is_an_error(wrapped):
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


def test_actions_of_another_data_type_are_kept_without_loss(wrapped):
    for acts in (np.array([1, 2], np.int32), np.array([0, 1], np.int64)):
        wrapped.step(acts)
    trajectories, _ = wrapped.pop_trajectories()
    assert [t.acts.tolist() for t in trajectories] == [[1, 0], [2, 1]]


class Keyed(gym.ObservationWrapper):
    """Dictionary observations."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = spaces.Dict({"all": env.observation_space})

    def observation(self, observation):
        return {"all": observation}


@pytest.mark.parametrize("wrap", [lambda env: env, Keyed], ids=["array", "dict"])
def test_a_restored_wrapper_continues_like_the_original(wrap, tmp_path):
    def make():
        fns = [lambda: ResumableEnv(wrap(gym.make("CartPole-v1")))] * 3
        venv = BufferingWrapper(DummyVecEnv(fns))
        venv.seed(0)
        venv.reset()
        return venv

    one, two = make(), make()
    step(one, 6)
    one.pop_trajectories()
    step(one, 15)  # finished and running episodes wait, some cut at their beginning
    assert len(one.state_dict()["finished"]) > 0
    save_state(tmp_path / "state", {"wrapper": one.state_dict(), "venv": episode_states(one.venv)})
    state = load_state(tmp_path / "state")
    restore_episodes(two.venv, state["venv"])
    two.load_state_dict(state["wrapper"])
    assert two.n_transitions == one.n_transitions == 3 * 15
    for _ in range(2):
        step(one, 70)
        step(two, 70)
        (parts, lengths), (others, other_lengths) = one.pop_trajectories(), two.pop_trajectories()
        assert list(lengths) == list(other_lengths)
        assert [without_infos(each) for each in parts] == [without_infos(each) for each in others]


def without_infos(trajectory):
    return TrajectoryWithRew(**{**dataclass_quick_asdict(trajectory), "infos": None})


def test_infos_are_not_kept_in_the_state(wrapped):
    step(wrapped, 4)
    wrapped.load_state_dict(copy.deepcopy(wrapped.state_dict()))
    step(wrapped, 1)
    (waited, ran), _ = wrapped.pop_finished_trajectories()
    assert waited.infos is None
    assert [bool(info) for info in ran.infos] == [False] * 4 + [True]


def test_the_state_before_the_first_reset_can_be_restored():
    venv = BufferingWrapper(DummyVecEnv([Counter]))
    venv.load_state_dict(venv.state_dict())
    assert venv.n_transitions is None
    with pytest.raises(RuntimeError, match="reset"):
        step(venv)
