"""Policies with a memory: reset at each episode, separate for each environment."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.bench.protocol import Evaluator
from imitbench.data.rollout import generate_trajectories, make_min_episodes
from imitbench.policies.stateful import StatefulPolicy
from imitbench.records.runs import EnvironmentSpec

OBSERVED = spaces.Box(-100.0, 100.0, (1,), np.float32)


class CountingEnv(gym.Env):
    """Ends after a random number of steps; the reward is how far the action is from the step."""

    observation_space = OBSERVED
    action_space = spaces.Box(-100.0, 100.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.end = 0, int(self.np_random.integers(2, 9))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = -float(abs(action[0] - self.t))
        self.t += 1
        return np.zeros(1, np.float32), reward, self.t == self.end, False, {}


gym.register("test/Counting-v0", CountingEnv)


class Counter(StatefulPolicy):
    """Acts with the number of earlier steps in the episode."""

    def __init__(self, action_space=CountingEnv.action_space, **kwargs):
        super().__init__(OBSERVED, action_space, **kwargs)

    def initial_state(self, n_envs):
        return (th.zeros(n_envs, 1),)

    def act(self, observation, state, deterministic):
        [steps] = state
        return steps.clone(), (steps + 1,)


def test_memory_goes_on_only_where_no_episode_starts():
    policy, seen = Counter(), np.zeros((3, 1), np.float32)
    state = None
    for _ in range(3):
        actions, state = policy.predict(seen, state=state)
    np.testing.assert_array_equal(actions, [[2], [2], [2]])
    starts = np.array([False, True, False])
    actions, state = policy.predict(seen, state=state, episode_start=starts)
    np.testing.assert_array_equal(actions, [[3], [0], [3]])
    actions, _ = policy.predict(seen, state=state, episode_start=np.zeros(3, bool))
    np.testing.assert_array_equal(actions, [[4], [1], [4]])
    assert all(isinstance(each, np.ndarray) for each in state)


def test_one_observation_gives_one_action():
    policy = Counter()
    _, state = policy.predict(np.zeros(1, np.float32))
    action, _ = policy.predict(np.zeros(1, np.float32), state=state)
    np.testing.assert_array_equal(action, [1])


def test_actions_are_within_bounds():
    policy = Counter(spaces.Box(0.0, 1.5, (1,), np.float32))
    seen, state, actions = np.zeros((1, 1), np.float32), None, []
    for _ in range(3):
        action, state = policy.predict(seen, state=state)
        actions.append(action.item())
    assert actions == [0.0, 1.0, 1.5]


def test_squashed_actions_are_scaled():
    policy = Counter(spaces.Box(0.0, 10.0, (1,), np.float32), squash_output=True)
    action, _ = policy.predict(np.zeros((1, 1), np.float32))
    assert action.item() == 5.0


def test_acting_without_a_memory_is_refused():
    for wrong in (Counter()._predict, Counter().forward):
        with pytest.raises(ValueError, match="needs predict"):
            wrong(th.zeros(1, 1))


@pytest.mark.parametrize("environments", [1, 4])
def test_evaluation_resets_the_memory_at_each_episode(environments):
    spec = EnvironmentSpec(id="test/Counting-v0", horizon="variable")
    with Evaluator(spec, environments) as evaluator:
        found = evaluator.evaluate(Counter(), episodes=9, seed=0, deterministic=False)
    assert len(set(found.lengths)) > 2
    assert (found.returns == 0).all()


def test_evaluation_asks_for_no_actions_where_all_episodes_are_over():
    class Observed(Counter):
        acted = 0

        def act(self, observation, state, deterministic):
            self.acted += len(observation)
            return super().act(observation, state, deterministic)

    policy, spec = Observed(), EnvironmentSpec(id="test/Counting-v0", horizon="variable")
    with Evaluator(spec, 4) as evaluator:
        found = evaluator.evaluate(policy, episodes=6, seed=0, deterministic=True)
    assert policy.acted == found.lengths.sum()


def test_rollouts_reset_the_memory_at_each_episode():
    venv = DummyVecEnv([CountingEnv] * 3)
    venv.seed(0)
    found = generate_trajectories(Counter(), venv, make_min_episodes(9), np.random.default_rng(0))
    assert len({len(each) for each in found}) > 2
    assert all((each.rews == 0).all() for each in found)
