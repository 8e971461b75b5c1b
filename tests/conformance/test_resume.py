"""A method that resumes bit for bit passes; otherwise the missing state is reported."""

import pytest
from support.plans import make_plan

from imitbench.bench.spec import reference_scores
from imitbench.cards.catalog import load_algorithm, load_suite, suite_directory
from imitbench.conformance.bitwise import Difference, PartDifferences
from imitbench.conformance.resume import (
    LACKS,
    NOT_REPEATABLE,
    NOT_TRAINING,
    OFFERS_NONE,
    InterruptionOutcome,
    ResumeVerdict,
    as_document,
    check_resume,
)
from imitbench.records.runs import Protocol

TABULAR = ("tabular", "seals/CliffWorld7x4-v0")
CHEAP = {"budget": "quick", "n_demos": 2}  # for many passes over the demonstrations
SHORT_ROUNDS = {
    "n_envs": "2",
    "rollout_round_min_episodes": "2",
    "rollout_round_min_timesteps": "400",
    "bc_epochs": "1",
}


@pytest.fixture
def verify(tmp_path):
    """Checks an algorithm, or another implementation of behavioral cloning."""

    def call(implementation=None, *, algo="bc", kills=1, batches=60):
        suite, env = TABULAR if algo == "mce_irl" else ("classic", "Pendulum-v1")
        [spec] = make_plan(
            algorithms=[algo],
            suite=suite,
            environment=env,
            seeds=[0],
            **CHEAP,
            overrides=SHORT_ROUNDS if algo == "dagger" else {},
        )
        changes = {"protocol": Protocol(episodes=2, environments=1)}
        amount = {"bc": batches, "dagger": 2800}.get(algo, spec.budget.amount)
        changes["budget"] = spec.budget.model_copy(update={"amount": amount})
        if implementation:
            changes["implementation"] = f"support.forgetful:{implementation}"
        return check_resume(
            spec.model_copy(update=changes),
            source_root=suite_directory(suite),
            references=reference_scores(load_suite(suite), env, "bundled"),
            folder=tmp_path / "runs",
            kills=kills,
        )

    return call


@pytest.mark.slow
def test_behavioral_cloning_resumes_bit_for_bit_at_seeded_interruptions(verify):
    found = verify()
    assert (found.exact, found.hint, found.offers) == (True, None, 20)
    # Drawn from the seed of the run.
    assert [(each.offer, each.kind, each.lost) for each in found.interruptions] == [
        (3, "damaged", 1),
        (10, "killed", 2),
    ]
    counts = {part.part: part.count for part in found.parts}
    assert counts["evaluation episodes"] == "4 episodes"
    assert counts["learning curve"] == "20 points"


@pytest.mark.slow
def test_a_forgotten_optimizer_is_reported(verify):
    found = verify("ForgetsOptimizer", batches=2)
    assert [(each.offer, each.kind) for each in found.interruptions] == [(1, "stopped")]
    assert not found.exact
    assert found.hint.startswith(LACKS)
    assert "`bc.policy." in found.hint
    unequal = {part.part for part in found.parts if part.differences}
    assert {"evaluation episodes", "policy"} <= unequal
    document = as_document(found)
    assert document["exact"] is False
    assert len(document["parts"][2]["differences"]) > 0


def test_a_method_that_offers_no_checkpoint_is_reported(verify):
    found = verify("OffersNothing")
    assert (found.exact, found.hint) == (False, OFFERS_NONE)


@pytest.mark.slow
def test_a_forgotten_generator_is_reported(verify):
    assert verify("ForgetsGenerator").hint.startswith(LACKS)


@pytest.mark.slow
def test_a_state_that_is_saved_but_not_restored_is_named(verify):
    found = verify("RestoresWithoutGenerator")
    assert found.hint.startswith("load_state_dict() does not restore `bc.rng.state.")


@pytest.mark.slow
def test_a_training_that_is_not_repeatable_is_distinguished(verify):
    assert verify("Unseeded").hint.startswith(NOT_REPEATABLE)


@pytest.mark.slow
def test_a_method_that_swallows_a_stop_is_reported(verify):
    # One offer in the middle: the first interruption requests a stop.
    found = verify("Swallows", batches=2)
    assert "must not swallow exceptions" in found.hint


@pytest.mark.slow
def test_a_state_that_cannot_be_stored_is_reported(verify):
    assert "is not stored" in verify("KeepsAnObject").hint


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dagger", "mce_irl", "random"])
def test_other_algorithms_resume_bit_for_bit(verify, algo):
    found = verify(algo=algo, kills=3)
    assert (found.exact, found.hint) == (True, None)
    assert len(found.interruptions) == (0 if load_algorithm(algo).role == "anchor" else 4)


def interrupted(unrestored=(), later=()):
    return InterruptionOutcome(3, "killed", 2, list(unrestored), list(later))


UNEQUAL = [PartDifferences("policy", "1 arrays", [Difference("weight", "differs")])]


@pytest.mark.parametrize(
    ("verification", "hint"),
    [
        (ResumeVerdict(parts=UNEQUAL), NOT_TRAINING),
        (ResumeVerdict(interruptions=[interrupted(later=[Difference("w", "differs")])],
                      before=[Difference("x", "differs", in_array=True)], parts=UNEQUAL),
         NOT_REPEATABLE),
        (
            ResumeVerdict(interruptions=[interrupted(later=[Difference("w", "differs")])],
                         before=[Difference("x", "differs")], parts=UNEQUAL),
            LACKS,
        ),
        (ResumeVerdict(interruptions=[interrupted([Difference("w", "differs")])]),
         "load_state_dict() does not restore `w` differs"),
        (ResumeVerdict(problem="it broke"), "it broke"),
    ],
)  # fmt: skip
def test_the_hint_names_the_most_likely_fault(verification, hint):
    assert not verification.exact
    assert verification.hint.startswith(hint)


def test_differences_in_a_state_without_effect_on_results_are_accepted():
    found = ResumeVerdict(
        interruptions=[interrupted(later=[Difference("seconds", "is 2 instead of 1")])],
        parts=[PartDifferences("policy", "1 arrays", [])],
    )
    assert (found.exact, found.hint) == (True, None)
