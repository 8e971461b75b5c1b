"""Steps from chosen states are those that the environment takes there itself."""

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)

import imitbench.envs.altered  # noqa: F401 (registers environments)
from imitbench.envs.chosen_states import find_state_space, plane_of_dims, step_from
from imitbench.envs.equations import equations_of

TASKS = [
    "Pendulum-v1", "CartPole-v1", "seals/CartPole-v0", "MountainCar-v0", "seals/MountainCar-v0",
    "MountainCarContinuous-v0", "imitbench/PointMaze-v0", "imitbench/Pendulum-v0",
    "imitbench/MountainCar-v0",
]  # fmt: skip


def played(env_id):
    env = gym.make(env_id, disable_env_checker=True)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=3)
    steps = []
    for _ in range(15):
        act = env.action_space.sample()
        after, reward, ended, _, _ = env.step(act)
        steps.append((obs, act, after, reward, ended))
        if ended:
            break
        obs = after
    return env, *(np.array(field) for field in zip(*steps, strict=True))


@pytest.mark.parametrize("env_id", TASKS)
def test_a_step_from_a_visited_state_is_the_same_step(env_id):
    env, obs, acts, next_obs, rews, dones = played(env_id)
    found = step_from(env, find_state_space(env), obs, acts)
    np.testing.assert_allclose(found.next_obs, next_obs, atol=1e-5)
    np.testing.assert_allclose(found.rews, rews, atol=1e-4)
    np.testing.assert_array_equal(found.dones, dones)


@pytest.mark.parametrize("env_id", ["seals/MountainCar-v0", "imitbench/MountainCar-v0"])
def test_a_car_that_has_reached_the_goal_stays_there(env_id):
    env = gym.make(env_id, disable_env_checker=True)
    obs = np.array([[0.49, 0.03], [0.52, 0.03], [0.52, -0.01]])
    found = step_from(env, find_state_space(env), obs, np.array([2, 2, 2]))
    assert found.rews.tolist() == [-1.0, 0.0, -1.0]
    np.testing.assert_array_equal(found.next_obs[1], obs[1].astype(np.float32))
    expected = equations_of(env).move(obs, np.array([2, 2, 2]))
    np.testing.assert_allclose(found.next_obs, expected, atol=1e-6)


@pytest.mark.parametrize("env_id", TASKS)
def test_coordinates_lead_back_to_their_observation(env_id):
    env, obs, *_ = played(env_id)
    task = find_state_space(env)
    x, y = task.plane.project(obs)
    again = task.plane.project(task.plane.observe(obs[0].astype(float), x, y))
    np.testing.assert_allclose(again, (x, y), atol=1e-6)
    assert all(low < high for low, high in task.plane.ranges)


def test_other_environments_are_not_known():
    assert find_state_space(gym.make("Acrobot-v1")) is None


def test_a_wrapper_that_changes_observations_hides_the_task():
    env = gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 2)
    assert find_state_space(env) is None


def test_two_dimensions_of_a_flat_observation():
    plane = plane_of_dims((2, 0), ("a", "b", "c"), ((0.0, 1.0), (2.0, 3.0)))
    obs = plane.observe(np.array([5.0, 6.0, 7.0]), np.array([0.5]), np.array([2.5]))
    np.testing.assert_array_equal(obs, [[2.5, 6.0, 0.5]])
    assert plane.labels == ("c", "a")
    np.testing.assert_array_equal(plane.project(obs), [[0.5], [2.5]])
