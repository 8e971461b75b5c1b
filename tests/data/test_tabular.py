import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
from seals.diagnostics.cliff_world import CliffWorldEnv
from support.tabular import small_model, state_numbers

from imitbench.data.tabular import ObservationDecoder, TabularModel


class TestModel:
    def test_is_read_through_wrappers(self):
        env = gym.make("seals/CliffWorld7x4XY-v0")
        model = TabularModel.of(env)
        assert (model.horizon, model.states, model.actions) == (9, 28, 4)
        np.testing.assert_array_equal(model.observations, env.unwrapped.observation_matrix)

    def test_has_no_observations_where_states_are_observed(self):
        assert TabularModel.of(state_numbers(small_model(deterministic=True))).observations is None

    @pytest.mark.parametrize("attribute", ["transition_matrix", "initial_state_dist"])
    def test_refuses_probabilities_that_do_not_add_up(self, attribute):
        env = small_model(deterministic=False)
        setattr(env, attribute, getattr(env, attribute) * 1.1)
        with pytest.raises(ValueError, match=f"env: {attribute}: must be probabilities"):
            TabularModel.of(env)

    def test_uses_the_registered_time_limit_as_horizon(self):
        assert TabularModel.of(gym.make("seals/RiskyPath-v0")).horizon == 5

    def test_stays_in_terminal_states_and_is_not_rewarded_there(self):
        env = gym.make("seals/EarlyTermNeg-v0")
        before = env.unwrapped.reward_matrix.copy()
        model = TabularModel.of(env)
        assert model.terminal.tolist() == [False, False, True]
        assert model.rewards.tolist() == [-1, -1, 0]
        assert model.transitions[2].tolist() == [[0, 0, 1], [0, 0, 1]]
        np.testing.assert_array_equal(env.unwrapped.reward_matrix, before)

    def test_refuses_a_start_that_its_distribution_excludes(self):
        with pytest.raises(ValueError, match="starts in state 1, which initial_state_dist gives"):
            TabularModel.of(gym.make("seals/InitShiftTest-v0"))

    def test_restores_the_generator(self):
        first, second = small_model(deterministic=False), small_model(deterministic=False)
        for env in (first, second):
            env.reset(seed=3)
        TabularModel.of(first)
        assert first.np_random.random() == second.np_random.random()

    def test_averages_rewards_over_next_states(self):
        env = small_model(deterministic=False)
        model = TabularModel.of(env)
        rewards = np.random.default_rng(0).normal(size=(3, 2, 3))
        expected = [
            [env.transition_matrix[s, a] @ rewards[s, a] for a in range(2)] for s in range(3)
        ]
        np.testing.assert_allclose(model.rewards_by_action(rewards), expected)
        np.testing.assert_array_equal(
            model.rewards_by_action(model.rewards), np.stack([env.reward_matrix] * 2, axis=1)
        )


class TestDecoder:
    def test_reads_state_numbers(self):
        decode = ObservationDecoder(3, None)
        np.testing.assert_array_equal(decode([2, 0, 1]), [2, 0, 1])
        np.testing.assert_array_equal(decode(np.array([[2.0], [0.0]])), [2, 0])

    def test_reads_one_hot_vectors(self):
        decode = ObservationDecoder(3, np.random.default_rng(0).normal(size=(3, 2)))
        np.testing.assert_array_equal(decode(np.eye(3)[[1, 1, 2]]), [1, 1, 2])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_reads_observations(self, dtype):
        env = CliffWorldEnv(width=40, height=20, horizon=5, use_xy_obs=True)
        states = np.random.default_rng(0).integers(800, size=3000)
        observations = env.observation_matrix[states].astype(dtype)
        decode = ObservationDecoder(800, env.observation_matrix)
        np.testing.assert_array_equal(decode(observations), states)
        np.testing.assert_array_equal(decode(observations[:1]), states[:1])

    def test_reads_observations_of_a_single_number(self):
        decode = ObservationDecoder(3, np.array([[0.5], [0.1], [0.9]]))
        np.testing.assert_array_equal(decode(np.array([[0.9], [0.5]])), [2, 0])

    def test_refuses_observations_of_no_state(self):
        decode = ObservationDecoder(2, np.array([[0.0, 1.0], [0.5, 1.0]]))
        with pytest.raises(
            ValueError, match=r"demos: \[0.25 1.  \] is the observation of no state"
        ):
            decode(np.array([[0.0, 1.0], [0.25, 1.0]]), "demos")

    def test_refuses_observations_that_several_states_share(self):
        decode = ObservationDecoder(3, np.array([[0.0, 1.0], [0.5, 1.0], [0.0, 1.0]]))
        np.testing.assert_array_equal(decode([2]), [2])
        with pytest.raises(ValueError, match="states 0 and 2 have the same observation"):
            decode(np.array([[0.5, 1.0]]))

    @pytest.mark.parametrize("wrong", [[3], [-1], [0.5], [True]])
    def test_refuses_values_that_are_not_states(self, wrong):
        with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
            ObservationDecoder(3, None)(np.array(wrong))

    def test_refuses_other_shapes(self):
        with pytest.raises(ValueError, match=r"shape \(2, 5\) is neither"):
            ObservationDecoder(3, np.eye(3))(np.zeros((2, 5)))
