import numpy as np
import pytest
from support.environments import DictCounter

from imitbench.data.observations import DictObs, maybe_wrap_in_dictobs
from imitbench.data.rollout import TrajectoryAccumulator


def test_steps_of_one_trajectory_are_collected_in_order():
    accumulator = TrajectoryAccumulator()
    accumulator.add_step({"obs": np.array([0.0])})
    for i in range(1, 4):
        accumulator.add_step(
            {"obs": np.array([float(i)]), "acts": i, "rews": float(i), "infos": {"i": i}}
        )
    trajectory = accumulator.finish_trajectory(None, terminal=False)
    assert trajectory.obs.tolist() == [[0], [1], [2], [3]]
    assert trajectory.acts.tolist() == [1, 2, 3]
    assert trajectory.rews.tolist() == [1.0, 2.0, 3.0]
    assert trajectory.infos.tolist() == [{"i": 1}, {"i": 2}, {"i": 3}]
    assert not trajectory.terminal
    with pytest.raises(KeyError):
        accumulator.finish_trajectory(None, terminal=True)


def test_an_unfinished_trajectory_without_actions_cannot_be_finished():
    accumulator = TrajectoryAccumulator()
    accumulator.add_step({"obs": np.zeros(1)}, key="a")
    with pytest.raises(ValueError, match="'a' has no acts, rews"):
        accumulator.finish_trajectory("a", terminal=True)


@pytest.mark.parametrize("wrap", [lambda env: env, DictCounter])
def test_vector_steps_finish_an_episode_for_each_done(counters, wrap):
    venv = counters(2, 3, wrap=wrap)
    accumulator = TrajectoryAccumulator()
    for i, obs in enumerate(maybe_wrap_in_dictobs(venv.reset())):
        accumulator.add_step({"obs": obs}, key=i)
    finished = []
    acts = np.array([0, 1])
    for _ in range(6):
        finished += accumulator.add_steps_and_auto_finish(acts, *venv.step(acts))
    assert [len(t) for t in finished] == [2, 3, 2, 2, 3]
    assert [t.acts[0] for t in finished] == [0, 1, 0, 0, 1]
    for trajectory in finished:
        obs = trajectory.obs
        count = obs.get("count")[:, 0] if isinstance(obs, DictObs) else obs[:, 0]
        assert count.tolist() == list(range(len(trajectory) + 1))
        assert count.dtype == np.float32
        assert trajectory.rews.tolist() == list(range(1, len(trajectory) + 1))
        assert trajectory.terminal


def test_vector_steps_need_the_first_observations(counters):
    venv = counters(2, 3)
    venv.reset()
    acts = np.zeros(2, int)
    with pytest.raises(KeyError, match="environment 0"):
        TrajectoryAccumulator().add_steps_and_auto_finish(acts, *venv.step(acts))
