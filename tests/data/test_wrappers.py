import numpy as np
import pytest
from support.environments import Counter, DictCounter

from imitbench.data.observations import DictObs
from imitbench.data.wrappers import RolloutInfoWrapper


def run_episode(env):
    env.reset(seed=0)
    infos = []
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(1)
        over = terminated or truncated
        infos.append(info)
    return infos


@pytest.mark.parametrize("truncate", [False, True])
def test_the_last_info_holds_the_whole_episode(truncate):
    env = RolloutInfoWrapper(Counter((3, 2), truncate=truncate))
    *earlier, last = run_episode(env)
    assert not any("rollout" in info for info in earlier)
    assert last["rollout"]["obs"].tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert last["rollout"]["rews"].tolist() == [1.0, 2.0, 3.0]
    assert run_episode(env)[-1]["rollout"]["obs"].tolist() == [[0, 1], [1, 1], [2, 1]]


def test_a_reset_drops_the_unfinished_episode():
    env = RolloutInfoWrapper(Counter((3,)))
    env.reset()
    env.step(0)
    assert len(run_episode(env)[-1]["rollout"]["rews"]) == 3


def test_dictionary_observations_are_recorded_per_key():
    obs = run_episode(RolloutInfoWrapper(DictCounter(Counter((2,)))))[-1]["rollout"]["obs"]
    assert obs == DictObs({"count": np.array([[0.0], [1.0], [2.0]]), "episode": np.zeros(3, int)})


class Reusing(Counter):
    """Writes every observation into the same memory."""

    memory = np.zeros(2)

    def _observe(self):
        self.memory[:] = super()._observe()
        return self.memory


def test_observations_are_copied():
    obs = run_episode(RolloutInfoWrapper(Reusing((3,))))[-1]["rollout"]["obs"]
    assert obs[:, 0].tolist() == [0, 1, 2, 3]


def test_wrapping_twice_is_an_error():
    with pytest.raises(ValueError, match="wrap the environment once"):
        run_episode(RolloutInfoWrapper(RolloutInfoWrapper(Counter((2,)))))
