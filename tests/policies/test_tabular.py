"""Tabular policies: their actions, their count of steps, and invalid arguments."""

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
import torch as th
from gymnasium import spaces
from seals.base_envs import ExposePOMDPStateWrapper
from seals.diagnostics.cliff_world import CliffWorldEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from support.tabular import small_model, state_numbers

from imitbench.data import rollout
from imitbench.policies.tabular import ObservationTabularPolicy, TabularPolicy

STATES, ACTIONS = spaces.Discrete(3), spaces.Discrete(2)


def random_table(horizon=4, states=3, actions=2, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(actions), size=(horizon, states))


def make(pi=None, seed=0):
    pi = random_table() if pi is None else pi
    return TabularPolicy(STATES, ACTIONS, pi, np.random.default_rng(seed))


class TestActing:
    def test_samples_from_the_table_of_its_step(self):
        pi = random_table()
        policy = make(pi)
        states = np.repeat([0, 1, 2], 20_000)
        memory = None
        for step in range(4):
            actions, memory = policy.predict(states, memory)
            shares = [np.mean(actions[states == s]) for s in range(3)]
            np.testing.assert_allclose(shares, pi[step, :, 1], atol=0.02)
            np.testing.assert_array_equal(memory[0], step + 1)

    def test_never_chooses_actions_of_probability_zero(self):
        pi = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (1, 1, 1))
        policy = TabularPolicy(spaces.Discrete(1), spaces.Discrete(5), pi, None)
        th.manual_seed(0)
        assert set(policy.predict(np.zeros(2000, int))[0].tolist()) == {1, 3}

    def test_takes_the_most_likely_action_if_deterministic(self):
        pi = random_table()
        actions, _ = make(pi).predict(
            np.array([0, 1, 2]), (np.array([1, 0, 3]),), deterministic=True
        )
        np.testing.assert_array_equal(actions, pi[[1, 0, 3], [0, 1, 2]].argmax(axis=1))

    def test_restarts_with_each_episode(self):
        pi = np.zeros((2, 3, 2))
        pi[0, :, 0] = pi[1, :, 1] = 1
        policy = make(pi)
        memory = (np.array([1, 1]),)
        actions, after = policy.predict(np.zeros(2, int), memory, np.array([True, False]))
        np.testing.assert_array_equal(actions, [0, 1])
        np.testing.assert_array_equal(after[0], [1, 2])
        np.testing.assert_array_equal(memory[0], [1, 1])

    def test_depends_only_on_its_generator(self):
        states = np.zeros(100, dtype=int)
        np.testing.assert_array_equal(
            make(seed=3).predict(states)[0], make(seed=3).predict(states)[0]
        )
        assert (make(seed=3).predict(states)[0] != make(seed=4).predict(states)[0]).any()

    def test_without_a_generator_depends_on_torchs(self):
        policy = TabularPolicy(STATES, ACTIONS, random_table(), None)
        draws = []
        for _ in range(2):
            th.manual_seed(5)
            draws.append(policy.predict(np.zeros(100, int))[0])
        np.testing.assert_array_equal(*draws)

    def test_rolls_out_states(self):
        venv = DummyVecEnv([lambda: ExposePOMDPStateWrapper(small_model(deterministic=False))] * 2)
        pi = np.zeros((4, 3, 2))
        pi[::2, :, 0] = pi[1::2, :, 1] = 1
        episodes = rollout.generate_trajectories(
            make(pi), venv, rollout.make_min_episodes(5), np.random.default_rng(0)
        )
        for episode in episodes:
            np.testing.assert_array_equal(episode.acts, [0, 1, 0, 1])

    def test_cannot_be_trained(self):
        with pytest.raises(NotImplementedError, match="cannot be trained"):
            make()(th.zeros(1))


class TestBadInput:
    @pytest.mark.parametrize(
        ("pi", "message"),
        [
            (np.full((3, 2), 0.5), r"pi: has shape \(3, 2\); it needs \(horizon, 3, 2\)"),
            (np.full((4, 2, 2), 0.5), r"pi: has shape \(4, 2, 2\)"),
            (np.full((4, 3, 2), 0.6), "pi: must contain probabilities"),
            (np.tile([1.5, -0.5], (4, 3, 1)), "pi: must contain probabilities"),
        ],
    )
    def test_tables_that_do_not_fit_are_refused(self, pi, message):
        with pytest.raises(ValueError, match=message):
            make(pi)
        with pytest.raises(ValueError, match=message):
            make().set_pi(pi)

    @pytest.mark.parametrize("which", ["state_space", "action_space"])
    def test_spaces_that_are_not_discrete_are_refused(self, which):
        given = {"state_space": STATES, "action_space": ACTIONS, which: spaces.Box(0, 1, (2,))}
        with pytest.raises(ValueError, match=f"{which}: must be Discrete"):
            TabularPolicy(**given, pi=random_table(), rng=None)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((np.array([3]),), "observation: contains values that are not states"),
            (({"a": np.array([0])},), "a table needs states, not a dictionary"),
            ((np.array([0]), (np.array([4]),)), "an episode is at step 4, but the table has 4"),
            ((np.array([0]), (np.array([1, 2]),)), r"state: has shapes \[\(2,\)\]"),
        ],
    )
    def test_observations_and_states_that_do_not_fit_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make().predict(*arguments)


class TestObservations:
    @pytest.mark.parametrize("env_id", ["seals/CliffWorld7x4-v0", "seals/CliffWorld7x4XY-v0"])
    def test_give_the_actions_of_their_states(self, env_id):
        env = gym.make(env_id)
        pi = random_table(9, 28, 4)
        by_state = TabularPolicy(env.unwrapped.state_space, env.action_space, pi)
        policy = ObservationTabularPolicy.of(env, pi)
        assert policy.observation_space == env.observation_space
        states = np.random.default_rng(0).integers(28, size=200)
        memory = (np.random.default_rng(1).integers(9, size=200),)
        chosen = []
        for each, seen in (
            (by_state, states),
            (policy, env.unwrapped.observation_matrix[states]),
        ):
            th.manual_seed(0)
            chosen.append(each.predict(seen, memory)[0])
        np.testing.assert_array_equal(*chosen)

    def test_may_be_states(self):
        env = state_numbers(small_model(deterministic=False))
        policy = ObservationTabularPolicy.of(env, random_table())
        actions, _ = policy.predict(np.array([2, 0]), deterministic=True)
        np.testing.assert_array_equal(actions, random_table()[0, [2, 0]].argmax(axis=1))

    def test_are_restored_from_a_state_dict(self):
        env = CliffWorldEnv(width=4, height=3, horizon=6, use_xy_obs=True)
        policy = ObservationTabularPolicy.of(env, random_table(6, 12, 4))
        other = ObservationTabularPolicy(env.observation_space, env.action_space, 6, 12)
        np.testing.assert_allclose(other.pi, 0.25)
        other.load_state_dict(policy.state_dict())
        np.testing.assert_array_equal(other.pi, policy.pi)
        actions = [
            each.predict(env.observation_matrix, deterministic=True)[0] for each in (policy, other)
        ]
        np.testing.assert_array_equal(*actions)

    def test_keep_a_replaced_table_in_the_state_dict(self):
        env = small_model(deterministic=True)
        policy = ObservationTabularPolicy.of(env, random_table())
        policy.set_pi(random_table(seed=1))
        np.testing.assert_array_equal(policy.state_dict()["table"], random_table(seed=1))
        with pytest.raises(ValueError, match=r"pi: has shape \(5, 3, 2\)"):
            policy.set_pi(random_table(5))

    def test_of_unknown_states_are_refused(self):
        env = small_model(deterministic=True)
        policy = ObservationTabularPolicy.of(env, random_table())
        with pytest.raises(ValueError, match=r"observation: .* is the observation of no state"):
            policy.predict(np.zeros((1, 2), np.float32))
