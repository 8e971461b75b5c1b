"""Rewards of samples are those of the reward function, not the stored ones."""

import copy

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from support.drift import CHOICE, TORQUE, Drift, drift_venv

from imitbench.policies.replay_buffer_wrapper import ReplayBufferRewardWrapper, ReplayBufferView

OBSERVATIONS = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def linear_reward(obs, acts, next_obs, dones):
    """Depends on every argument; (batch,) whether actions are discrete or not."""
    return obs.sum(1) + 10 * acts.reshape(len(acts), -1).sum(1) - 2 * next_obs[:, 0] + 100 * dones


def first_of_obs(obs, acts, next_obs, dones):
    return obs[:, 0]


def ended(obs, acts, next_obs, dones):
    return dones.astype(float)


def buffer(reward_fn=linear_reward, size=20, observation_space=OBSERVATIONS, **kwargs):
    kwargs = {"replay_buffer_class": ReplayBuffer, "n_envs": 2, "device": "cpu", **kwargs}
    return ReplayBufferRewardWrapper(size, observation_space, TORQUE, reward_fn=reward_fn, **kwargs)


def fill(target, steps):
    """Steps of two environments with a reward of 7."""
    rng = np.random.default_rng(0)
    for step in range(steps):
        obs, following = rng.normal(size=(2, 2, 3)).astype(np.float32)
        add(target, obs, following, rng.normal(size=(2, 2)), [step % 3 == 0, False])


def add(target, obs, following, actions=None, dones=(False, False), infos=({}, {})):
    actions = np.zeros((2, 2)) if actions is None else actions
    target.add(obs, following, actions, np.full(2, 7.0), np.array(dones), list(infos))


def train(cls, space, reward_fn, venv=None, **kwargs):
    model = cls(
        "MlpPolicy",
        venv or drift_venv(space),
        buffer_size=100,
        learning_starts=10,
        batch_size=8,
        policy_kwargs={"net_arch": [8]},
        replay_buffer_class=ReplayBufferRewardWrapper,
        replay_buffer_kwargs={"replay_buffer_class": ReplayBuffer, "reward_fn": reward_fn},
        seed=0,
        **kwargs,
    )
    return model.learn(40)


@pytest.mark.parametrize(("cls", "space"), [(SAC, TORQUE), (DQN, CHOICE)])
def test_an_algorithm_learns_from_relabelled_rewards(cls, space):
    calls = []

    def reward(obs, acts, next_obs, dones):
        calls.append((obs, acts, next_obs, dones))
        return linear_reward(obs, acts, next_obs, dones)

    model = train(cls, space, reward)
    assert len(calls) >= 4  # one per gradient step
    obs, acts, next_obs, dones = calls[0]
    assert obs.shape == next_obs.shape == (8, 3)
    assert acts.shape == (8, *space.shape)
    assert (dones.shape, dones.dtype) == ((8,), bool)
    samples = model.replay_buffer.sample(16)
    wanted = linear_reward(
        samples.observations.numpy(),
        model.policy.unscale_action(samples.actions.numpy())
        if space is TORQUE
        else samples.actions.numpy(),
        samples.next_observations.numpy(),
        samples.dones.numpy()[:, 0],
    )
    np.testing.assert_allclose(samples.rewards.numpy(), wanted[:, None], rtol=1e-5)
    assert samples.rewards.dtype == th.float32


def test_the_reward_function_gets_the_executed_actions():
    space = spaces.Box(np.array([[-2.0], [0.0]], np.float32), np.array([[2.0], [8.0]], np.float32))
    executed, rewarded = [], []

    class Watched(Drift):
        def step(self, action):
            executed.append(action.copy())
            return super().step(action)

    def reward(obs, acts, next_obs, dones):
        rewarded.extend(acts)
        return np.zeros(len(acts))

    train(SAC, space, reward, DummyVecEnv([lambda: Watched(space)] * 2))
    assert np.max(executed) > 2
    assert {each.tobytes() for each in rewarded} <= {each.tobytes() for each in executed}


def test_the_reward_determines_what_is_learned():
    def times(scale):
        def reward(obs, acts, next_obs, dones):
            return scale * acts[:, 0]

        return reward

    one, same, other = (
        train(SAC, TORQUE, times(scale)).policy.state_dict() for scale in (1, 1, -1)
    )
    assert all(th.equal(one[key], same[key]) for key in one)
    assert any(not th.equal(one[key], other[key]) for key in one)


def test_position_and_fullness_are_those_of_the_wrapped_buffer():
    wrapper = buffer(size=20)
    assert wrapper.buffer_size == 10
    fill(wrapper, 7)
    assert (wrapper.pos, wrapper.full, wrapper.size()) == (7, False, 7)
    fill(wrapper, 5)
    assert (wrapper.pos, wrapper.full, wrapper.size()) == (2, True, 10)
    assert wrapper.rewards is wrapper.replay_buffer.rewards
    wrapper.reset()
    assert (wrapper.replay_buffer.pos, wrapper.replay_buffer.full) == (0, False)


def test_stored_rewards_are_kept():
    wrapper = buffer()
    fill(wrapper, 10)
    wrapper.sample(4)
    assert (wrapper.rewards == 7.0).all()


def test_ends_by_time_limits_are_not_done():
    wrapper = buffer(ended)
    obs = np.zeros((2, 3), np.float32)
    add(wrapper, obs, obs, dones=[True, True], infos=[{"TimeLimit.truncated": True}, {}])
    rewards = wrapper.sample(200).rewards
    assert 0 < rewards.mean() < 1


def test_the_reward_function_gets_raw_observations_and_the_learner_normalized_ones():
    venv = VecNormalize(drift_venv(), norm_reward=False)
    seen = []

    def reward(obs, acts, next_obs, dones):
        seen.append(obs)
        return first_of_obs(obs, acts, next_obs, dones)

    model = train(SAC, TORQUE, reward, venv)
    venv.training = False
    samples = model.replay_buffer.sample(8, env=venv)
    np.testing.assert_allclose(
        samples.observations.numpy(), venv.normalize_obs(seen[-1]), rtol=1e-6
    )
    np.testing.assert_array_equal(samples.rewards.numpy()[:, 0], seen[-1][:, 0])
    assert abs(seen[-1].mean()) > 1 > abs(samples.observations.numpy().mean())


def test_dictionary_observations_are_passed_to_the_reward_function():
    def reward(obs, acts, next_obs, dones):
        return obs["a"][:, 0] + next_obs["a"][:, 1]

    wrapper = buffer(
        reward,
        replay_buffer_class=DictReplayBuffer,
        observation_space=spaces.Dict({"a": OBSERVATIONS}),
    )
    obs = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}
    add(wrapper, obs, obs)
    samples = wrapper.sample(4)
    assert th.equal(samples.rewards[:, 0], 2 * samples.observations["a"][:, 0] + 1)


def test_discrete_observations_are_passed_as_numbers():
    def reward(obs, acts, next_obs, dones):
        return 10.0 * obs + next_obs

    wrapper = buffer(reward, observation_space=spaces.Discrete(5))
    add(wrapper, np.array([1, 2]), np.array([2, 3]))
    assert set(wrapper.sample(50).rewards[:, 0].tolist()) == {12.0, 23.0}


def test_it_can_be_copied():
    wrapper = buffer()
    fill(wrapper, 5)
    again = copy.deepcopy(wrapper)
    fill(again, 1)
    assert (wrapper.pos, again.pos) == (5, 6)


def test_rewards_of_the_wrong_shape_are_refused():
    def column(obs, acts, next_obs, dones):
        return np.zeros((len(obs), 1))

    wrapper = buffer(column)
    fill(wrapper, 5)
    with pytest.raises(ValueError, match=r"reward_fn: .* shape \(4,\), not \(4, 1\)"):
        wrapper.sample(4)


def test_n_step_buffers_are_refused():
    with pytest.raises(ValueError, match="replay_buffer_class: NStepReplayBuffer"):
        buffer(replay_buffer_class=NStepReplayBuffer)


def test_a_view_shows_the_content_read_only():
    for target in (ReplayBuffer(20, OBSERVATIONS, TORQUE, n_envs=2), buffer()):
        view = ReplayBufferView(target)
        assert len(view) == 0
        fill(target, 4)
        assert len(view) == 8
        assert view.observations.shape == view.next_observations.shape == (4, 2, 3)
        assert view.actions.shape == (4, 2, 2)
        np.testing.assert_array_equal(view.rewards, np.full((4, 2), 7.0))
        np.testing.assert_array_equal(view.dones[:, 0], [1, 0, 0, 1])
        assert np.shares_memory(view.observations, target.observations)
        with pytest.raises(ValueError, match="read-only"):
            view.observations[0] = 0
        fill(target, 8)
        assert len(view) == 20
