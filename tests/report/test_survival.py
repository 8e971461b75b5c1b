"""What audits of termination and reports say of constant rewards."""

import math

import pytest

from imitbench.report.survival import Audit, Outcome, is_constant_plus, survival_notes
from imitbench.report.tables import build_report

TAUGHT_NOTHING = {"n_demos": None, "all_demos": None, "source": None}


def outcome(score, *, length=100.0, early=0.5, seeds=5, mean_return=None):
    given = 1000 * score if mean_return is None else mean_return
    return Outcome(given, score, length, early, seeds)


def audit(method, plus, minus=-0.5, zero=0.0, **settings):
    made = [None if score is None else outcome(score, **settings) for score in (plus, minus, zero)]
    own = None if method is None else outcome(method, **settings)
    return Audit("gail", "Hopper-v5", own, outcome(0.0, early=1.0, length=20.0), *made)


@pytest.mark.parametrize(
    ("method", "plus", "minus", "begin"),
    [
        (1.0, 0.95, -0.5, "Survival alone explains the success of gail: a constant reward of +1"),
        (1.0, 0.5, 0.2, "Survival explains a part of the success of gail, about 50%: "),
        (1.0, 0.2, 0.1, "Survival does not explain the success of gail: "),
        (1.0, 0.0, 0.9, "Ending episodes early alone explains the success of gail: a constant "
         "reward of -1"),
        (1.0, None, 0.1, "Survival does not explain the success of gail: a constant reward of -1"),
        (0.05, 0.5, 0.5, "gail is not better than random actions (a score of 0.050)"),
        (None, 0.4, 0.1, "A constant reward of +1 reaches a score of 0.400 on Hopper-v5, in "),
        (1.0, None, None, "No control was completed"),
    ],
)  # fmt: skip
def test_a_sentence_says_whether_survival_explains_the_score(method, plus, minus, begin):
    [sentence] = audit(method, plus, minus).sentences()
    assert sentence.startswith(begin)
    assert sentence.endswith(".")


def test_both_scores_and_lengths_are_compared():
    [sentence] = audit(1.0, 0.95).sentences()
    assert sentence.endswith(
        "which tells nothing of the expert, reaches a score of 0.950 in episodes of 100 steps, "
        "gail a score of 1.000 in 100."
    )
    assert audit(1.0, 0.4).share == pytest.approx(0.4)
    assert audit(1.0, -0.4).share == 0
    assert math.isnan(audit(0.0, 0.4).share)
    assert math.isnan(audit(None, 0.4).share)


def test_without_early_ends_there_is_nothing_to_explain():
    ends = [outcome(score, early=0.0) for score in (1.0, 0.0, 0.9, 0.0, 0.0)]
    assert Audit("gail", "E", *ends).sentences() == [
        "No episode on E ended early, so survival explains nothing there."
    ]


def test_few_seeds_and_training_without_reward_are_told():
    found = audit(1.0, 0.9, zero=0.6, seeds=1).sentences()
    assert found[1:] == [
        "Training without any reward reaches a score of 0.600 already.",
        "One seed says little: --seeds 5 says more.",
    ]
    assert "3 seeds say little: --seeds 5 says more." in audit(1.0, 0.9, seeds=3).sentences()


def test_returns_stand_for_unknown_scores():
    """Relative to random actions, which reach 0 in the audits here."""
    own, plus, zero = (outcome(math.nan, mean_return=each) for each in (1000.0, 950.0, -10.0))
    found = Audit("gail", "E", own, outcome(math.nan, mean_return=100.0), plus, None, zero)
    assert found.share == pytest.approx(850 / 900)
    assert "reaches a return of 950.00 in episodes" in found.sentences()[0]


@pytest.mark.parametrize(
    ("algo", "positive"),
    [
        ("constant_plus", True),
        ("constant_plus[gamma=0.99]", True),
        ("constant_reward", True),
        ("constant_reward[gamma=0.95]", True),
        ("constant_reward[reward=2.0,gamma=0.95]", True),
        ("constant_reward[reward=-1.0]", False),
        ("constant_reward[device=cuda,reward=0.0]", False),
        ("constant_minus", False),
        ("constant_plus_mine", False),
        ("gail", False),
    ],
)
def test_controls_with_a_positive_reward_are_known_by_name(algo, positive):
    assert is_constant_plus(algo) is positive


def notes_of(rows, references):
    (section,) = build_report(rows, [], references, replicates=200).sections
    return [note for note in section.notes if "constant positive" in note]


def test_reports_say_what_a_constant_positive_reward_scores(rows, references, make_score):
    """Only where episodes end early; whatever the score, and in one sentence."""
    plus = [
        make_score("constant_plus", env, seed, raw, mean_length=length, **TAUGHT_NOTHING)
        for env, raw, length in (("CartPole", 30.0, 120.0), ("Pendulum", -1150.0, 200.0))
        for seed in range(2)
    ]
    [note] = notes_of([*rows, *plus], references)
    score = plus[0].score
    assert note == (
        f"A constant positive reward (constant_plus) scores {score:.3f} on CartPole, where "
        "episodes may end early: surviving alone is worth that much there."
    )
    assert not list(survival_notes(rows))


def test_a_bundled_card_says_where_episodes_may_end_early(make_score):
    row = make_score("constant_plus", "CartPole", 0, 5.0, termination_rate=0.0, **TAUGHT_NOTHING)
    variable = {"suite": "diagnostics", "env": "seals/EarlyTermPos-v0"}
    assert list(survival_notes([row.model_copy(update=variable)]))
    fixed = {"suite": "classic", "env": "Pendulum-v1", "termination_rate": 1.0}
    assert not list(survival_notes([row.model_copy(update=fixed)]))


def test_a_suite_with_the_control_asks_for_it_where_episodes_may_end_early(make_score):
    """Only of methods: not of references, and not where the control was run."""
    here = {"suite": "mujoco", "env": "Hopper-v5"}
    gail, expert, plus = (
        make_score(algo, "CartPole", 0, 5.0, **more).model_copy(update=here)
        for algo, more in (("gail", {}), ("expert", {}), ("constant_plus", TAUGHT_NOTHING))
    )
    [note] = survival_notes([gail, expert])
    assert note == (
        "What a constant positive reward scores on Hopper-v5, where episodes may end early, is not "
        "measured here: add constant_plus to the algorithms, or run imitbench audit."
    )
    assert not list(survival_notes([expert]))
    [note] = survival_notes([gail, plus])
    assert note.startswith("A constant positive reward (constant_plus) scores")
    maze = {"suite": "pusht", "env": "gym_pusht/PushT-v0"}  # its card has no controls
    assert not list(survival_notes([gail.model_copy(update=maze)]))
