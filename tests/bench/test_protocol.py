"""Evaluation: seeded, unbiased by episode length, and checked for fixed horizons."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.mce_planning import optimal_policy, policy_value
from imitbench.bench.environments import make_environment
from imitbench.bench.protocol import Evaluator
from imitbench.data.tabular import TabularModel
from imitbench.errors import InputError
from imitbench.policies.base import RandomPolicy
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.records.runs import EnvironmentSpec


class CoinFlip(gym.Env):
    """Half of the episodes take 1 step and return 0; the others take 20 and return 20."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.long = bool(self.np_random.integers(2))
        self.t = 0
        return np.array([self.long], np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t == (20 if self.long else 1)
        return np.array([self.long], np.float32), float(self.long), over, False, {}


gym.register("test/CoinFlip-v0", CoinFlip)
gym.register("test/TimedCoinFlip-v0", CoinFlip, max_episode_steps=10)

PENDULUM = EnvironmentSpec(id="Pendulum-v1")
FLIP = EnvironmentSpec(id="test/CoinFlip-v0", horizon="variable")


def evaluate(spec, *, episodes=20, environments=5, seed=0, policy=None, deterministic=False):
    with Evaluator(spec, environments) as evaluator:
        policy = policy or RandomPolicy(evaluator.observation_space, evaluator.action_space)
        return evaluator.evaluate(policy, episodes=episodes, seed=seed, deterministic=deterministic)


def test_the_same_seed_gives_the_same_episodes():
    first, second = evaluate(PENDULUM), evaluate(PENDULUM)
    np.testing.assert_array_equal(first.returns, second.returns)
    assert not np.array_equal(first.returns, evaluate(PENDULUM, seed=1).returns)


def test_the_seeds_of_episodes_do_not_change():
    """Recorded results were evaluated with these seeds; others would change what a run id means."""
    seeds = []

    class Noting(gym.Wrapper):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

    with Evaluator(PENDULUM, 2, wrap=Noting) as evaluator:
        policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
        evaluator.evaluate(policy, episodes=3, seed=0, deterministic=False)
    assert seeds == [1043757210, 3434346072, 1345614812]


def test_a_second_evaluation_does_not_depend_on_the_first():
    with Evaluator(PENDULUM, 4) as evaluator:
        policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
        evaluator.evaluate(policy, episodes=3, seed=9, deterministic=False)
        second = evaluator.evaluate(policy, episodes=6, seed=1, deterministic=False)
    fresh = evaluate(PENDULUM, episodes=6, environments=4, seed=1)
    np.testing.assert_array_equal(second.returns, fresh.returns)


def test_episodes_do_not_depend_on_the_number_of_parallel_environments():
    few, many = (evaluate(FLIP, environments=n, episodes=40) for n in (3, 40))
    np.testing.assert_array_equal(few.returns, many.returns)


def test_short_episodes_are_not_over_counted():
    episodes = evaluate(FLIP, episodes=400, environments=8)
    # Counting the first 400 episodes that end would include nearly none of the long ones.
    assert abs(np.mean(episodes.returns > 0) - 0.5) < 0.1


def test_termination_and_truncation_are_distinguished():
    ended = evaluate(FLIP)
    assert set(ended.lengths) == {1, 20}
    assert ended.terminated.all()
    cut = evaluate(EnvironmentSpec(id="test/TimedCoinFlip-v0", horizon="variable"))
    np.testing.assert_array_equal(cut.terminated, cut.lengths == 1)


def test_a_horizon_that_is_not_fixed_as_declared_is_reported():
    with pytest.raises(InputError, match="horizon: variable"):
        evaluate(FLIP.model_copy(update={"horizon": "fixed"}))


def test_an_environment_that_is_not_installed_is_reported():
    with pytest.raises(InputError, match="imitbench doctor"):
        Evaluator(EnvironmentSpec(id="Absent-v0"), 1)


class Counting(BasePolicy):
    """Counts the steps of its episode, and returns the count as action."""

    def _predict(self, observation, deterministic=False):
        raise NotImplementedError

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        steps = np.zeros(len(observation), int) if state is None else state[0]
        steps = np.where(episode_start, 0, steps)
        return steps, (steps + 1,)


class Countdown(CoinFlip):
    """Rewards an action that is the number of the step."""

    action_space = spaces.Discrete(20)

    def step(self, action):
        obs, _, over, cut, info = super().step(action)
        return obs, float(action == self.t - 1), over, cut, info


gym.register("test/Countdown-v0", Countdown)


@pytest.mark.parametrize("environments", [1, 4])
def test_a_recurrent_policys_memory_is_reset_at_each_episode(environments):
    spec = EnvironmentSpec(id="test/Countdown-v0", horizon="variable")
    policy = Counting(Countdown.observation_space, Countdown.action_space)
    episodes = evaluate(spec, policy=policy, episodes=15, environments=environments)
    assert set(episodes.lengths) == {1, 20}
    np.testing.assert_array_equal(episodes.returns, episodes.lengths)


def test_an_episode_of_a_table_returns_what_planning_expects():
    spec = EnvironmentSpec(id="seals/CliffWorld7x4XY-v0", module="seals")
    env = make_environment(spec)
    policy = ObservationTabularPolicy.of(env, optimal_policy(TabularModel.of(env))[0])
    expected = policy_value(env, policy.pi)
    episodes = evaluate(spec, policy=policy, episodes=400, environments=25)
    error = episodes.returns.std() / np.sqrt(400)
    assert abs(episodes.returns.mean() - expected) < 4 * error
    assert evaluate(spec, episodes=100).returns.mean() < expected - 10
