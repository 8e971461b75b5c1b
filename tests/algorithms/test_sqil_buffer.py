"""Half of each batch is the learner's with reward 0, half the expert's with reward 1."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from imitbench.algorithms.sqil import SQILReplayBuffer
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import Trajectory, TransitionsMinimal

OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
CHOICE = spaces.Discrete(3)
TORQUE = spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 1.0]), dtype=np.float32)


def trajectory(steps, terminal=True, infos=None, start=1000.0):
    """The expert's observations are 1000 and more, the learner's negative."""
    obs = start + np.arange(2 * (steps + 1), dtype=np.float32).reshape(-1, 2)
    return Trajectory(obs=obs, acts=np.arange(steps) % 3, infos=infos, terminal=terminal)


def buffer(demonstrations, acts=CHOICE, size=100, n_envs=1, **options):
    return SQILReplayBuffer(size, OBS, acts, demonstrations, "cpu", n_envs, **options)


def act(buffer, steps, done=False, truncated=False):
    """The learner's observations encode the step and the environment."""
    for step in range(steps):
        obs = np.array([[-1 - step, -1 - env] for env in range(buffer.n_envs)], np.float32)
        flags = np.full(buffer.n_envs, done)
        info = {"TimeLimit.truncated": truncated}
        buffer.add(
            obs, obs - 0.5, np.ones((buffer.n_envs, 1), int), flags + 7.0, flags,
            [info] * buffer.n_envs,
        )  # fmt: skip


def test_observations_can_be_discrete():
    episode = Trajectory(np.array([0, 2, 1]), np.array([1, 0]), None, True)
    filled = SQILReplayBuffer(10, spaces.Discrete(3), CHOICE, [episode], "cpu")
    expert = filled.expert_buffer
    assert expert.observations[:, 0, 0].tolist() == [0, 2]
    assert expert.next_observations[:, 0, 0].tolist() == [2, 1]


@pytest.mark.parametrize(("size", "learner"), [(2, 1), (7, 3), (64, 32)])
def test_half_of_a_batch_is_the_experts(size, learner):
    filled = buffer([trajectory(5)])
    act(filled, 10)
    batch = filled.sample(size)
    assert batch.rewards.tolist() == [[0.0]] * learner + [[1.0]] * (size - learner)
    assert (batch.observations[:learner] < 0).all()
    assert (batch.observations[learner:] >= 1000).all()
    assert batch.rewards.dtype == batch.dones.dtype == th.float32
    assert batch.actions.shape == (size, 1)


def test_all_transitions_are_drawn_and_their_fields_stay_together():
    filled = buffer([trajectory(5)], n_envs=2)
    act(filled, 3)
    np.random.seed(0)  # noqa: NPY002
    batch = filled.sample(400)
    own, theirs = batch.observations[:200], batch.observations[200:]
    assert len(own.unique(dim=0)) == 6
    assert len(theirs.unique(dim=0)) == 5
    assert th.equal(batch.next_observations[:200], own - 0.5)
    assert th.equal(batch.next_observations[200:], theirs + 2)
    assert th.equal(batch.actions[200:, 0], ((theirs[:, 0] - 1000) / 2).long() % 3)


def test_the_environments_rewards_are_not_kept():
    filled = buffer([trajectory(5)])
    act(filled, 4)
    assert not filled.rewards.any()


def test_the_learners_time_limits_are_not_terminal():
    for truncated, expected in ((False, 1.0), (True, 0.0)):
        filled = buffer([trajectory(5)])
        act(filled, 4, done=True, truncated=truncated)
        assert (filled.sample(8).dones[:4] == expected).all()


def ends(demonstrations, **options):
    """Which transitions of the expert are not bootstrapped."""
    expert = buffer(demonstrations, **options).expert_buffer
    return np.flatnonzero(expert.dones[:, 0] * (1 - expert.timeouts[:, 0])).tolist()


CUT = np.array([{}, {}, {"TimeLimit.truncated": True}])


@pytest.mark.parametrize(
    ("demonstrations", "time_limit", "expected"),
    [
        ([trajectory(3), trajectory(2)], None, [2, 4]),
        ([trajectory(3), trajectory(2)], 10, [2, 4]),
        ([trajectory(3), trajectory(2)], 3, [4]),
        ([trajectory(3, terminal=False), trajectory(2)], None, [4]),
        ([trajectory(3, infos=CUT), trajectory(2)], None, [4]),
        (flatten_trajectories([trajectory(3, infos=CUT), trajectory(2)]), None, [4]),
        (flatten_trajectories([trajectory(3), trajectory(2)]), 3, [2, 4]),
    ],
)
def test_the_experts_time_limits_are_not_terminal(demonstrations, time_limit, expected):
    assert ends(demonstrations, time_limit=time_limit) == expected


def test_all_kinds_of_demonstrations_give_the_same_buffer():
    trajectories = [trajectory(3), trajectory(2, start=2000.0)]
    flat = flatten_trajectories(trajectories)
    batches = [
        {name: th.tensor(getattr(flat, name)[part]) for name in
         ("obs", "acts", "next_obs", "dones")}
        for part in (slice(0, 4), slice(4, 5))
    ]  # fmt: skip
    buffers = [
        buffer(given).expert_buffer for given in (trajectories, iter(trajectories), flat, batches)
    ]
    for other in buffers[1:]:
        for name in ("observations", "next_observations", "actions", "dones", "rewards"):
            assert np.array_equal(getattr(other, name), getattr(buffers[0], name))


def test_continuous_actions_are_clipped_and_scaled_like_the_learners():
    acts = np.array([[-2.0, 0.0], [0.0, 0.5], [2.0, 1.0], [5.0, -1.0]], np.float32)
    obs = np.zeros((5, 2), np.float32)
    given = [Trajectory(obs=obs, acts=acts, infos=None, terminal=True)]
    stored = buffer(given, TORQUE).expert_buffer.actions[:, 0]
    assert stored.tolist() == [[-1, -1], [0, 0], [1, 1], [1, -1]]


def test_observations_are_normalized_and_rewards_are_not():
    venv = VecNormalize(make_vec_env("Pendulum-v1", 1))
    for _ in range(3):
        venv.reset()
    obs = np.ones((4, 3), np.float32)
    given = [Trajectory(obs=obs, acts=np.zeros((3, 1)), infos=None, terminal=True)]
    filled = SQILReplayBuffer(10, venv.observation_space, venv.action_space, given, "cpu")
    filled.add(obs[0], obs[0], np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    batch = filled.sample(2, env=venv)
    assert np.allclose(batch.observations.numpy(), venv.normalize_obs(obs[0]))
    assert batch.rewards.tolist() == [[0.0], [1.0]]


def test_sampling_needs_demonstrations():
    empty = buffer(None)
    act(empty, 3)
    with pytest.raises(ValueError, match="no demonstrations"):
        empty.sample(2)
    empty.set_demonstrations([trajectory(2)])
    assert empty.sample(2).rewards.tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "demonstrations are empty"),
        ([{"obs": np.zeros((1, 2)), "acts": np.zeros(1, int)}], "next_obs is missing"),
        (TransitionsMinimal(np.zeros((1, 2)), np.zeros(1, int), np.array([{}])), "next_obs"),
        ([trajectory(2, start=np.nan)], "not finite"),
        ([Trajectory(np.zeros((2, 2)), np.array([7]), None, True)], "outside"),
        ([Trajectory(np.zeros((2, 3)), np.array([1]), None, True)], "shape"),
    ],
)
def test_bad_demonstrations_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        buffer(given)


def test_unsupported_options_are_refused():
    with pytest.raises(ValueError, match="optimize_memory_usage"):
        buffer([trajectory(2)], optimize_memory_usage=True)
    with pytest.raises(ValueError, match="dictionaries of observations"):
        SQILReplayBuffer(10, spaces.Dict({"a": OBS}), CHOICE, None)
