"""Environments with other rewards: terminal observations, original rewards, returns."""

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.rewards.reward_nets import BasicRewardNet
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper, WrappedRewardCallback
from imitbench.util.util import make_vec_env


class Remember:
    """A reward function that records its calls; the reward is the next count times ten."""

    def __init__(self):
        self.calls = []

    def __call__(self, state, action, next_state, done):
        self.calls.append((state.copy(), action.copy(), next_state.copy(), done.copy()))
        return 10 * next_state[:, 0]


@pytest.fixture
def reward_fn():
    return Remember()


@pytest.fixture
def venv(reward_fn):
    """Episodes of 3 steps in the first environment, of 2 and 5 alternately in the second."""
    envs = DummyVecEnv([lambda: Counter((3,)), lambda: Counter((2, 5))])
    return RewardVecEnvWrapper(envs, reward_fn)


def step(venv, times=1):
    for _ in range(times):
        result = venv.step(np.array([0, 1]))
    return result


def test_rewards_are_replaced_and_the_original_is_kept(venv):
    for count in (1, 2):
        _, rewards, _, infos = step(venv)
        assert rewards.tolist() == [10 * count, 10 * count]
        assert [info["original_env_rew"] for info in infos] == [count, count]
        assert [info["action"] for info in infos] == [0, 1]


def test_at_the_end_of_an_episode_the_next_state_is_its_last_observation(venv, reward_fn):
    obs, _, dones, infos = step(venv, 2)
    assert dones.tolist() == [False, True]
    state, action, next_state, done = reward_fn.calls[-1]
    assert state.tolist() == [[1, 0], [1, 0]]
    assert action.tolist() == [0, 1]
    assert next_state.tolist() == [[2, 0], [2, 0]]
    assert next_state.dtype == state.dtype == np.float32
    assert done.tolist() == [False, True]
    # The caller sees the first observation of the next episode, from which the next step starts.
    assert obs.tolist() == [[2, 0], [0, 1]]
    assert infos[1]["terminal_observation"].tolist() == [2, 0]
    step(venv)
    assert reward_fn.calls[-1][0].tolist() == [[2, 0], [0, 1]]


def test_returns_of_finished_episodes_are_kept(venv):
    step(venv, 2)
    assert list(venv.episode_rewards) == [10 + 20]
    step(venv, 5)  # the first environment ends twice, then the second
    assert list(venv.episode_rewards) == [30, 60, 60, 10 + 20 + 30 + 40 + 50]


def test_a_reset_drops_the_unfinished_episode(venv):
    step(venv)
    venv.reset()
    step(venv, 3)
    assert list(venv.episode_rewards) == [60]


def test_only_the_last_returns_are_kept(reward_fn):
    venv = RewardVecEnvWrapper(DummyVecEnv([lambda: Counter((1, 2, 3))]), reward_fn, ep_history=2)
    for _ in range(6):
        venv.step(np.array([0]))
    assert list(venv.episode_rewards) == [30, 60]


def test_building_the_wrapper_resets_the_environment(reward_fn):
    inner = DummyVecEnv([Counter])
    inner.reset()
    venv = RewardVecEnvWrapper(inner, reward_fn)
    assert venv.envs is inner.envs
    assert inner.envs[0].episode == 1


def test_a_real_environment_gets_a_networks_rewards():
    rng = np.random.default_rng(0)
    inner = make_vec_env("CartPole-v1", rng=rng, n_envs=3, max_episode_steps=30)
    net = BasicRewardNet(inner.observation_space, inner.action_space, use_next_state=True)
    venv = RewardVecEnvWrapper(inner, net.predict_processed)
    obs = venv.reset()
    ended = 0
    for _ in range(60):
        actions = rng.integers(2, size=3)
        next_obs, rewards, dones, infos = venv.step(actions)
        assert [info["original_env_rew"] for info in infos] == [1.0, 1.0, 1.0]
        last = np.stack(
            [info.get("terminal_observation", o) for info, o in zip(infos, next_obs, strict=True)]
        )
        np.testing.assert_allclose(rewards, net.predict(obs, actions, last, dones), rtol=1e-6)
        obs, ended = next_obs, ended + dones.sum()
    assert ended == len(venv.episode_rewards) > 3


def test_a_reward_function_of_another_shape_is_refused():
    venv = RewardVecEnvWrapper(DummyVecEnv([Counter, Counter]), lambda *_: np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"they need \(2,\)"):
        step(venv)


def test_dictionary_observations_reach_the_function_as_dictionaries():
    calls = []

    def reward_fn(state, action, next_state, done):
        calls.append((state, next_state))
        return next_state["count"][:, 0]

    makers = [lambda: DictCounter(Counter((3,))), lambda: DictCounter(Counter((2, 5)))]
    venv = RewardVecEnvWrapper(DummyVecEnv(makers), reward_fn)
    step(venv)
    obs, rewards, dones, _ = step(venv)
    assert dones.tolist() == [False, True]
    assert rewards.tolist() == [2, 2]
    assert obs["count"].tolist() == [[2], [0]]
    state, next_state = calls[-1]
    assert state["count"].tolist() == [[1], [1]]
    assert next_state["count"].tolist() == [[2], [2]]
    assert next_state["episode"].tolist() == [0, 0]
    assert list(venv.episode_rewards) == [3.0]

    state = venv.state_dict()
    step(venv)
    assert state["obs"]["count"].tolist() == [[2], [0]]
    other = RewardVecEnvWrapper(DummyVecEnv(makers), reward_fn)
    other.load_state_dict(state)
    step(other)
    assert calls[-1][0]["count"].tolist() == [[2], [0]]


def one_each(state, action, next_state, done):
    return np.ones(len(done))


class Written(KVWriter):
    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def test_the_mean_return_is_logged_during_training():
    venv = RewardVecEnvWrapper(DummyVecEnv([lambda: Counter((4,))]), one_each)
    written = Written()
    algorithm = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    algorithm.set_logger(Logger(None, [written]))
    callback = venv.make_log_callback()
    assert isinstance(callback, WrappedRewardCallback)
    algorithm.learn(24, callback=callback)
    # The first rollout's value is in the first row: nothing comes a rollout late.
    assert [row["rollout/ep_rew_wrapped_mean"] for row in written.rows] == [4.0, 4.0, 4.0]


def test_nothing_is_logged_before_an_episode_has_ended():
    venv = RewardVecEnvWrapper(DummyVecEnv([lambda: Counter((100,))]), one_each)
    written = Written()
    algorithm = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    algorithm.set_logger(Logger(None, [written]))
    algorithm.learn(8, callback=venv.make_log_callback())
    assert len(written.rows) == 1
    assert "rollout/ep_rew_wrapped_mean" not in written.rows[0]
