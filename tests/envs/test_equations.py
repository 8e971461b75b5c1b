"""Equations of tasks give the steps and rewards of their environments."""

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401  (registers environments)

import imitbench.envs.altered  # noqa: F401  (registers environments)
from imitbench.envs.equations import equations_of

TASKS = [
    ("Pendulum-v1", {}),
    ("imitbench/Pendulum-v0", {"mass": 1.5, "length": 0.7, "gravity": 12.0}),
    ("seals/CartPole-v0", {}),
    ("imitbench/CartPole-v0", {"pole": 2.0, "force": 0.5}),
    ("seals/MountainCar-v0", {}),
    ("imitbench/MountainCar-v0", {"gravity": 0.4, "engine": 2.0}),
    ("imitbench/PointMaze-v0", {"opening": "left"}),
    ("imitbench/PointMaze-v0", {"opening": "right"}),
]


def action(env, rng, obs):
    """A random action; MountainCar is driven to its goal, the point to the wall."""
    if "MountainCar" in env.spec.id:
        return 2 if obs[1] >= 0 else 0
    if "PointMaze" in env.spec.id:
        return rng.uniform(-1.5, [1.5, 0.5]).astype(np.float32)
    if isinstance(env.action_space, gym.spaces.Discrete):
        return int(rng.integers(env.action_space.n))
    return rng.uniform(-3, 3, env.action_space.shape).astype(np.float32)


@pytest.mark.parametrize(("name", "arguments"), TASKS)
def test_steps_and_rewards_are_those_of_the_environment(name, arguments):
    env = gym.make(name, disable_env_checker=True, **arguments)
    rng = np.random.default_rng(0)
    before, taken, after, rewards = [], [], [], []
    for seed in range(4):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            act = action(env, rng, obs)
            before.append(obs)
            taken.append(act)
            obs, reward, terminated, truncated, _ = env.step(act)
            after.append(obs)
            rewards.append(reward)
            over = terminated or truncated
    equations = equations_of(env)
    steps = [np.array(each) for each in (before, taken, after)]
    np.testing.assert_allclose(equations.move(*steps[:2]), steps[2], rtol=1e-4, atol=1e-4)
    dones = np.zeros(len(rewards), bool)
    # The angle of a pendulum is that of rounded sine and cosine.
    np.testing.assert_allclose(equations.reward_fn(*steps, dones), rewards, rtol=1e-4, atol=1e-4)
    assert len(np.unique(rewards)) > 1


def test_other_tasks_have_no_equations():
    assert equations_of(gym.make("Acrobot-v1")) is None
