"""Tabular environments that are small enough to list all trajectories."""

import itertools

import numpy as np
from seals.base_envs import TabularModelMDP, TabularModelPOMDP


def small_model(*, deterministic, horizon=4, states=3, actions=2, seed=0):
    """Returns an environment with random rewards and starts, and observations of two numbers."""
    rng = np.random.default_rng(seed)
    if deterministic:
        transitions = np.zeros((states, actions, states))
        following = rng.integers(states, size=(states, actions))
        np.put_along_axis(transitions, following[..., None], 1.0, axis=2)
    else:
        transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    return TabularModelPOMDP(
        transition_matrix=transitions,
        observation_matrix=rng.normal(size=(states, 2)).astype(np.float32),
        reward_matrix=rng.normal(size=states),
        horizon=horizon,
        initial_state_dist=rng.dirichlet(np.ones(states)),
    )


def state_numbers(env):
    """Returns the same environment with states as observations."""
    return TabularModelMDP(
        transition_matrix=env.transition_matrix,
        reward_matrix=env.reward_matrix,
        horizon=env.horizon,
        initial_state_dist=env.initial_state_dist,
    )


def every_trajectory(env):
    """Returns all (states, actions) of an episode, without the state after the last action."""
    for states in itertools.product(range(env.state_dim), repeat=env.horizon):
        for actions in itertools.product(range(env.action_dim), repeat=env.horizon):
            yield np.array(states), np.array(actions)


def chance(env, states, actions):
    """Returns the probability of the environment's part of a trajectory."""
    moves = env.transition_matrix[states[:-1], actions[:-1], states[1:]]
    return env.initial_state_dist[states[0]] * moves.prod()
