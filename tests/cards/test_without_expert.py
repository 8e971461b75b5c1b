"""Cards of environments with demonstrations only, and the records that come of them."""

import copy

import pytest

from imitbench.cards.catalog import load_algorithm, suite_names
from imitbench.cards.plugins import find_suite
from imitbench.cards.suite import EnvironmentCard, References, mismatch
from imitbench.errors import InputError
from imitbench.records.runs import ReferenceRow, ReferenceScores

MEASURED = {
    "mean": 10.0,
    "std": 1.0,
    "episodes": 4,
    "deterministic": False,
    "command": "imitbench suites measure",
    "date": "2026-01-01",
}
CARD = {
    "title": "Reach",
    "horizon": "fixed",
    "max_episode_steps": 50,
    "steps_per_second": 1000.0,
    "action_space": "box",
    "demos": {"repo": "demos-Reach", "trajectories": 4},
    "budgets": {name: {"env_steps": 1, "batches": 1} for name in ("quick", "default", "full")},
}
RANDOM, SHOWN = {**MEASURED, "mean": 0.0}, MEASURED


def card(**changed):
    return EnvironmentCard.model_validate(copy.deepcopy(CARD) | changed)


def test_score_one_is_of_the_demonstrators_or_the_number_on_the_card():
    assert card().scale is None
    shown = card(references={"random": RANDOM, "demonstrations": SHOWN})
    assert tuple(shown.scale) == (0.0, 10.0, "demonstrations", 10.0)
    stated = card(references={"random": RANDOM, "demonstrations": SHOWN}, score_one=20.0)
    assert tuple(stated.scale) == (0.0, 20.0, "card", 10.0)
    alone = card(references={"random": RANDOM}, score_one=20.0)
    assert tuple(alone.scale) == (0.0, 20.0, "card", None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"references": {"random": RANDOM}}, "score_one: must be a number"),
        ({"references": {"random": RANDOM, "expert": SHOWN}}, "references.expert must be there"),
        ({"score_one": float("nan")}, "finite"),
        ({"score_one": "high"}, "number"),
    ],
)
def test_contradicting_values_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        card(**changed)


def test_an_expert_has_score_one_alone():
    expert = {"expert": {"repo": "ppo-Reach", "algo": "ppo", "env_steps": 1}}
    both = {"random": RANDOM, "expert": SHOWN, "demonstrations": SHOWN}
    with pytest.raises(ValueError, match="the expert has score 1; remove score_one"):
        card(**expert, score_one=1.0)
    with pytest.raises(ValueError, match=r"references\.demonstrations: the expert has score 1"):
        card(**expert, references=both)


EXPERT = {**MEASURED, "revision": "0" * 12}
LIKELY = {**EXPERT, "deterministic": True, "mean": 12.0}


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ({"demonstrations": SHOWN, "expert_likely": LIKELY}, "there is no expert; remove it"),
        (
            {"expert": EXPERT, "expert_likely": {**LIKELY, "deterministic": False}},
            r"expert_likely\.deterministic must be true",
        ),
        (
            {"expert": EXPERT, "expert_likely": {**LIKELY, "revision": "1" * 12}},
            r"expert_likely\.revision must be that of expert; .* --likely",
        ),
    ],
)
def test_the_most_likely_actions_are_of_the_measured_expert(references, message):
    with pytest.raises(ValueError, match=message):
        References.model_validate({"random": RANDOM, **references})
    kept = References.model_validate({"random": RANDOM, "expert": EXPERT, "expert_likely": LIKELY})
    assert kept.expert_likely.mean == 12.0


def test_methods_that_query_an_expert_are_not_applicable():
    for name in ("dagger", "expert"):
        assert "demonstrations only" in mismatch(load_algorithm(name), card())
    assert mismatch(load_algorithm("bc"), card()) is None
    with pytest.raises(InputError, match="Reach: the suite's card names no expert"):
        card().expert_in("Reach")


def test_bundled_suites_have_an_expert_with_score_one_but_for_those_of_people_and_robots():
    for name in suite_names():
        for environment in find_suite(name).environments.values():
            if environment.expert is None or environment.scored_by_success:
                assert name in ("adroit", "handwriting", "maze", "pusht", "pusht-pixels")
                continue
            assert environment.scale.score_one == "expert"
            assert environment.scale.one == environment.references.expert.mean


def test_records_of_environments_with_an_expert_have_no_new_keys():
    scores = ReferenceScores(random=0.0, expert=1.0, version="1")
    assert set(scores.model_dump()) == {"random", "expert", "version"}
    assert ReferenceScores.model_validate(scores.model_dump()) == scores
    row = ReferenceRow(suite="classic", env="Reach", version="1", random=0.0, expert=1.0)
    assert set(row.model_dump()) == {"suite", "env", "version", "random", "expert"}
    shown = scores.model_copy(update={"score_one": "demonstrations", "demonstrations": 1.0})
    assert ReferenceScores.model_validate(shown.model_dump()) == shown
