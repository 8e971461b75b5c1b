import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from stable_baselines3.common import logger as sb_logger

from imitbench.algorithms.preference_comparisons.fragmenters import RandomFragmenter
from imitbench.data.types import DictObs, Trajectory, TrajectoryWithRew
from imitbench.util.logger import HierarchicalLogger


def episode(number, steps, terminal=True, infos=True):
    """Observation t of episode n is (n, t), so that each fragment shows its origin."""
    obs = np.stack([np.full(steps + 1, number), np.arange(steps + 1)], axis=1).astype(np.float32)
    kept = np.array([{"step": step} for step in range(steps)]) if infos else None
    return TrajectoryWithRew(obs, np.arange(steps), kept, terminal, np.arange(steps, dtype=float))


@pytest.fixture
def told():
    return io.StringIO()


@pytest.fixture
def make(told):
    """Makes a fragmenter that logs to `told`."""

    def make(seed=0, **kwargs):
        outer = sb_logger.Logger(None, [sb_logger.HumanOutputFormat(told)])
        return RandomFragmenter(
            np.random.default_rng(seed), custom_logger=HierarchicalLogger(outer), **kwargs
        )

    return make


def flat(pairs):
    return [fragment for pair in pairs for fragment in pair]


def test_every_fragment_is_one_piece_of_one_trajectory(make):
    trajectories = [episode(n, steps) for n, steps in enumerate((7, 30, 12))]
    pairs = make()(trajectories, fragment_length=5, num_pairs=200)
    assert len(pairs) == 200
    for fragment in flat(pairs):
        number, start = fragment.obs[0].astype(int)
        source = trajectories[number]
        assert np.array_equal(fragment.obs, source.obs[start : start + 6])
        assert np.array_equal(fragment.acts, source.acts[start : start + 5])
        assert np.array_equal(fragment.rews, source.rews[start : start + 5])
        assert [info["step"] for info in fragment.infos] == list(range(start, start + 5))


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    fragment_length=st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
def test_no_fragment_reaches_beyond_its_episode(lengths, fragment_length, seed):
    fragmenter = RandomFragmenter(np.random.default_rng(seed), warning_threshold=0)
    trajectories = [episode(n, steps) for n, steps in enumerate(lengths)]
    if max(lengths) < fragment_length:
        with pytest.raises(ValueError, match=f"longest has {max(lengths)} steps"):
            fragmenter(trajectories, fragment_length, 4)
        return
    for fragment in flat(fragmenter(trajectories, fragment_length, 4)):
        assert len(fragment) == fragment_length
        assert (np.diff(fragment.obs[:, 1]) == 1).all()
        assert (fragment.obs[:, 0] == fragment.obs[0, 0]).all()


def test_fragments_share_the_memory_of_their_trajectory(make):
    (trajectory,) = trajectories = [episode(0, 20)]
    for fragment in flat(make()(trajectories, 5, 3)):
        for name in ("obs", "acts", "rews", "infos"):
            assert np.shares_memory(getattr(fragment, name), getattr(trajectory, name))


def test_only_a_fragment_with_the_end_of_an_episode_is_terminal(make):
    whole, cut = episode(0, 8), episode(1, 8, terminal=False)
    fragments = flat(make()([whole, cut], 5, 100))
    assert {fragment.terminal for fragment in fragments} == {True, False}
    for fragment in fragments:
        number, last = fragment.obs[-1]
        assert fragment.terminal is bool(number == 0 and last == 8)


def test_trajectories_are_drawn_by_their_lengths(make):
    lengths = np.array([10, 30, 60])
    trajectories = [episode(n, steps, infos=False) for n, steps in enumerate(lengths)]
    fragments = flat(make(warning_threshold=0)(trajectories, 5, 10_000))
    counts = np.bincount([int(fragment.obs[0, 0]) for fragment in fragments])
    assert stats.chisquare(counts, lengths / lengths.sum() * len(fragments)).pvalue > 0.001


def test_starts_are_uniform_up_to_the_last_that_fits(make):
    fragments = flat(make()([episode(0, 12, infos=False)], 5, 10_000))
    counts = np.bincount([int(fragment.obs[0, 1]) for fragment in fragments])
    assert len(counts) == 12 - 5 + 1
    assert stats.chisquare(counts).pvalue > 0.001


def test_the_two_of_a_pair_are_drawn_independently(make):
    pairs = make()([episode(0, 12, infos=False)], 5, 10_000)
    starts = np.array([[int(fragment.obs[0, 1]) for fragment in pair] for pair in pairs])
    table = np.zeros((8, 8))
    np.add.at(table, (starts[:, 0], starts[:, 1]), 1)
    assert stats.chi2_contingency(table).pvalue > 0.001


def test_a_fragment_may_be_the_whole_trajectory(make):
    trajectory = episode(0, 6)
    assert all(fragment == trajectory for fragment in flat(make()([trajectory], 6, 3)))


def test_short_trajectories_are_skipped_and_reported(make, told):
    fragments = flat(make()([episode(0, 3), episode(1, 50)], 4, 20))
    assert {int(fragment.obs[0, 0]) for fragment in fragments} == {1}
    assert "Skipped 1 of 2 trajectories" in told.getvalue()


def test_missing_infos_stay_missing(make):
    fragments = flat(make()([episode(0, 9, infos=False)], 4, 2))
    assert all(fragment.infos is None for fragment in fragments)


def test_dictionary_observations_are_cut_key_by_key(make):
    parts = {"a": np.arange(10.0), "b": np.arange(20).reshape(10, 2)}
    trajectory = TrajectoryWithRew(DictObs(parts), np.zeros(9), None, True, np.zeros(9))
    for fragment in flat(make()([trajectory], 4, 5)):
        start = int(fragment.obs.get("a")[0])
        assert np.array_equal(fragment.obs.get("b"), parts["b"][start : start + 5])


@pytest.mark.parametrize(
    ("threshold", "steps", "message"),
    [
        (10, 39, "only 39 are available"),
        (0, 39, "only 39 are available"),
        (10, 399, "many will occur several times"),
        (0, 399, ""),
        (10, 400, ""),
    ],
)
def test_few_transitions_give_a_warning(make, told, threshold, steps, message):
    make(warning_threshold=threshold)([episode(0, steps)], 10, num_pairs=2)
    assert message in told.getvalue()
    assert bool(told.getvalue()) == bool(message)


def test_the_generator_decides_everything(make):
    trajectories = [episode(n, 20) for n in range(3)]
    assert make(seed=1)(trajectories, 5, 10) == make(seed=1)(trajectories, 5, 10)
    assert make(seed=1)(trajectories, 5, 10) != make(seed=2)(trajectories, 5, 10)


def test_a_restored_fragmenter_continues_the_same_draws(make):
    trajectories = [episode(n, 20) for n in range(3)]
    first, second = make(seed=1), make(seed=2)
    first(trajectories, 5, 10)
    second.load_state_dict(first.state_dict())
    assert first(trajectories, 5, 10) == second(trajectories, 5, 10)


def test_no_pairs_need_no_trajectories(make):
    assert make()([], 5, 0) == []


@pytest.mark.parametrize(
    ("trajectories", "length", "pairs", "message"),
    [
        ([], 5, 1, "is empty"),
        ([episode(0, 3), episode(1, 4)], 5, 1, "fragment_length 5: the longest has 4 steps"),
        ([episode(0, 9)], 0, 1, "fragment_length must be at least 1"),
        ([episode(0, 9)], 5, -1, "num_pairs must not be negative"),
        ([Trajectory(np.zeros(3), np.zeros(2), None, True)], 1, 1, "number 0 has no rewards"),
    ],
)
def test_invalid_trajectories_and_lengths_are_reported(make, trajectories, length, pairs, message):
    with pytest.raises(ValueError, match=message):
        make()(trajectories, length, pairs)
