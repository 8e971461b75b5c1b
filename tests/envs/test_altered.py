"""Tasks with other dynamics: unchanged by default, and changed by their arguments alone."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401  (registers environments)

import imitbench.envs.altered  # noqa: F401  (registers environments)
from imitbench.cards.catalog import load_suite
from imitbench.data.resumable_env import ResumableEnv
from imitbench.envs.batch_choice import agrees, knows
from imitbench.errors import InputError
from imitbench.experts.measurement import measure_references

PAIRS = {
    "imitbench/Pendulum-v0": "Pendulum-v1",
    "imitbench/CartPole-v0": "seals/CartPole-v0",
    "imitbench/CliffWorld-v0": "seals/CliffWorld7x4-v0",
    "imitbench/MountainCar-v0": "seals/MountainCar-v0",
    "imitbench/Ant-v0": "seals/Ant-v1",
    "imitbench/HalfCheetah-v0": "seals/HalfCheetah-v1",
    "imitbench/Hopper-v0": "seals/Hopper-v1",
}
ALTERED = [
    ("imitbench/Pendulum-v0", {"mass": 1.5}),
    ("imitbench/Pendulum-v0", {"length": 1.3}),
    ("imitbench/Pendulum-v0", {"gravity": 12.0}),
    ("imitbench/CartPole-v0", {"pole": 2.0}),
    ("imitbench/CartPole-v0", {"force": 0.5}),
    ("imitbench/CliffWorld-v0", {"wall": True}),
    ("imitbench/MountainCar-v0", {"gravity": 1.2}),
    ("imitbench/MountainCar-v0", {"engine": 0.8}),
    ("imitbench/Ant-v0", {"front_legs": 0.5}),
    ("imitbench/Ant-v0", {"front_force": 0.0}),
    ("imitbench/HalfCheetah-v0", {"torso_mass": 2.0}),
    ("imitbench/HalfCheetah-v0", {"legs": 0.7}),
    ("imitbench/Hopper-v0", {"friction": 0.5}),
]


def steps(env, count=120):
    """Observations and rewards after the same actions."""
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    found = []
    for _ in range(count):
        space = env.action_space
        discrete = isinstance(space, gym.spaces.Discrete)
        act = rng.integers(space.n) if discrete else rng.uniform(space.low, space.high)
        obs, reward, terminated, truncated, _ = env.step(act if discrete else act.astype("f4"))
        found.append((*obs, reward, terminated, truncated))
    env.close()
    return np.array(found, dtype=np.float64)


@pytest.mark.parametrize("own", PAIRS)
def test_without_arguments_every_step_is_that_of_the_known_task(own):
    ours, theirs = gym.make(own), gym.make(PAIRS[own])
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
    np.testing.assert_array_equal(steps(ours), steps(theirs))


@pytest.mark.parametrize(("own", "changed"), ALTERED)
def test_arguments_change_the_steps_and_not_the_spaces(own, changed):
    ours, theirs = gym.make(own, **changed), gym.make(PAIRS[own])
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    one, other = steps(ours), steps(theirs)
    assert not np.array_equal(one, other)
    # The same seed gives the same steps.
    np.testing.assert_array_equal(one, steps(gym.make(own, **changed)))


@pytest.mark.parametrize(("own", "changed"), ALTERED)
def test_batches_step_altered_tasks(own, changed):
    make = functools.partial(gym.make, own, disable_env_checker=True, **changed)
    assert knows(make())
    assert agrees(make)


def test_steps_into_the_wall_of_the_cliff_world_stay_where_they_are():
    free, walled = (gym.make("imitbench/CliffWorld-v0", wall=wall).unwrapped for wall in (0, 1))
    beside, behind = 2 * 7 + 3, 1 * 7 + 4
    up_right = 1  # to row 1, column 4; blown up with probability 0.3: to the cliff above
    np.testing.assert_allclose(free.transition_matrix[beside, up_right, [behind, 4]], [0.7, 0.3])
    moved = walled.transition_matrix[beside, up_right]
    np.testing.assert_allclose(moved[[beside, behind, 4]], [0.7, 0, 0.3])
    np.testing.assert_allclose(walled.transition_matrix.sum(axis=-1), 1)
    outside = np.setdiff1d(np.arange(28), (11, 18))
    assert not walled.transition_matrix[outside][:, :, [11, 18]].any()


def test_a_pendulum_by_hand():
    env = gym.make("imitbench/Pendulum-v0", mass=2.0, length=0.5, gravity=4.0).unwrapped
    env.reset(seed=0)
    env.state = np.array([0.3, 0.1])
    env.step(np.array([0.5], np.float32))
    # Angular acceleration 3 g / (2 l) sin(x) + 3 u / (m l^2), steps of 0.05 s.
    speed = 0.1 + 0.05 * (12 * np.sin(0.3) + 3 * 0.5 / (2 * 0.25))
    np.testing.assert_allclose(env.state, [0.3 + 0.05 * speed, speed])


def test_masses_follow_from_shapes():
    short = gym.make("imitbench/Ant-v0", front_legs=0.5).unwrapped.model
    usual = gym.make("imitbench/Ant-v0").unwrapped.model
    shorter = short.body_mass / usual.body_mass.clip(1e-9)
    names = [usual.body(number).name for number in range(usual.nbody)]
    changed = {names[at] for at in np.flatnonzero(shorter[1:] < 1) + 1}
    # The last part of a leg has no name.
    assert changed == {"front_left_leg", "aux_1", "front_right_leg", "aux_2", ""}
    heavy = gym.make("imitbench/HalfCheetah-v0", torso_mass=2.0).unwrapped.model
    light = gym.make("imitbench/HalfCheetah-v0").unwrapped.model
    added = heavy.body_mass - light.body_mass
    assert added[heavy.body("torso").id] == light.body_mass[light.body("torso").id]
    assert np.count_nonzero(added) == 1


def walk(env, *moves):
    """Takes steps and returns the last position."""
    env.reset(seed=0)
    env.unwrapped._position = np.array(env.unwrapped.START)
    for act, count in moves:
        for _ in range(count):
            position, reward, terminated, _, _ = env.step(np.array(act, np.float32))
            assert not terminated
            expected = -np.linalg.norm(position - env.unwrapped.GOAL) - 0.001 * np.sum(
                np.square(act)
            )
            assert reward == pytest.approx(expected, abs=1e-6)
    return position


@pytest.mark.parametrize(("opening", "towards"), [("left", -1), ("right", 1)])
def test_the_maze_is_passed_where_its_wall_is_open(opening, towards):
    env = gym.make("imitbench/PointMaze-v0", opening=opening)
    through = walk(env, ((towards, 0), 8), ((0, -1), 12), ((-towards, 0), 8))
    np.testing.assert_allclose(through, (0, -0.6), atol=1e-6)
    for stopped in (walk(env, ((0, -1), 12)), walk(env, ((-towards, 0), 8), ((0, -1), 12))):
        assert stopped[1] == pytest.approx(1e-3)
    # From below, too; and the square has an end.
    back = walk(env, ((towards, 0), 8), ((0, -1), 12), ((-towards, 0), 8), ((0, 1), 12))
    assert back[1] == pytest.approx(-1e-3)
    np.testing.assert_allclose(walk(env, ((1, 1), 40)), (1, 1))


def test_the_maze_starts_close_to_one_place_and_can_be_resumed():
    env = ResumableEnv(gym.make("imitbench/PointMaze-v0"))
    starts = np.array([env.reset(seed=seed)[0] for seed in range(20)])
    assert np.abs(starts - (0, 0.6)).max() <= 0.1 + 1e-6
    assert len(np.unique(starts, axis=0)) == 20
    env.reset(seed=5)
    for _ in range(7):
        env.step(np.array([0.3, -0.4], np.float32))
    state = env.episode_state()
    other = ResumableEnv(gym.make("imitbench/PointMaze-v0"))
    other.restore_episode(state)
    act = np.array([-1.0, 0.2], np.float32)
    np.testing.assert_array_equal(other.step(act)[0], env.step(act)[0])


@pytest.mark.parametrize(
    ("task", "wrong", "told"),
    [
        ("Pendulum", {"mass": 0.0}, "mass must be positive"),
        ("CartPole", {"pole": -1.0}, "pole must be positive"),
        ("MountainCar", {"engine": float("nan")}, "engine must be positive"),
        ("Ant", {"front_force": -0.1}, "front_force must not be negative"),
        ("HalfCheetah", {"legs": float("inf")}, "legs must be positive"),
        ("Hopper", {"friction": 0.0}, "friction must be positive"),
        ("PointMaze", {"opening": "middle"}, "opening must be left or right"),
    ],
)
def test_wrong_arguments_are_refused(task, wrong, told):
    with pytest.raises(ValueError, match=told):
        gym.make(f"imitbench/{task}-v0", **wrong)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mass": -1.0}, "mass=-1.0 (mass must be positive, not -1.0)"),
        ({"masses": 2.0}, "unexpected keyword argument 'masses'"),
    ],
)
def test_kwargs_of_a_card_that_a_task_does_not_take_are_one_line(kwargs, message):
    suite = load_suite("transfer")
    card = suite.environments["imitbench/Pendulum-v0"].model_copy(update={"kwargs": kwargs})
    with pytest.raises(InputError) as caught:
        measure_references(
            "imitbench/Pendulum-v0", card, suite.origin.folder, episodes=1, command="measure"
        )
    assert str(caught.value).startswith("environment imitbench/Pendulum-v0: cannot be used with ")
    assert message in str(caught.value)
    assert str(caught.value).endswith("; correct kwargs on the suite's card")
    assert "\n" not in str(caught.value)
