"""The held-out comparison: its candidates, and when one counts as better."""

import pytest

from imitbench.tune.held_out_comparison import (
    Candidate,
    CandidateResult,
    candidates,
    compare_candidates,
)
from imitbench.tune.study import Trial


def trial(number, value, state="complete", **values):
    return Trial(number=number, id=number, state=state, values=values, value=value)


def standing(number, scores, failed=0):
    return CandidateResult(
        candidate=Candidate(trial=number, values={"a": number}),
        scores=list(scores),
        returns=list(scores),
        failed=failed,
    )


def test_the_best_complete_trials_are_compared_with_the_default():
    trials = [
        trial(0, 0.9, a=0), trial(1, 0.5, a=1), trial(2, 0.8, a=2), trial(3, 0.99, "pruned", a=3),
        trial(4, 0.7, a=4), trial(5, 0.8, a=2), trial(6, None, "failed", a=6),
    ]  # fmt: skip
    chosen = candidates(trials, {"a": 0}, best=2)
    assert [each.name for each in chosen] == ["default", "trial 2", "trial 4"]
    assert [each.name for each in candidates(trials[:1], {"a": 0}, best=2)] == ["default"]


def test_a_clear_difference_is_better():
    comparison = compare_candidates(
        [standing(0, [0.1, 0.2, 0.15, 0.12, 0.18]), standing(1, [0.3, 0.2, 0.1, 0.25, 0.28]),
         standing(2, [0.9, 0.8, 0.85, 0.92, 0.88])],
        trials=9,
    )  # fmt: skip
    assert comparison.decision == "better"
    assert comparison.winner.candidate.trial == 2
    assert comparison.winner.difference == pytest.approx(0.72)
    assert comparison.winner.p_value < 0.05
    assert [each.decision for each in comparison.standings] == [None, "better", "undecided"]


def test_a_small_difference_is_undecided_and_a_worse_mean_is_not_better():
    default = [0.5, 0.6, 0.55, 0.62, 0.48]
    undecided = compare_candidates(
        [standing(0, default), standing(1, [0.6, 0.5, 0.58, 0.6, 0.55])], trials=9
    )
    assert undecided.decision == "undecided"
    worse = compare_candidates(
        [standing(0, default), standing(1, [0.4, 0.5, 0.5, 0.6, 0.4])], trials=9
    )
    assert worse.decision == "not better"


def test_too_few_seeds_are_undecided_and_the_missing_number_is_reported():
    comparison = compare_candidates([standing(0, [0.1, 0.2]), standing(1, [0.8, 0.9])], trials=9)
    assert comparison.decision == "undecided"
    assert comparison.winner.more_seeds == 2


def test_a_candidate_with_a_failed_run_cannot_win():
    comparison = compare_candidates(
        [standing(0, [0.1] * 5), standing(1, [0.9] * 4, failed=1)], trials=9
    )
    assert comparison.winner is None
    assert comparison.decision == "not better"
    comparison = compare_candidates(
        [standing(0, [0.1] * 4, failed=1), standing(1, [0.9] * 5)], trials=9
    )
    assert comparison.decision == "undecided"


def test_without_candidates_there_is_no_winner():
    comparison = compare_candidates([standing(0, [])], trials=9)
    assert (comparison.winner, comparison.decision) == (None, "not better")


def test_environments_of_a_suite_have_equal_weight():
    """Easy and hard environments differ by more than settings do; each is compared with itself."""

    def standing_on_two(number, easy, hard):
        scores = [*easy, *hard]
        return standing(number, scores).model_copy(
            update={"environments": ["easy"] * len(easy) + ["hard"] * len(hard)}
        )

    default = standing_on_two(0, [0.90, 0.91, 0.92, 0.93], [0.10, 0.11, 0.12, 0.13])
    other = standing_on_two(1, [0.95, 0.96, 0.97, 0.98], [0.15, 0.16, 0.17, 0.18])
    comparison = compare_candidates([default, other], trials=9)
    assert comparison.decision == "better"
    assert comparison.winner.difference == pytest.approx(0.05)
    pooled = compare_candidates([standing(0, default.scores), standing(1, other.scores)], trials=9)
    assert pooled.decision == "undecided"
