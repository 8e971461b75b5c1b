"""Comparisons by sampled actions and by the most likely ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from imitbench.cards.catalog import load_suite
from imitbench.errors import InputError
from imitbench.records.bundled_cards import likely_score, measured_references
from imitbench.records.runs import ReferenceScores
from imitbench.report.comparison_runs import ComparableRun
from imitbench.report.pairwise import PairwiseOptions, compare_pairwise
from imitbench.report.pairwise_text import environment_table, heading, pairwise_document, summary
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalRun

CONDITIONS = Conditions("classic", "quick", 10, "bundled")
ENVIRONMENTS = ("Pendulum-v1", "seals/CartPole-v0")
CELLS = [
    (name, env_id)
    for name in ("classic", "diagnostics", "tabular", "seals", "seals-hard")
    for env_id in load_suite(name).environments
]


def scale_of(suite, env_id):
    card = load_suite(suite)
    found = card.environments[env_id].references
    scores = ReferenceScores(
        random=found.random.mean, expert=found.expert.mean, version=card.version
    )
    return found, scores


@pytest.mark.parametrize(("suite", "env_id"), CELLS)
def test_the_likely_expert_has_score_one(suite, env_id):
    found, scores = scale_of(suite, env_id)
    assert measured_references(suite, env_id, scores) == found
    deterministic = scores.score(found.expert_likely.mean)
    assert likely_score(suite, env_id, scores, deterministic) == pytest.approx(1.0)
    assert likely_score(suite, env_id, scores, 0.0) == 0.0


@pytest.mark.parametrize(
    "changed", [{"version": "0"}, {"version": "1+hub"}, {"expert": 0.5}, {"random": -2000.0}]
)
def test_other_references_have_no_second_one(changed):
    _, scores = scale_of("classic", "Pendulum-v1")
    other = scores.model_copy(update=changed)
    assert math.isnan(likely_score("classic", "Pendulum-v1", other, 1.0))
    assert math.isnan(likely_score("my_suite", "Pendulum-v1", scores, 1.0))
    assert math.isnan(likely_score("classic", "Elsewhere-v0", scores, 1.0))


def test_runs_of_a_board_have_scores_by_most_likely_actions():
    found, scores = scale_of("classic", "Pendulum-v1")
    run = ExternalRun(
        place="1", status="completed", algo="bc", env="Pendulum-v1", suite="classic", score=0.9,
        score_deterministic=scores.score(found.expert_likely.mean),
        **{f"reference_{name}": value for name, value in scores if name in ("random", "expert")},
        reference_version=scores.version,
    )  # fmt: skip
    assert run.score_likely == pytest.approx(1.0)
    assert run.model_copy(update={"suite": None}).score_likely is None
    assert run.model_copy(update={"score_deterministic": None}).score_likely is None


def entries(**levels):
    """Ten runs of each algorithm on each environment, with scores near those of both ways."""
    rng = np.random.default_rng(0)
    return [
        ComparableRun(
            CONDITIONS, env, algo, sampled + noise, score_one="expert", score_likely=likely + noise
        )
        for algo, (sampled, likely) in levels.items()
        for env in ENVIRONMENTS
        for noise in rng.normal(0, 0.02, 10)
    ]


def compared(runs, **options):
    [found] = compare_pairwise(
        "dac", runs, runs, ["bc"], PairwiseOptions(replicates=500, **options)
    )
    [verdict] = found.verdicts
    return found, verdict


def test_what_turns_round_with_the_way_of_acting_is_undecided():
    runs = entries(dac=(0.9, 0.9), bc=(0.8, 1.0))
    found, verdict = compared(runs)
    assert (verdict.decision, verdict.reason) == ("undecided", "ways of acting differ")
    assert summary(found, verdict)[0] == (
        "dac against bc: undecided (better with sampled actions, worse with most likely actions)"
    )
    columns, rows = environment_table(found, verdict)
    shown = dict(zip([column.name for column in columns], rows[0], strict=True))
    assert shown["verdict"] == "undecided: better if sampled, worse if likely"
    assert shown["difference"].startswith("+0.")
    assert shown["most likely"].startswith("-0.")
    [contest] = pairwise_document([found], PairwiseOptions())["contests"]
    ways = contest["verdicts"][0]["by_acting"]
    assert {way: each["verdict"] for way, each in ways.items()} == {
        "sampled": "better",
        "likely": "worse",
    }
    assert compared(runs, acting="sampled")[1].decision == "better"
    assert compared(runs, acting="likely")[1].decision == "worse"


def test_what_holds_in_one_way_only_says_in_which():
    found, verdict = compared(entries(dac=(0.9, 0.9), bc=(0.8, 0.9)))
    assert summary(found, verdict)[0].endswith(
        "undecided (better with sampled actions, undecided with most likely actions)"
    )


def test_what_holds_in_both_ways_is_decided():
    found, verdict = compared(entries(dac=(0.9, 1.0), bc=(0.8, 0.9)))
    assert (verdict.decision, verdict.reason) == ("better", "decided")
    lines = summary(found, verdict)
    assert lines[0] == "dac against bc: better"
    assert [line for line in lines if line.endswith("actions:")] == [
        "  with sampled actions:",
        "  with most likely actions:",
    ]


def test_both_ways_must_hold_however_failed_runs_count():
    failed = [ComparableRun(CONDITIONS, env, "dac", None) for env in ENVIRONMENTS for _ in range(9)]
    runs = [*entries(dac=(0.9, 1.0), bc=(0.8, 0.9)), *failed]
    found, verdict = compared(runs)
    assert (verdict.decision, verdict.reason) == ("undecided", "failed runs decide")
    assert {one.reason for one in found.ways(verdict).values()} == {"failed runs decide"}


def test_without_the_second_reference_only_sampled_actions_are_compared():
    whole = entries(dac=(0.9, 0.8), bc=(0.8, 0.9))
    runs = [replace(run, score_likely=None) if run.algo == "bc" else run for run in whole]
    found, verdict = compared(runs)
    assert verdict.decision == "better"
    assert list(found.by_acting) == ["sampled"]
    assert heading(found)[1] == (
        "sampled actions only: the return of the expert's most likely actions under the "
        "references of bc on Pendulum-v1 is unknown"
    )
    assert not any(line.endswith("actions:") for line in summary(found, verdict))
    assert "most likely" not in [column.name for column in environment_table(found, verdict)[0]]
    assert compared(runs, acting="sampled")[0].lacking is None
    for acting in ("likely", "both"):
        with pytest.raises(InputError, match=f"--acting {acting}: .*measure classic --likely"):
            compared(runs, acting=acting)
