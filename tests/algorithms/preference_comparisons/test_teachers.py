"""B-Pref's teachers, against the definitions of the paper with numbers worked out by hand."""

import math

import numpy as np
import pytest

from imitbench.algorithms.preference_comparisons.gatherers import (
    TEACHERS,
    ScriptedTeacher,
    make_teacher,
)
from imitbench.data.types import TrajectoryWithRew


def fragment(rews):
    rews = np.array(rews, dtype=np.float64)
    return TrajectoryWithRew(np.zeros(len(rews) + 1), np.zeros(len(rews)), None, False, rews)


def pair(first, second):
    return fragment(first), fragment(second)


def rng():
    return np.random.default_rng(0)


def test_the_oracle_prefers_the_greater_return_and_calls_equal_ones_a_tie():
    pairs = [pair([1, 0, 2], [0, 0, 1]), pair([0, 1, 0], [0, 0, 2]), pair([1, 1, 0], [0, 2, 0])]
    given = make_teacher("oracle", rng())(pairs)
    assert given.tolist() == [1.0, 0.0, 0.5]
    assert given.dtype == np.float32


def test_the_stochastic_teacher_answers_with_bradley_and_terrys_probability():
    pairs = [pair([0.5, 1], [1, 0])] * 4000
    # A difference of ½ and rationality 2: 1 / (1 + 1/e).
    share = make_teacher("stochastic", rng(), 2.0)(pairs).mean()
    assert share == pytest.approx(1 / (1 + math.exp(-1)), abs=4 * math.sqrt(0.2 / 4000))
    assert make_teacher("stochastic", rng(), 1e9)(pairs).mean() == 1
    assert make_teacher("stochastic", rng(), math.inf)([pair([1], [1])]).tolist() == [0.5]


def test_the_myopic_teacher_weighs_the_last_step_fully_and_earlier_ones_less():
    # With ½ per step the first is worth 4 / 4 = 1.
    early = [4, 0, 0]
    for late, first_is_better in (([0, 0, 0.9], 1.0), ([0, 0, 1], 0.5), ([0, 0, 1.1], 0.0)):
        assert make_teacher("myopic", rng(), 0.5)([pair(early, late)]).tolist() == [first_is_better]
        assert make_teacher("oracle", rng())([pair(early, late)]).tolist() == [1.0]


def test_the_mistaken_teacher_turns_its_share_of_answers_round():
    pairs = [pair([1], [0])] * 4000
    wrong = 1 - make_teacher("mistaken", rng(), 0.25)(pairs).mean()
    assert wrong == pytest.approx(0.25, abs=4 * math.sqrt(0.19 / 4000))
    assert make_teacher("mistaken", rng(), 1.0)(pairs).max() == 0


def observed(teacher):
    """The usual return of three steps is 3."""
    teacher.observe([fragment([0, 1, 2, 1])])
    return teacher


def test_the_skipping_teacher_skips_pairs_without_a_return_above_its_share():
    teacher = observed(make_teacher("skipping", rng(), 0.5))  # 1.5
    pairs = [pair([0.5, 0.5, 0.5], [0, 0, 0]), pair([0.5, 0.5, 0.6], [0, 0, 0])]
    assert np.isnan(teacher(pairs)[0])
    assert teacher(pairs)[1] == 1
    assert teacher.logger.default_logger.name_to_value["skipped"] == 0.5


def test_the_equal_teacher_calls_smaller_differences_than_its_share_a_tie():
    teacher = observed(make_teacher("equal", rng(), 0.5))  # 1.5
    assert teacher([pair([1.4, 0, 0], [0, 0, 0]), pair([0, 0, 0], [1.5, 0, 0])]).tolist() == [
        0.5,
        0,
    ]


def test_the_usual_return_follows_the_latest_trajectories():
    teacher = observed(make_teacher("equal", rng(), 0.5))
    teacher.observe([fragment([4, 0]), fragment([4, 4])])  # 3 per step, so 4.5
    assert teacher([pair([4, 0, 0], [0, 0, 0])]).tolist() == [0.5]


def test_without_trajectories_the_usual_return_is_that_of_the_fragments():
    # 1 per step, so 0.2 of three steps.
    pairs = [pair([2, 2, 1], [0.5, 0.3, 0.2]), pair([0, 0, 0], [0, 0, 0])]
    assert np.isnan(make_teacher("skipping", rng(), 0.2)(pairs)).tolist() == [False, True]


def test_rewards_count_above_the_floor():
    trajectories = [fragment([-3, -2, -1])]  # 1 per step above the least, so 3 for three steps
    pairs = [pair([-3, -3, -1.6], [-3, -3, -3]), pair([-3, -3, -1.4], [-3, -3, -3])]
    for floor, skipped in ((None, [True, False]), (-3.0, [True, False]), (0.0, [False, False])):
        teacher = make_teacher("skipping", rng(), 0.5, floor=floor)
        teacher.observe(trajectories)
        assert np.isnan(teacher(pairs)).tolist() == skipped
    teacher = make_teacher("equal", rng(), 0.5, floor=None)
    teacher.observe(trajectories)
    assert teacher(pairs).tolist() == [0.5, 1.0]


def test_ties_outweigh_mistakes_and_skipping_outweighs_ties():
    teacher = observed(ScriptedTeacher(rng(), mistake=1.0, equal=0.5, skip=0.5))
    pairs = [pair([3, 0, 0], [1, 0, 0]), pair([3, 0, 0], [2, 0, 0]), pair([1, 0, 0], [0, 0, 0])]
    np.testing.assert_equal(teacher(pairs), np.array([0, 0.5, np.nan], np.float32))


def label_by_the_papers_definition(teacher, first, second, usual, draw):
    """Algorithm 1 for one pair, one step after the other."""
    if max(sum(first), sum(second)) <= teacher.skip * usual:
        return math.nan
    if abs(sum(first) - sum(second)) < teacher.equal * usual:
        return 0.5
    last = len(first) - 1
    weights = [teacher.discount_factor ** (last - step) for step in range(last + 1)]
    difference = sum(w * (a - b) for w, a, b in zip(weights, first, second, strict=True))
    return float(draw < 1 / (1 + math.exp(-teacher.rationality * difference)))


def test_answers_are_those_of_the_papers_algorithm():
    rewards = np.random.default_rng(1).uniform(size=(300, 2, 5))
    teacher = ScriptedTeacher(rng(), rationality=3.0, discount_factor=0.7, skip=1.05, equal=0.1)
    teacher.observe([fragment([0.5])])
    draws = rng().random(300)
    expected = [
        label_by_the_papers_definition(teacher, *each, 2.5, draw)
        for each, draw in zip(rewards.tolist(), draws, strict=True)
    ]
    np.testing.assert_equal(teacher([pair(*each) for each in rewards]), np.float32(expected))
    assert {0.0, 0.5, 1.0} < set(expected)
    assert any(map(math.isnan, expected))


def test_teachers_have_b_prefs_parameters():
    defaults = {name: make_teacher(name, rng()) for name in TEACHERS}
    assert {name: getattr(defaults[name], key) for name in TEACHERS for key in TEACHERS[name]} == {
        "stochastic": 1.0, "myopic": 0.9, "skipping": 0.1, "equal": 0.1, "mistaken": 0.1
    }  # fmt: skip
    assert make_teacher("equal", rng(), 0.3, None).equal == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("human",), "no teacher 'human'; choose one of oracle, stochastic"),
        (("oracle", 1.0), "oracle has no parameter"),
        (("stochastic", 0.0), "rationality must be positive"),
        (("myopic", 1.1), r"discount_factor must lie in \[0, 1\]"),
        (("mistaken", -0.1), r"mistake must lie in \[0, 1\]"),
        (("skipping", -1.0), "skip must be at least 0"),
    ],
)
def test_a_wrong_teacher_is_refused(arguments, message):
    name, *parameter = arguments
    with pytest.raises(ValueError, match=message):
        make_teacher(name, rng(), *parameter)


def test_a_restored_teacher_goes_on_alike():
    teacher = ScriptedTeacher(rng(), rationality=1.0, equal=0.2, floor=None)
    teacher.observe([fragment([-1, 3])])
    state = teacher.state_dict()
    rewards = np.random.default_rng(1).uniform(size=(20, 2, 5))
    pairs = [pair(*each) for each in rewards]
    again = ScriptedTeacher(np.random.default_rng(9), rationality=1.0, equal=0.2, floor=None)
    again.load_state_dict(state)
    assert again(pairs).tolist() == teacher(pairs).tolist()
