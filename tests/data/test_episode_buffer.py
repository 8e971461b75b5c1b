import numpy as np
import pytest
from support.environments import DictCounter

from imitbench.data.episode_buffer import EpisodeBuffer
from imitbench.data.observations import maybe_wrap_in_dictobs
from imitbench.data.rollout import TrajectoryAccumulator


@pytest.mark.parametrize("wrap", [lambda env: env, DictCounter])
def test_it_records_what_the_step_by_step_accumulator_records(counters, wrap):
    venv = counters(1, 7, 64, 65, 300, wrap=wrap)
    rng = np.random.default_rng(0)
    obs = venv.reset()
    acts = rng.integers(3, size=5)
    buffer, accumulator = EpisodeBuffer(obs, acts), TrajectoryAccumulator()
    for i, entry in enumerate(maybe_wrap_in_dictobs(obs)):
        accumulator.add_step({"obs": entry}, key=i)
    for _ in range(700):
        step = (acts, *venv.step(acts))
        assert buffer.add(*step) == accumulator.add_steps_and_auto_finish(*step)
        acts = rng.integers(3, size=5)


def test_memory_depends_on_the_longest_episode_not_on_the_steps(counters):
    venv = counters(10, 20)
    acts = np.zeros(2, int)
    buffer = EpisodeBuffer(venv.reset(), acts)
    for _ in range(5000):
        buffer.add(acts, *venv.step(acts))
    assert len(buffer._acts) == 64
    assert len(buffer._infos) <= 64


def test_stopped_environments_give_no_more_episodes(counters):
    venv = counters(2, 3)
    acts = np.zeros(2, int)
    buffer = EpisodeBuffer(venv.reset(), acts)
    buffer.stop(np.array([True, False]))
    lengths = [len(t) for _ in range(300) for t in buffer.add(acts, *venv.step(acts))]
    assert lengths == [3] * 100
    buffer.stop(np.array([False, True]))
    assert not buffer.any_active


def test_rewards_of_any_data_type_become_floating_point():
    acts = np.zeros(1, int)
    buffer = EpisodeBuffer(np.zeros((1, 1)), acts)
    info = {"terminal_observation": np.ones(1)}
    (trajectory,) = buffer.add(acts, np.zeros((1, 1)), np.array([3]), np.array([True]), [info])
    assert trajectory.rews.tolist() == [3.0]
    assert trajectory.rews.dtype == np.float64
