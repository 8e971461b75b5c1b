"""Steps of many fragments as one batch: order, sums, selection, and what is refused."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import fragment, pairs_of

from imitbench.algorithms.preference_comparisons import fragment_batch
from imitbench.algorithms.preference_comparisons.fragment_batch import (
    FragmentPairs,
    stack_fragments,
)
from imitbench.data.rollout import flatten_trajectories_with_rew
from imitbench.data.types import DictObs, Trajectory

FIELDS = ("obs", "acts", "next_obs", "dones", "rews")
LENGTHS = {"equal": [4, 4, 4], "ragged": [4, 7, 2]}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def equal(one, other):
    return all(
        np.array_equal(getattr(one.steps, name), getattr(other.steps, name))
        for name in (*FIELDS, "lengths")
    )


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_all_first_fragments_come_before_all_second_ones(rng, lengths):
    pairs = pairs_of(rng, lengths)
    batch = stack_fragments(pairs)
    flat = flatten_trajectories_with_rew([p[0] for p in pairs] + [p[1] for p in pairs])
    for name in FIELDS:
        assert np.array_equal(getattr(batch.steps, name), getattr(flat, name)), name
    assert batch.lengths.tolist() == [*lengths, *lengths]
    assert batch.n_pairs == 3
    assert batch.joined.common_length == (4 if lengths == [4, 4, 4] else None)


def test_only_the_last_step_of_a_terminal_fragment_is_done(rng):
    batch = stack_fragments([(fragment(rng, 2, terminal=True), fragment(rng, 2))])
    assert batch.steps.dones.tolist() == [False, True, False, False]


def test_one_fragment_without_rewards_means_no_rewards(rng):
    with_rewards, without = fragment(rng), fragment(rng, rewards=False)
    assert stack_fragments([(with_rewards, with_rewards)]).steps.rews is not None
    assert stack_fragments([(with_rewards, without)]).steps.rews is None


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("discount", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_returns_are_discounted_sums_of_each_fragment(rng, lengths, discount, members):
    batch = stack_fragments(pairs_of(rng, lengths))
    steps = len(batch.steps.dones)
    rewards = rng.normal(size=(steps,) if members is None else (steps, members))
    returns = batch.returns(th.from_numpy(rewards), discount)
    parts = np.split(rewards, np.cumsum(batch.lengths)[:-1])
    expected = [sum(discount**t * reward for t, reward in enumerate(part)) for part in parts]
    assert np.allclose(returns, expected, rtol=1e-12)
    assert returns.shape == (6,) if members is None else (6, members)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_gradients_pass_through_returns(rng, lengths):
    batch = stack_fragments(pairs_of(rng, lengths))
    rewards = th.zeros(len(batch.steps.dones), dtype=th.float64, requires_grad=True)
    batch.returns(rewards, 0.5)[1].backward()
    start, length = lengths[0], lengths[1]
    expected = np.zeros(len(batch.steps.dones))
    expected[start : start + length] = 0.5 ** np.arange(length)
    assert np.array_equal(rewards.grad, expected)


def test_returns_need_one_reward_per_step(rng):
    with pytest.raises(ValueError, match="length 9, but there are 10 steps"):
        stack_fragments([(fragment(rng), fragment(rng))]).returns(th.zeros(9))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("chosen", [[0], [2, 0], [1, 1, 2, 0]])
def test_selected_pairs_equal_pairs_joined_alone(rng, lengths, chosen):
    pairs = pairs_of(rng, lengths)
    expected = stack_fragments([pairs[index] for index in chosen])
    taken = stack_fragments(pairs).take(np.array(chosen))
    assert equal(taken, expected)
    assert taken.n_pairs == len(chosen)
    assert equal(taken.take(np.array([0, 0])), expected.take(np.array([0, 0])))


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_true_returns_are_those_of_the_environments_rewards(rng, lengths, discount):
    pairs = pairs_of(rng, lengths)
    batch = stack_fragments(pairs)
    for each in (batch, batch.take(np.array([2, 0])), batch):
        rewards = th.from_numpy(each.steps.rews.astype(np.float64))
        assert th.equal(each.true_returns(discount), each.returns(rewards, discount))
    without = stack_fragments(pairs_of(rng, lengths, rewards=False))
    assert without.true_returns(discount) is None
    assert without.take(np.array([1])).true_returns(discount) is None


@pytest.mark.parametrize("limit", [0, 2**28], ids=["each batch", "at once"])
def test_pairs_have_their_steps_in_any_form_of_joining(rng, monkeypatch, limit):
    monkeypatch.setattr(fragment_batch, "_LARGEST_JOINED", limit)
    pairs = pairs_of(rng, [3, 3, 3])
    known = FragmentPairs(pairs)
    assert equal(stack_fragments(known), stack_fragments(pairs))
    taken = known.take(np.array([2, 1]))
    assert list(taken) == [pairs[2], pairs[1]]
    assert equal(stack_fragments(taken), stack_fragments([pairs[2], pairs[1]]))
    assert taken.batch is taken.batch


def test_fragments_of_a_pair_are_equally_long(rng):
    pairs = [*pairs_of(rng, [3]), (fragment(rng, 3), fragment(rng, 4))]
    with pytest.raises(ValueError, match="pair 1: its fragments have 3 and 4 steps"):
        stack_fragments(pairs)


def test_there_must_be_pairs():
    with pytest.raises(ValueError, match="is empty"):
        stack_fragments([])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("place", "name"), [(0, "first"), (1, "second")])
def test_a_reward_that_is_not_finite_is_reported(rng, bad, place, name):
    pairs = pairs_of(rng, [3, 3])
    pairs[1][place].rews[2] = bad
    with pytest.raises(ValueError, match=f"pair 1: its {name} fragment has a reward that is not"):
        stack_fragments(pairs)


def test_rewards_of_another_shape_are_reported(rng):
    pairs = pairs_of(rng, [3, 3])
    object.__setattr__(pairs[1][1], "rews", np.zeros(2))
    with pytest.raises(ValueError, match=r"pair 1: rewards of shape \(2,\) for a fragment of 3"):
        stack_fragments(pairs)


def test_dictionary_observations_are_refused():
    obs = DictObs({"position": np.zeros((3, 2))})
    each = Trajectory(obs, np.zeros((2, 1)), None, terminal=False)
    with pytest.raises(ValueError, match="dictionary observations are not supported"):
        stack_fragments([(each, each)])
