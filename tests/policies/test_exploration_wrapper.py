"""Exploration: how often, for how long, and with which generator."""

import numpy as np
import pytest
import stable_baselines3.common.vec_env as vec_env
from support.environments import Counter

from imitbench.data import rollout
from imitbench.policies.exploration_wrapper import ExplorationWrapper

WRAPPED = -1  # an action that no random policy takes


@pytest.fixture
def venv():
    return vec_env.DummyVecEnv([lambda: Counter((5,))] * 2)


def constant(obs, state, starts):
    return np.full(len(obs), WRAPPED), state


def actions_of(venv, random_prob, switch_prob, steps=4000, seed=0):
    wrapper = ExplorationWrapper(
        constant, venv, random_prob, switch_prob, np.random.default_rng(seed)
    )
    obs = venv.reset()
    return np.array([wrapper(obs)[0] for _ in range(steps)])


def test_without_randomness_all_actions_are_the_policys(venv):
    assert (actions_of(venv, 0.0, 0.5) == WRAPPED).all()


def test_with_random_prob_one_all_actions_are_random(venv):
    actions = actions_of(venv, 1.0, 0.5)
    assert set(np.unique(actions)) == {0, 1, 2}


def test_the_share_of_random_actions_is_random_prob(venv):
    share = (actions_of(venv, 0.3, 0.5, steps=20_000)[:, 0] != WRAPPED).mean()
    assert share == pytest.approx(0.3, abs=0.02)


def test_a_policy_is_kept_until_the_next_draw(venv):
    random = actions_of(venv, 0.5, 0.1, steps=20_000)[:, 0] != WRAPPED
    # A draw happens after one action in ten, and half of them change the policy.
    assert (random[1:] != random[:-1]).mean() == pytest.approx(0.05, abs=0.01)
    never = actions_of(venv, 0.5, 0.0)[:, 0] != WRAPPED
    assert never.all() or not never.any()


def test_the_same_generator_gives_the_same_actions(venv):
    first, second = (actions_of(venv, 0.5, 0.5, steps=100) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, actions_of(venv, 0.5, 0.5, steps=100, seed=1))


def test_a_restored_wrapper_continues_like_the_original(venv):
    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    one, two = (ExplorationWrapper(constant, venv, 0.5, 0.3, rng) for rng in rngs)
    obs = venv.reset()
    for _ in range(50):
        one(obs)
    two.load_state_dict(one.state_dict())
    rngs[1].bit_generator.state = rngs[0].bit_generator.state
    acted = [[wrapper(obs)[0] for _ in range(100)] for wrapper in (one, two)]
    np.testing.assert_array_equal(*acted)


def remembering(obs, state, starts):
    return np.full(len(obs), WRAPPED), (np.zeros(len(obs)),)


def test_policies_with_a_state_are_refused_unless_asked_for(venv):
    rng = np.random.default_rng(0)
    obs = venv.reset()
    for policy, state in ((remembering, None), (constant, (np.zeros(2),))):
        with pytest.raises(ValueError, match="pass stateful=True"):
            ExplorationWrapper(policy, venv, 0.0, 0.5, rng)(obs, state)
    accepting = ExplorationWrapper(remembering, venv, 0.5, 1.0, rng, stateful=True)
    state = None
    for _ in range(20):
        _, state = accepting(obs, state)
    assert len(state) == 1


def test_the_current_policy_is_visible(venv):
    wrapper = ExplorationWrapper(constant, venv, 0.5, 1.0, np.random.default_rng(0))
    obs, seen = venv.reset(), set()
    for _ in range(50):
        wrapped = wrapper.current_policy is constant
        seen.add(wrapped)
        assert (wrapper(observation=obs)[0] == WRAPPED).all() == wrapped
    assert seen == {True, False}


def test_it_collects_rollouts(venv):
    rng = np.random.default_rng(0)
    wrapper = ExplorationWrapper(None, venv, 0.5, 0.5, rng)
    episodes = rollout.rollout(wrapper, venv, rollout.make_min_episodes(3), rng, unwrap=False)
    assert len(episodes) >= 3


@pytest.mark.parametrize("probabilities", [(-0.1, 0.5), (0.5, 1.1)])
def test_probabilities_out_of_range_are_refused(venv, probabilities):
    with pytest.raises(ValueError, match=r"_prob must lie in \[0, 1\]"):
        ExplorationWrapper(None, venv, *probabilities, np.random.default_rng(0))
