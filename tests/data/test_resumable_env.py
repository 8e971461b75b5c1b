"""An episode can be resumed in another environment, with any simulator."""

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.util.state_file import load_state, save_state

ENVIRONMENTS = ["seals/CartPole-v0", "Pendulum-v1", "seals/HalfCheetah-v1", "seals/Ant-v1"]


def make(name):
    return ResumableEnv(Monitor(gym.make(name, disable_env_checker=True)))


def walk(env, rng, steps):
    """Observations, rewards and ends of a walk that goes through resets."""
    seen = []
    for _ in range(steps):
        low, high = (0, 2) if isinstance(env.action_space, spaces.Discrete) else (-1, 1)
        action = (
            rng.integers(low, high)
            if isinstance(env.action_space, spaces.Discrete)
            else rng.uniform(low, high, env.action_space.shape).astype(np.float32)
        )
        obs, reward, terminated, truncated, info = env.step(action)
        seen.append((obs.tolist(), reward, terminated, truncated, info.get("episode", {}).get("r")))
        if terminated or truncated:
            seen.append(env.reset()[0].tolist())
    return seen


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("before", [0, 7, 505], ids=["start", "within", "later episode"])
def test_a_resumed_episode_continues_like_the_original(name, before, tmp_path):
    env = make(name)
    env.reset(seed=3)
    walk(env, np.random.default_rng(0), before)
    save_state(tmp_path / "s", env.episode_state())
    expected = walk(env, np.random.default_rng(1), 600 if "Cart" in name else 50)

    other = make(name)
    other.reset(seed=99)
    other.restore_episode(load_state(tmp_path / "s"))
    assert walk(other, np.random.default_rng(1), 600 if "Cart" in name else 50) == expected


def test_states_do_not_change_when_the_environment_steps():
    env = make("Pendulum-v1")
    env.reset(seed=0)
    state = env.episode_state()
    walk(env, np.random.default_rng(0), 5)
    assert state["actions"] == []


def test_before_the_first_reset_there_is_nothing_to_restore():
    state = make("Pendulum-v1").episode_state()
    env = make("Pendulum-v1")
    env.restore_episode(state)
    assert state["start"] is None


class OwnRandomness(gym.Env):
    """Draws from a hidden generator."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.random.default_rng().random(1, np.float32), 0.0, False, False, {}


def test_hidden_randomness_is_detected():
    env = ResumableEnv(OwnRandomness())
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(ValueError, match=r"OwnRandomness.*np_random"):
        ResumableEnv(OwnRandomness()).restore_episode(env.episode_state())


def test_each_environment_of_a_vector_is_resumed():
    def make_three():
        return DummyVecEnv([lambda: make("seals/CartPole-v0")] * 3)

    venv, other = make_three(), make_three()
    venv.seed(5)
    venv.reset()
    for _ in range(20):
        venv.step(np.array([0, 1, 1]))
    restore_episodes(other, episode_states(venv))
    for _ in range(5):
        one, two = venv.step(np.array([1, 0, 1])), other.step(np.array([1, 0, 1]))
        np.testing.assert_array_equal(one[0], two[0])
    with pytest.raises(ValueError, match="2 environments, but there are 3"):
        restore_episodes(other, episode_states(venv)[:2])
