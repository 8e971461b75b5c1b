"""Distances between rewards: values by hand, what they ignore, and estimates from samples."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.rewards.distances import (
    Steps,
    canonical_tabular,
    dard,
    dard_tabular,
    epic,
    epic_tabular,
    pearson_distance,
    spearman_distance,
)
from imitbench.rewards.reward_nets import BasicRewardNet

S, A = 5, 3
GAMMA = 0.9


def drawn(seed):
    """A reward, a potential, and transitions."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(S), size=(S, A))
    return rng.normal(size=(S, A, S)), rng.normal(size=S) * 10, transitions


def shaped(reward, potential):
    return reward + GAMMA * potential[None, None, :] - potential[:, None, None]


def test_pearson_by_hand():
    # Correlation of (0, 1, 2) and (0, 1, 1): 1 / sqrt(2 * 2 / 3) = sqrt(3) / 2.
    expected = np.sqrt((1 - np.sqrt(3) / 2) / 2)
    assert pearson_distance([0, 1, 2], [0, 1, 1]) == pytest.approx(expected)
    assert pearson_distance([0, 1, 2], [5, 7, 9]) == pytest.approx(0, abs=1e-12)
    assert pearson_distance([0, 1, 2], [0, -1, -2]) == pytest.approx(1)
    # What has no weight does not count.
    assert pearson_distance([0, 1, 2, 9], [0, 1, 1, -9], [2, 2, 2, 0]) == pytest.approx(expected)


def test_spearman_sees_only_the_order():
    assert spearman_distance([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(0, abs=1e-12)
    assert spearman_distance([1, 2, 3], [3, 2, 1]) == pytest.approx(1)
    # Ranks (1, 2, 3) and (1, 2.5, 2.5): correlation sqrt(3) / 2.
    assert spearman_distance([1, 2, 3], [1, 4, 4]) == pytest.approx(
        np.sqrt((1 - np.sqrt(3) / 2) / 2)
    )


def test_canonical_form_by_hand():
    # Two states, one action: R(0, 1) = 1 and R(1, 0) = 3, else 0.
    reward = np.array([[[0.0, 1.0]], [[3.0, 0.0]]])
    # Means 0.5 in state 0 and 1.5 in state 1, 1 over both; discount 0.5.
    expected = [[[0 + 0.25 - 0.5 - 0.5, 1 + 0.75 - 0.5 - 0.5]], [[3 + 0.25 - 1.5 - 0.5, 0.75 - 2]]]
    np.testing.assert_allclose(canonical_tabular(reward, 0.5), expected)


def test_dard_by_hand():
    # Two states; action 0 stays and action 1 moves. The reward is 1 for moving from 0 to 1.
    transitions = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], float)
    reward = np.zeros((2, 2, 2))
    reward[0, 1, 1] = 1
    # Mean rewards are 1/2 in state 0 and 0 in state 1. From (0, 0) both steps are the same: staying
    # twice or moving twice, so R(S', A, S'') is R(0, 0, 0) or R(1, 1, 1) = 0; from (0, 1), it is
    # R(0, 0, 1) = 0 or R(1, 1, 0) = 0; from (1, 0), R(1, 0, 0) = 0 or R(0, 1, 1) = 1.
    form = {(0, 0, 0): 0.25 - 0.5, (0, 1, 1): 1 - 0.5, (1, 0, 1): 0.0, (1, 1, 0): 0.25 - 0.25}
    other = np.zeros((2, 2, 2))
    other[1, 1, 0] = 1
    theirs = {(0, 0, 0): 0.0, (0, 1, 1): 0.25 - 0.25, (1, 0, 1): 0.25 - 0.5, (1, 1, 0): 1 - 0.5}
    expected = pearson_distance(list(form.values()), [theirs[key] for key in form])
    assert dard_tabular(reward, other, 0.5, transitions) == pytest.approx(expected)


SCALES = st.floats(0.01, 100)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=SCALES)
def test_shaping_and_positive_scale_do_not_matter(seed, scale):
    reward, potential, transitions = drawn(seed)
    other = scale * shaped(reward, potential)
    for distance in (
        lambda *pair: epic_tabular(*pair, GAMMA),
        lambda *pair: dard_tabular(*pair, GAMMA, transitions),
    ):
        assert distance(reward, other) == pytest.approx(0, abs=1e-6)
        assert distance(reward, -other) == pytest.approx(1, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_they_are_pseudometrics(seed):
    one, two, three = (drawn(seed + number)[0] for number in range(3))
    transitions = drawn(seed)[2]
    for distance in (
        lambda *pair: epic_tabular(*pair, GAMMA),
        lambda *pair: dard_tabular(*pair, GAMMA, transitions),
    ):
        assert distance(one, one) == pytest.approx(0, abs=1e-9)
        assert distance(one, two) == pytest.approx(distance(two, one))
        assert 0 < distance(one, two) < 1
        assert distance(one, three) <= distance(one, two) + distance(two, three) + 1e-9


def test_rewards_of_states_are_those_of_all_their_transitions():
    state, action = np.arange(3.0) ** 2, np.eye(3)[:, :2]
    whole = np.broadcast_to(state[:, None, None], (3, 2, 3))
    wide = np.broadcast_to(action[:, :, None], (3, 2, 3))
    expected = epic_tabular(whole, wide, GAMMA)
    assert epic_tabular(state, action, GAMMA) == pytest.approx(expected)
    transitions = np.full((3, 2, 3), 1 / 3)
    assert dard_tabular(state, action, GAMMA, transitions) == pytest.approx(
        dard_tabular(whole, wide, GAMMA, transitions)
    )


def steps_of(rng, count, transitions=None):
    obs, acts = rng.integers(S, size=count), rng.integers(A, size=count)
    if transitions is None:
        next_obs = rng.integers(S, size=count)
    else:
        next_obs = np.array([rng.choice(S, p=row) for row in transitions[obs, acts]])
    return Steps(obs, acts, next_obs, np.zeros(count, bool))


def of_table(table):
    return lambda obs, acts, next_obs, _: table[obs, acts, next_obs]


def test_epic_from_samples_approaches_the_exact_one():
    reward, potential, _ = drawn(1)
    other = reward + drawn(2)[0]
    exact = epic_tabular(reward, other, GAMMA)
    rng = np.random.default_rng(0)
    found = epic(
        of_table(reward),
        of_table(shaped(other, potential)),
        steps_of(rng, 2000),
        discount=GAMMA,
        # All pairs, so that the canonical form is exact and only the coverage is drawn.
        states=np.repeat(np.arange(S), A),
        actions=np.tile(np.arange(A), S),
    )
    assert 0.2 < exact < 0.6
    assert found == pytest.approx(exact, abs=0.02)


def test_dard_from_samples_approaches_the_exact_one():
    reward, potential, _ = drawn(1)
    other = reward + drawn(2)[0]
    transitions = np.eye(S)[np.random.default_rng(3).integers(S, size=(S, A))]
    exact = dard_tabular(reward, other, GAMMA, transitions)
    rng = np.random.default_rng(0)
    found = dard(
        of_table(reward),
        of_table(shaped(other, potential)),
        steps_of(rng, 2000, transitions),
        lambda obs, acts: transitions[obs, acts].argmax(axis=-1),
        actions=np.arange(A),
        discount=GAMMA,
    )
    assert 0.1 < exact < 0.9
    assert found == pytest.approx(exact, abs=0.03)


def test_a_random_network_lies_between(monkeypatch):
    monkeypatch.setattr("imitbench.rewards.distances._AT_ONCE", 100)
    th.manual_seed(0)
    space = spaces.Box(-1, 1, (3,), np.float32)
    net = BasicRewardNet(space, space)
    rng = np.random.default_rng(0)
    obs, acts, next_obs = rng.uniform(-1, 1, (3, 64, 3)).astype(np.float32)
    steps = Steps(obs, acts, next_obs, np.zeros(64, bool))

    def true(obs, acts, next_obs, dones):
        return obs[:, 0] + acts.sum(axis=1)

    def bent(obs, acts, next_obs, dones):
        return 3 * (true(obs, acts, next_obs, dones) + GAMMA * next_obs[:, 2] - obs[:, 2])

    assert 0.1 < epic(net.predict, true, steps, discount=GAMMA) < 0.95
    assert epic(bent, true, steps, discount=GAMMA) == pytest.approx(0, abs=1e-6)
    assert epic(lambda *step: -bent(*step), true, steps, discount=GAMMA) == pytest.approx(1)


@pytest.mark.parametrize(
    ("distance", "told"),
    [
        (lambda: pearson_distance([1, 1, 1], [1, 2, 3]), "is constant"),
        (lambda: pearson_distance([1, 2], [1, 2, 3]), "shapes must be equal"),
        (lambda: pearson_distance([1, np.nan, 3], [1, 2, 3]), "must be finite"),
        (lambda: spearman_distance([1, np.inf, 3], [1, 2, 3]), "must be finite"),
        (lambda: epic_tabular(np.zeros((S, A, S)), drawn(0)[0], GAMMA), "is constant"),
        # Only shaping is left of a reward that is nothing else.
        (
            lambda: epic_tabular(shaped(np.zeros((S, A, S)), drawn(0)[1]), drawn(1)[0], GAMMA),
            "without its shaping",
        ),
        (lambda: epic_tabular(drawn(0)[0], drawn(1)[0], GAMMA, states=np.ones(S)), "distribution"),
        (lambda: canonical_tabular(np.zeros((2, 2, 2, 2)), GAMMA), "1 to 3 axes"),
        (lambda: dard_tabular(np.zeros(4), np.zeros(4), GAMMA, drawn(0)[2]), "transitions have"),
        (
            lambda: epic(
                of_table(drawn(0)[0]),
                of_table(drawn(1)[0]),
                steps_of(np.random.default_rng(0), 10),
                discount=GAMMA,
                states=np.arange(3),
            ),
            "equally many",
        ),
    ],
)
def test_what_has_no_distance_is_refused(distance, told):
    with pytest.raises(ValueError, match=told):
        distance()
