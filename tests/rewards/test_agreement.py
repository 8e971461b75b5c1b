"""Agreement of two rewards: known answers, intervals over whole episodes, and distances."""

import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from scipy.stats import spearmanr
from support.tabular import small_model, state_numbers

from imitbench.data.tabular import TabularModel
from imitbench.envs.equations import equations_of
from imitbench.rewards.agreement import (
    ALL,
    agreement,
    correlation,
    distances,
    pair_accuracy,
    tabular_distances,
    undefined_measures,
)
from imitbench.rewards.distances import Steps, dard_tabular, epic_tabular
from imitbench.rewards.reward_nets import BasicRewardNet

GAMMA = 0.99


def parts(count=12, steps=30, seed=0):
    """Learned and true rewards that agree in part."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(count, steps)) + rng.normal(size=(count, 1))
    learned = true + rng.normal(size=(count, steps))
    return list(zip(learned, true, strict=True))


def by_measure(found):
    return {(each.measure, each.behavior): each for each in found}


def test_a_scaled_true_reward_agrees_everywhere():
    same = [(3 * true + 1, true) for _, true in parts()]
    found = by_measure(agreement({"expert": same[:6], "random": same[6:]}, 5, seed=0))
    assert {behavior for _, behavior in found} == {"expert", "random", ALL}
    assert len(found) == 15
    for each in found.values():
        assert (each.value, each.low, each.high) == pytest.approx((1, 1, 1))


def test_the_negative_disagrees_everywhere():
    found = agreement({"expert": [(-true, true) for _, true in parts()]}, 5, seed=0)
    for each in found:
        assert each.value == pytest.approx(0 if each.measure == "pair_accuracy" else -1)


def test_what_is_constant_is_left_out():
    found = agreement({"expert": [(learned, 0 * true) for learned, true in parts()]}, 5, seed=0)
    assert found == []
    found = agreement({"expert": [(0 * learned, true) for learned, true in parts()]}, 5, seed=0)
    assert {each.measure: each.value for each in found} == {"pair_accuracy": 0.5}


def test_what_is_left_out_has_a_reason():
    """Episodes of other lengths have other returns by a constant reward; fragments do not."""
    given = {"expert": [(learned[:n], 1 + 0 * true[:n]) for n, (learned, true) in
                        enumerate(parts(), start=10)]}  # fmt: skip
    found = agreement(given, 5, seed=0)
    assert {each.measure for each in found} == {"pearson_return", "spearman_return"}
    why = "the true reward is the same in every step"
    left_out = ("pearson_step", "spearman_step", "pair_accuracy")
    assert undefined_measures(given, found) == dict.fromkeys(left_out, why)
    periodic = {"expert": [(learned, np.tile([0.0, 1.0], 15)) for learned, _ in parts()]}
    found = agreement(periodic, 2, seed=0)
    assert undefined_measures(periodic, found) == {
        "pearson_return": "returns of whole episodes do not differ",
        "spearman_return": "returns of whole episodes do not differ",
        "pair_accuracy": "true returns of fragments do not differ",
    }


def test_correlations_of_returns_need_three_episodes():
    found = agreement({"expert": parts(2)}, 5, seed=0)
    assert {each.measure for each in found} == {"pearson_step", "spearman_step", "pair_accuracy"}


def test_intervals_are_those_of_whole_episodes():
    """Steps that are repeated within an episode tell nothing new."""
    given = parts()
    repeated = [tuple(np.repeat(side, 20) for side in part) for part in given]
    assert correlation(repeated, ranks=False) == pytest.approx(correlation(given, ranks=False))
    value, low, high = correlation(given, ranks=False)
    assert low < value < high
    assert value == pytest.approx(np.corrcoef(*(np.concatenate(s) for s in zip(*given)))[0, 1])  # noqa: B905


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_interval_is_that_of_correlations_over_drawn_episodes(offset):
    given = [(learned + offset, true) for learned, true in parts(6)]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(500):
        drawn = [given[at] for at in rng.integers(6, size=6)]
        sides = [np.concatenate([part[side] for part in drawn]) for side in (0, 1)]
        found.append(np.corrcoef(*sides)[0, 1])
    expected = np.quantile(found, (0.025, 0.975))
    assert correlation(given, ranks=False)[1:] == pytest.approx(expected, abs=1e-8)


def test_no_rounding_makes_a_correlation_larger_than_1():
    for seed in range(50):
        true = np.random.default_rng(seed).normal(size=8)
        given = [(np.float32([3 * one - 20]), np.array([one])) for one in true]
        assert 0.999 < correlation(given, ranks=False)[0] <= 1
    two_values = [(np.float32([-21.64624]), np.float32([-18.0]))]
    two_values += 7 * [(np.float32([-20.442268]), np.float32([-9.0]))]
    assert correlation(two_values, ranks=False) == (1, 1, 1)


def test_sparse_rewards_are_constant_in_some_of_the_drawn_episodes():
    given = [(np.arange(5.0), np.full(5, 0.1)) for _ in range(4)]
    given.append((np.arange(5.0), np.array([0.1, 0.1, 0.1, 0.1, 7.1])))
    value, low, high = correlation(given, ranks=False)
    assert 0 < low <= value <= high


def test_spearman_is_that_of_scipy():
    given = parts()
    learned, true = (np.concatenate([part[side] for part in given]) for side in (0, 1))
    expected = spearmanr(learned, true).statistic
    assert correlation(given, ranks=True)[0] == pytest.approx(expected)


def test_pair_accuracy_is_the_share_of_all_pairs():
    given = parts(6, 8)
    length = 3
    learned, true = (
        np.array([part[side][at : at + length].sum() for part in given for at in range(6)])
        for side in (0, 1)
    )
    same = [
        (learned[one] > learned[other]) == (true[one] > true[other])
        for one, other in itertools.combinations(range(len(true)), 2)
    ]
    value, low, high = pair_accuracy(given, length, seed=0)
    assert value == pytest.approx(np.mean(same), abs=0.04)  # of 1,000 drawn pairs
    assert low < value < high
    assert pair_accuracy(given, 9, seed=0) is None  # every episode is shorter


@pytest.fixture(scope="module")
def pendulum():
    """Transitions of 20 episodes with random actions, and the task's equations."""
    env = gym.make("Pendulum-v1")
    env.action_space.seed(0)
    obs, acts, next_obs = [], [], []
    for seed in range(20):
        seen, _ = env.reset(seed=seed)
        for _ in range(40):
            act = env.action_space.sample()
            obs.append(seen)
            acts.append(act)
            seen, *_ = env.step(act)
            next_obs.append(seen)
    steps = Steps(np.array(obs), np.array(acts), np.array(next_obs), np.zeros(800, bool))
    return env, steps, np.repeat(np.arange(20), 40), equations_of(env)


def of(reward_fn, pendulum):
    _, steps, episode, equations = pendulum
    found, without = distances(
        reward_fn, equations.reward_fn, equations.move, steps, episode,
        discount=GAMMA, samples=128, seed=0,
    )  # fmt: skip
    assert without.keys() == {"epic", "dard"} - {each.measure for each in found}
    return {each.measure: each for each in found} | without


def potential(obs):
    return 5 * obs[:, 0] + np.abs(obs[:, 2])


def test_distances_ignore_shaping_and_scale_and_see_the_sign(pendulum):
    truth = pendulum[3].reward_fn

    def shaped(obs, acts, next_obs, dones):
        shaping = GAMMA * potential(next_obs) - potential(obs)
        return 2 * truth(obs, acts, next_obs, dones) + shaping + 7

    found = of(shaped, pendulum)
    assert found["epic"].value == pytest.approx(0, abs=1e-6)
    assert found["dard"].value == pytest.approx(0, abs=1e-6)
    found = of(lambda *step: -truth(*step), pendulum)
    assert found["epic"].value == pytest.approx(1)
    assert found["dard"].value == pytest.approx(1)


def test_the_distance_of_a_random_network_is_between(pendulum):
    env = pendulum[0]
    th.manual_seed(0)
    net = BasicRewardNet(env.observation_space, env.action_space)
    found = of(net.predict, pendulum)
    for measure in ("epic", "dard"):
        assert 0.1 < found[measure].low < found[measure].value < found[measure].high < 1


def test_a_reward_that_is_only_shaping_has_no_distance(pendulum):
    why = "the learned reward is constant in the compared steps, or becomes so without its shaping"
    found = of(lambda *step: GAMMA * potential(step[2]) - potential(step[0]), pendulum)
    assert found == {"epic": why, "dard": why}


def test_the_true_reward_can_be_the_one_without_a_distance(pendulum):
    _, steps, episode, equations = pendulum

    def gone(obs, acts, next_obs, dones):
        return np.zeros(len(obs))

    def wrong(obs, acts, next_obs, dones):
        return np.where(dones, 0.0, np.inf)  # only steps between other states are not finite

    def of_true(reward_fn, truth):
        return distances(
            reward_fn, truth, equations.move, replace(steps, dones=np.ones(len(steps), bool)),
            episode, discount=GAMMA, samples=64, seed=0,
        )  # fmt: skip

    found, without = of_true(equations.reward_fn, gone)
    assert found == []
    assert {each.partition(" is ")[0] for each in without.values()} == {"the true reward"}
    found, without = of_true(wrong, equations.reward_fn)
    assert found == []
    assert {each.partition(" for ")[0] for each in without.values()} == {
        "the learned reward is not finite"
    }


def test_a_true_reward_that_few_episodes_reach_has_a_distance(pendulum):
    """It is constant in every drawn set of episodes without these."""
    _, steps, episode, equations = pendulum
    fastest = steps.obs[episode == 3, 2].max()

    def goal(obs, acts, next_obs, dones):
        return (obs[:, 2] == fastest).astype(float)

    def near(obs, acts, next_obs, dones):
        return goal(obs, acts, next_obs, dones) + 0.1 * obs[:, 0]

    found, _ = distances(
        near, goal, equations.move, steps, episode, discount=GAMMA, samples=len(steps), seed=0
    )
    assert [each.measure for each in found] == ["epic", "dard"]
    for each in found:
        assert 0 < each.low <= each.value <= each.high < 1


@pytest.mark.parametrize("make_env", [small_model, lambda **of: state_numbers(small_model(**of))])
def test_distances_of_tables_are_exact(make_env):
    model = TabularModel.of(make_env(deterministic=False))
    rewards, number = model.rewards, {}
    for state in range(model.states):
        seen = state if model.observations is None else tuple(model.observations[state])
        number[seen] = state

    def states(obs):
        return np.array([number[tuple(each) if each.ndim else int(each)] for each in obs])

    def shaped(obs, acts, next_obs, dones):
        potential = np.array([3.0, -2.0, 0.5])
        before, after = states(obs), states(next_obs)
        return 4 * rewards[before] + GAMMA * potential[after] - potential[before]

    def other(obs, acts, next_obs, dones):
        return rewards[states(obs)] + acts

    def found(reward):
        return by_measure(tabular_distances(reward, model, GAMMA)[0])

    for measure, estimate in found(shaped).items():
        assert estimate.value == pytest.approx(0, abs=1e-6), measure
    table = rewards[:, None] + np.arange(model.actions)
    same = found(other)
    assert same["epic", ALL].value == pytest.approx(epic_tabular(table, rewards, GAMMA))
    exact = dard_tabular(table, rewards, GAMMA, model.transitions)
    assert same["dard", ALL].value == pytest.approx(exact)
    assert same["epic", ALL].low == same["epic", ALL].high == same["epic", ALL].value > 0.1
    found, without = tabular_distances(lambda obs, *_: np.ones(len(obs)), model, GAMMA)
    assert found == []
    assert {each.partition(" is ")[0] for each in without.values()} == {"the learned reward"}
