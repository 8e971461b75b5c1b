import numpy as np
import pytest
from scipy import special, stats

from imitbench.algorithms.preference_comparisons.gatherers import (
    PreferenceGatherer,
    SyntheticGatherer,
)
from imitbench.data.types import Trajectory, TrajectoryWithRew


def fragment(rews, dtype=np.float32):
    rews = np.array(rews, dtype=dtype)
    rews.flags.writeable = False
    return TrajectoryWithRew(np.zeros(len(rews) + 1), np.zeros(len(rews)), None, False, rews)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(3)
    return [(fragment(rng.normal(size=6)), fragment(rng.normal(size=6))) for _ in range(50)]


def rewards(pairs, side):
    return np.array([pair[side].rews for pair in pairs], dtype=float)


def entropy_logged(gatherer):
    return gatherer.logger.default_logger.name_to_value["entropy"]


@pytest.mark.parametrize("temperature", [0.3, 1, 7])
@pytest.mark.parametrize("discount", [0, 0.5, 0.99, 1])
def test_probabilities_are_those_of_bradley_and_terry(pairs, temperature, discount):
    gatherer = SyntheticGatherer(temperature, discount, sample=False)
    weights = np.array([discount**t for t in range(6)])
    difference = (rewards(pairs, 0) - rewards(pairs, 1)) @ weights / temperature
    given = gatherer(pairs)
    assert given.shape == (50,)
    assert given.dtype == np.float32
    assert np.allclose(given, special.expit(difference), rtol=1e-6)


def test_exchanging_the_fragments_exchanges_the_probabilities(pairs):
    gatherer = SyntheticGatherer(sample=False)
    turned = [(second, first) for first, second in pairs]
    assert np.allclose(gatherer(pairs) + gatherer(turned), 1)


def test_a_worked_example_gives_its_probability():
    pair = (fragment([1, 1, 1]), fragment([0, 1, 1]))
    assert SyntheticGatherer(sample=False)([pair]) == pytest.approx(np.e / (1 + np.e))


def test_fragments_of_different_length_are_compared_by_their_returns():
    long, short = fragment([1, 1, 1, 1]), fragment([4])
    assert SyntheticGatherer(sample=False)([(long, short), (short, long)]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("threshold", [1, 50])
def test_differences_are_clipped_at_the_threshold(threshold):
    pairs = [(fragment([1e4]), fragment([0])), (fragment([0]), fragment([1e4]))]
    given = SyntheticGatherer(sample=False, threshold=threshold)(pairs)
    assert given == pytest.approx(special.expit([threshold, -threshold]), rel=1e-6)
    assert given[1] > 0


def test_a_tiny_temperature_does_not_overflow():
    pairs = [(fragment([1.0]), fragment([0]))]
    with np.errstate(all="raise"):
        assert SyntheticGatherer(1e-308, sample=False)(pairs) == [1]


def test_samples_are_zeros_and_ones_as_often_as_their_probability():
    pairs = [(fragment([0.7]), fragment([0]))] * 20_000
    sampled = SyntheticGatherer(rng=np.random.default_rng(0))(pairs)
    assert sampled.dtype == np.float32
    assert set(sampled) == {0, 1}
    test = stats.binomtest(int(sampled.sum()), len(pairs), float(special.expit(0.7)))
    assert test.pvalue > 0.001


def test_the_generator_decides_the_samples(pairs):
    def sample(seed):
        return SyntheticGatherer(rng=np.random.default_rng(seed))(pairs).tolist()

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


@pytest.mark.parametrize("sample", [True, False])
def test_without_temperature_the_greater_return_wins_and_equal_ones_tie(sample):
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    pairs = [
        (fragment([1, 2]), fragment([2, 0])),
        (fragment([0, 2]), fragment([2, 1])),
        (fragment([1, 2]), fragment([2, 1])),
    ]
    given = SyntheticGatherer(0, sample=sample, rng=rng)(pairs)
    assert given.tolist() == [1, 0, 0.5]
    assert given.dtype == np.float32
    assert rng.bit_generator.state == before


def test_rounding_errors_of_the_sums_decide_nothing():
    values = [0.1, 0.2, 0.3, 1e3, -1e3 + 0.7]
    one, other = sum(values), sum(values[::-1])
    assert one != other
    pair = (fragment(values, np.float64), fragment(values[::-1], np.float64))
    assert SyntheticGatherer(0, sample=False)([pair]) == [0.5]


def test_a_small_true_difference_decides():
    pair = (fragment([1e6, 1e-6], np.float64), fragment([1e6, 0], np.float64))
    assert SyntheticGatherer(0, sample=False)([pair]) == [1]


@pytest.mark.parametrize("discount", [1, 0.9])
def test_inputs_are_not_changed(pairs, discount):
    copies = [tuple(np.copy(each.rews) for each in pair) for pair in pairs]
    SyntheticGatherer(0.5, discount, sample=False)(pairs)
    for pair, copy in zip(pairs, copies, strict=True):
        assert np.array_equal(pair[0].rews, copy[0])
        assert np.array_equal(pair[1].rews, copy[1])


def test_the_mean_entropy_is_logged(pairs):
    gatherer = SyntheticGatherer(rng=np.random.default_rng(0))
    gatherer(pairs)
    p = SyntheticGatherer(sample=False)(pairs).astype(float)
    expected = -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
    assert entropy_logged(gatherer) == pytest.approx(expected, rel=1e-5)


def test_certain_preferences_have_no_entropy_and_ties_have_one_bit():
    gatherer = SyntheticGatherer(0, sample=False)
    gatherer([(fragment([1]), fragment([0]))])
    assert entropy_logged(gatherer) == 0
    gatherer([(fragment([1]), fragment([1]))])
    assert entropy_logged(gatherer) == pytest.approx(np.log(2))


def test_no_pairs_give_no_preferences():
    given = SyntheticGatherer(sample=False)([])
    assert given.shape == (0,)
    assert given.dtype == np.float32


def test_a_restored_gatherer_continues_the_same_draws(pairs):
    first, second = (SyntheticGatherer(rng=np.random.default_rng(seed)) for seed in (1, 2))
    first(pairs)
    second.load_state_dict(first.state_dict())
    assert np.array_equal(first(pairs), second(pairs))


def test_a_gatherer_without_generator_has_a_state_too(pairs):
    first, second = SyntheticGatherer(sample=False), SyntheticGatherer(sample=False)
    second.load_state_dict(first.state_dict())
    assert np.array_equal(first(pairs), second(pairs))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("discount", [1, 0.9])
def test_rewards_that_are_not_finite_are_reported(pairs, value, discount):
    rews = [0, 0, value, 0]
    pairs[4] = (fragment([0] * 4), fragment(rews))
    with pytest.raises(ValueError, match=r"fragment 2 of pair 4 has a reward .* at step 2"):
        SyntheticGatherer(discount_factor=discount, sample=False)(pairs)


def test_an_overflowing_sum_is_reported():
    huge = fragment([1e308, 1e308], np.float64)
    with pytest.raises(ValueError, match="fragment 1 of pair 0 has rewards whose sum overflows"):
        SyntheticGatherer(sample=False)([(huge, huge)])


def test_missing_rewards_are_reported():
    bare = Trajectory(np.zeros(2), np.zeros(1), None, False)
    with pytest.raises(ValueError, match="fragment 2 of pair 0 has no rewards"):
        SyntheticGatherer(sample=False)([(fragment([1]), bare)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "rng: sampled preferences need a generator"),
        ({"temperature": -1, "sample": False}, "temperature"),
        ({"temperature": np.nan, "sample": False}, "temperature"),
        ({"temperature": np.inf, "sample": False}, "temperature"),
        ({"discount_factor": 1.1, "sample": False}, "discount_factor"),
        ({"discount_factor": np.nan, "sample": False}, "discount_factor"),
        ({"threshold": 0, "sample": False}, "threshold"),
    ],
)
def test_bad_arguments_are_reported(arguments, message):
    with pytest.raises(ValueError, match=message):
        SyntheticGatherer(**arguments)


def test_a_gatherer_must_implement_call():
    with pytest.raises(TypeError, match="abstract"):
        PreferenceGatherer()
