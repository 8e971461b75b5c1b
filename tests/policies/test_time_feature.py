"""A policy that counts steps observes the same feature as with `TimeFeatureWrapper`."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from support.drift import TORQUE, drift_venv
from support.sb3_models import SHORT

from imitbench.data.policy_callable import policy_to_callable
from imitbench.policies.base import RandomPolicy
from imitbench.policies.storage import load_policy, save_policy
from imitbench.policies.time_feature import TimeFeaturePolicy, with_time, without_time


@pytest.fixture
def inner():
    return PPO("MlpPolicy", drift_venv(size=4), seed=0, **SHORT).policy


def test_it_appends_the_remaining_share_of_the_episode(inner):
    policy = TimeFeaturePolicy(inner, 10)
    assert policy.observation_space.shape == (3,)
    rng, state = np.random.default_rng(0), None
    for step in range(4):
        obs = rng.normal(size=(2, 3)).astype(np.float32)
        shown = np.column_stack([obs, np.full(2, 1 - step / 10)]).astype(np.float32)
        actions, state = policy.predict(obs, state=state, deterministic=True)
        np.testing.assert_array_equal(actions, inner.predict(shown, deterministic=True)[0])


def test_the_count_restarts_with_each_episode(inner):
    policy = TimeFeaturePolicy(inner, 10)
    obs = np.ones((2, 3), np.float32)
    first, state = policy.predict(obs, episode_start=np.array([True, True]), deterministic=True)
    second, state = policy.predict(obs, state=state, deterministic=True)
    third, state = policy.predict(
        obs, state=state, episode_start=np.array([True, False]), deterministic=True
    )
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(third[0], first[0])
    assert not np.array_equal(third[1], second[1])
    np.testing.assert_array_equal(state[0], [1, 3])


def test_single_observations_are_accepted(inner):
    policy = TimeFeaturePolicy(inner, 10)
    action, state = policy.predict(np.ones(3, np.float32), deterministic=True)
    batch, _ = policy.predict(np.ones((1, 3), np.float32), deterministic=True)
    np.testing.assert_array_equal(action, batch[0])
    assert state[0].shape == (1,)


def test_rollouts_keep_its_count(inner):
    acts = policy_to_callable(TimeFeaturePolicy(inner, 10), drift_venv(), True)
    obs = np.ones((2, 3), np.float32)
    _, state = acts(obs, None, np.array([True, True]))
    _, state = acts(obs, state, np.array([False, False]))
    np.testing.assert_array_equal(state[0], [2, 2])


def test_it_is_stored_without_pickle(inner, tmp_path):
    policy = TimeFeaturePolicy(inner, 10)
    save_policy(policy, tmp_path)
    again = load_policy(tmp_path)
    assert (type(again), again.max_steps) == (TimeFeaturePolicy, 10)
    obs = np.ones((2, 3), np.float32)
    for state in (None, (np.array([3.0, 9.0]),)):
        np.testing.assert_array_equal(
            again.predict(obs, state=state, deterministic=True)[0],
            policy.predict(obs, state=state, deterministic=True)[0],
        )


def test_the_forward_pass_and_invalid_arguments_are_refused(inner):
    policy = TimeFeaturePolicy(inner, 10)
    with pytest.raises(ValueError, match="needs predict"):
        policy(drift_venv().reset())
    with pytest.raises(ValueError, match="max_steps: must be positive"):
        TimeFeaturePolicy(inner, 0)
    images = RandomPolicy(spaces.Box(0, 1, (2, 2)), TORQUE)
    with pytest.raises(ValueError, match="requires vector observations"):
        TimeFeaturePolicy(images, 10)


def test_spaces_gain_and_lose_the_feature():
    space = spaces.Box(np.array([-1.0, -2.0]), np.array([1.0, 2.0]), dtype=np.float64)
    assert with_time(space) == spaces.Box(
        np.array([-1.0, -2.0, 0.0]), np.array([1.0, 2.0, 1.0]), dtype=np.float64
    )
    assert without_time(with_time(space)) == space
