"""Disturbed environments: what the wrappers do, and that their randomness is that of the seed."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.protocol import Evaluator
from imitbench.cards.wrappers import (
    DelayedActions,
    FlattenObservation,
    ObservationNoise,
    RandomStart,
    StickyActions,
)
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.envs.batch_vec_env import BatchVecEnv
from imitbench.envs.wrappers import WRAPPERS, disturbed
from imitbench.errors import InputError
from imitbench.policies.base import RandomPolicy
from imitbench.records.runs import EnvironmentSpec

NOISE = ObservationNoise(name="observation_noise", std=0.25)
STICKY = StickyActions(name="sticky_actions", probability=0.3)
DELAY = DelayedActions(name="delayed_actions", steps=2)
START = RandomStart(name="random_start", steps=5)
ALL = [START, DELAY, STICKY, NOISE]


class Recorder(gym.Env):
    """Observes its own steps; records the actions that arrive."""

    def __init__(self, action_space=None, observation_space=None, ends_after=None):
        self.action_space = action_space or spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = observation_space or spaces.Box(-1e6, 1e6, (3,), np.float64)
        self.ends_after, self.resets, self.seen = ends_after, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen, self.resets = [], self.resets + 1
        return self.observe(), {}

    def step(self, action):
        self.seen.append(action)
        return self.observe(), 1.0, len(self.seen) == self.ends_after, False, {}

    def observe(self):
        return np.full(3, float(len(self.seen)))


def spec_of(wrappers, env_id="Hopper-v5", **more):
    return EnvironmentSpec(
        id=f"{env_id}+x", variant_of=env_id, horizon="variable", wrappers=wrappers, **more
    )


def test_noise_has_the_stated_deviation_and_changes_only_observations():
    env = disturbed(Recorder(), [NOISE])
    first, _ = env.reset(seed=3)
    noise = [first]
    for step in range(1, 2000):
        obs, reward, *_ = env.step(np.zeros(2, np.float32))
        assert reward == 1
        assert obs.dtype == np.float64
        noise.append(obs - step)
    found = np.array(noise)
    assert abs(found.mean()) < 0.02
    assert 0.24 < found.std() < 0.26
    assert abs(np.corrcoef(found[:-1].ravel(), found[1:].ravel())[0, 1]) < 0.05


def test_noise_stays_within_the_bounds_of_the_space():
    env = disturbed(Recorder(observation_space=spaces.Box(0, 1, (3,))), [NOISE])
    env.reset(seed=0)
    within = env.step(np.zeros(2))[0]
    assert ((within >= 0) & (within <= 1)).all()
    assert (env.step(np.zeros(2))[0] <= 2).all()  # the observation is beyond the bounds itself


def test_sticky_actions_repeat_with_the_stated_probability():
    env = disturbed(inner := Recorder(), [STICKY])
    env.reset(seed=1)
    sent = np.random.default_rng(0).uniform(-1, 1, (4000, 2)).astype(np.float32)
    reused = np.empty(2, np.float32)  # as callers do that fill one array
    for action in sent:
        reused[:] = action
        env.step(reused)
    seen = np.array(inner.seen)
    np.testing.assert_array_equal(seen[0], sent[0])
    repeated = (seen[1:] == seen[:-1]).all(axis=1)
    np.testing.assert_array_equal(seen[1:][~repeated], sent[1:][~repeated])
    assert 0.28 < repeated.mean() < 0.32


@pytest.mark.parametrize(
    ("space", "first"),
    [
        (spaces.Box(-1, 1, (2,), np.float32), [0.0, 0.0]),
        (spaces.Box(0.5, 1, (2,), np.float32), [0.5, 0.5]),
        (spaces.Discrete(3, start=-1), 0),
        (spaces.Discrete(3, start=2), 2),
        (spaces.MultiDiscrete([2, 3]), [0, 0]),
    ],
)
def test_delayed_actions_arrive_late(space, first):
    env = disturbed(inner := Recorder(action_space=space), [DELAY])
    env.reset(seed=1)
    space.seed(0)
    sent = [space.sample() for _ in range(6)]
    for action in sent:
        env.step(action)
    np.testing.assert_array_equal(inner.seen[:2], [first, first])
    np.testing.assert_array_equal(inner.seen[2:], sent[:4])
    assert all(space.contains(action) for action in inner.seen)
    env.reset()
    env.step(sent[5])
    np.testing.assert_array_equal(inner.seen, [first])


def test_episodes_start_after_a_random_number_of_random_actions():
    env = disturbed(inner := Recorder(), [START])
    counts, actions = [], set()
    for seed in range(60):
        obs, _ = env.reset(seed=seed)
        counts.append(len(inner.seen))
        np.testing.assert_array_equal(obs, inner.observe())
        actions |= {action.tobytes() for action in inner.seen}
    assert set(counts) == {0, 1, 2, 3, 4, 5}
    assert len(actions) == sum(counts)


def test_an_episode_that_ends_among_random_actions_begins_anew():
    env = disturbed(inner := Recorder(ends_after=1), [START])
    for seed in range(10):
        inner.resets = 0
        obs, _ = env.reset(seed=seed)
        assert inner.seen == []
        np.testing.assert_array_equal(obs, np.zeros(3))
        assert inner.resets in (1, 2)


def test_random_starts_do_not_count_towards_the_time_limit():
    spec = spec_of([START], "Pendulum-v1", kwargs={"max_episode_steps": 7})
    env = make_environment(spec)
    assert env.spec.max_episode_steps == 7
    for seed in range(5):
        env.reset(seed=seed)
        ends = [env.step(env.action_space.sample())[3] for _ in range(7)]
        assert ends == [False] * 6 + [True]
    assert make_environment(spec_of([START], "Pendulum-v1")).spec.max_episode_steps == 200


@pytest.mark.parametrize("wrapper", ALL, ids=lambda each: each.name)
def test_the_randomness_is_that_of_the_seed(wrapper):
    def episode(seed):
        obs, _ = env.reset(seed=seed)
        actions = np.linspace(-1, 1, 30, dtype=np.float32)
        return np.array([obs, *(env.step(action[None])[0] for action in actions)])

    env = make_environment(spec_of([wrapper], "Pendulum-v1"))
    one, other = episode(4), episode(5)
    np.testing.assert_array_equal(episode(4), one)
    assert not np.array_equal(one[0], other[0])
    env = make_environment(spec_of([wrapper], "Pendulum-v1"))
    np.testing.assert_array_equal(episode(5), other)
    # The task itself starts as it does without the wrapper.
    plain, _ = make_environment(EnvironmentSpec(id="Pendulum-v1")).reset(seed=4)
    if wrapper in (DELAY, STICKY):
        np.testing.assert_array_equal(one[0], plain)
    if wrapper is NOISE:
        np.testing.assert_allclose(one[0], plain, atol=1.5)


def test_simulations_with_wrappers_are_stepped_singly_and_resume():
    spec = spec_of(ALL)
    venv = make_training_environments(spec, 2, 3)
    assert not isinstance(venv, BatchVecEnv)
    assert isinstance(make_training_environments(spec.evaluated, 1, 0), type(venv))
    venv.reset()
    drawn = np.random.default_rng(0).uniform(-1, 1, (60, 2, 3)).astype(np.float32)
    for actions in drawn[:40]:
        venv.step(actions)
    states = episode_states(venv)
    again = make_training_environments(spec, 2, 8)
    again.reset()
    restore_episodes(again, states)
    for actions in drawn[40:]:
        for found, expected in zip(again.step(actions)[:3], venv.step(actions)[:3], strict=True):
            np.testing.assert_array_equal(found, expected)


def test_only_evaluations_of_such_a_variant_are_disturbed():
    spec = spec_of([NOISE], evaluation_only=True)
    assert isinstance(make_training_environments(spec, 1, 0), BatchVecEnv)
    assert spec.evaluated == spec_of([NOISE])
    returns = []
    for each in (EnvironmentSpec(id="Hopper-v5", horizon="variable"), spec.evaluated):
        with Evaluator(each, 3) as evaluator:
            policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
            found = evaluator.evaluate(policy, episodes=4, seed=1, deterministic=False)
            returns.append(found.returns)
    # Random actions do not depend on observations, and noise does not change the simulation.
    np.testing.assert_array_equal(*returns)


def test_an_evaluation_environment_of_its_own_is_disturbed():
    spec = spec_of([NOISE], "Pendulum-v1", evaluation_id="MountainCarContinuous-v0")
    assert make_environment(spec).spec.id == "Pendulum-v1"
    assert spec.evaluated.id == spec.id
    env = make_environment(spec.evaluated)
    assert env.spec.id == "MountainCarContinuous-v0"
    assert type(env.env) is WRAPPERS[ObservationNoise]


@pytest.mark.parametrize(
    ("env_id", "wrapper", "line"),
    [
        ("FrozenLake-v1", NOISE, "observation_noise adds to observations that are boxes"),
        ("Blackjack-v1", NOISE, "not Tuple"),
    ],
)
def test_wrappers_that_do_not_fit_are_refused(env_id, wrapper, line):
    with pytest.raises(InputError, match=rf"environment {env_id}\+x: .*{line}"):
        make_environment(spec_of([wrapper], env_id))


def sensors(**entries):
    return Recorder(observation_space=spaces.Dict(entries))


def test_flattened_observations_are_sorted_by_key():
    box = spaces.Box(-1, 1, (2,), np.float64)
    env = sensors(b=box, a=box, c=box)
    env.observe = lambda: {"b": np.array([3.0, 4.0]), "a": np.array([1.0, 2.0]), "c": np.zeros(2)}
    flat = disturbed(env, [FlattenObservation(name="flatten_observation")])
    np.testing.assert_array_equal(flat.reset(seed=0)[0], [1, 2, 3, 4, 0, 0])
    kept = FlattenObservation(name="flatten_observation", entries=["c", "b"])
    flat = disturbed(env, [kept, NOISE])
    assert flat.observation_space.shape == (4,)
    assert flat.reset(seed=0)[0][:2] == pytest.approx([3, 4], abs=2)


@pytest.mark.parametrize(
    ("env", "entries", "message"),
    [
        (Recorder(), None, r"flatten_observation flattens observations that are dictionaries"),
        (sensors(a=spaces.Discrete(2)), None, r"dictionaries of boxes, not Dict"),
        (sensors(a=spaces.Box(0, 1)), ["b"], r"entries: observations have no b, but a"),
    ],
)
def test_what_cannot_be_flattened_is_named(env, entries, message):
    with pytest.raises(ValueError, match=message):
        disturbed(env, [FlattenObservation(name="flatten_observation", entries=entries)])


def test_flattening_stays_where_disturbances_are_for_evaluations_only():
    flatten = FlattenObservation(name="flatten_observation")
    spec = spec_of([flatten, NOISE], evaluation_only=True)
    assert spec.active_wrappers == [flatten]
    assert spec.evaluated.active_wrappers == [flatten, NOISE]
