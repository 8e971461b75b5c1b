"""Comparisons by sampled actions and by the most likely ones."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from imitbench.cards.catalog import load_suite
from imitbench.errors import InputError
from imitbench.records.bundled_cards import likely_score, measured_references
from imitbench.records.runs import ReferenceRow, ReferenceScores
from imitbench.report.comparison_runs import ComparableRun
from imitbench.report.data_formats import render_csv
from imitbench.report.html_page import render_html
from imitbench.report.markdown import render_markdown
from imitbench.report.pairwise import PairwiseOptions, compare_pairwise
from imitbench.report.pairwise_text import environment_table, heading, pairwise_document, summary
from imitbench.report.section_comparison import compare_section
from imitbench.report.tables import build_report
from imitbench.stats.coverage import FailurePolicy
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalRun

CONDITIONS = Conditions.recorded("classic", "quick", 10, "bundled")
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
        with pytest.raises(InputError, match=f"--acting {acting}: .*measure ./SUITE --likely"):
            compared(runs, acting=acting)


def shifted(make_score, **changes):
    """Two methods on two environments; of each run, the most likely actions score 0.1 less."""
    runs = [
        make_score(algo, env, seed, raw_return + seed)
        for algo, raw_return in (("bc", 400.0), ("dac", 410.0))
        for env in ("CartPole",)
        for seed in range(4)
    ]
    return [
        row.model_copy(update={"score_likely": row.score - 0.1, **changes.get(row.algo, {})})
        for row in runs
    ]


def test_a_report_shows_the_iqm_of_most_likely_actions(make_score, references):
    report = build_report(shifted(make_score), [], references[:1], replicates=200)
    [section] = report.sections
    assert section.acting == ("sampled", "likely")
    assert not [note for note in section.notes if "most likely" in note]
    [bc] = [result for result in section.algorithms if result.algorithm == "bc"]
    assert bc.iqm_likely.point == pytest.approx(bc.iqm.point - 0.1)
    assert bc.iqm_likely.high - bc.iqm_likely.low == pytest.approx(bc.iqm.high - bc.iqm.low)
    assert bc.cells[0].score_likely == pytest.approx(bc.cells[0].score - 0.1)
    shown = render_markdown(report)
    assert "| IQM score | IQM, likely |" in " ".join(shown.split())
    assert "those of the expert have score 1." in shown
    page = render_html(report)
    assert "Probability of improvement with most likely actions" in page
    assert "those of the expert have score 1.</dd>" in page
    rows = list(csv.DictReader(io.StringIO(render_csv(report))))
    [aggregate] = [row for row in rows if (row["row"], row["algorithm"]) == ("aggregate", "bc")]
    assert float(aggregate["score_iqm_likely"]) == pytest.approx(bc.iqm_likely.point)
    [cell] = [row for row in rows if (row["row"], row["algorithm"]) == ("cell", "bc")]
    assert float(cell["score_likely_mean"]) == pytest.approx(bc.cells[0].score_likely)


def test_a_report_of_sampled_actions_alone(make_score, references):
    scores = shifted(make_score)
    report = build_report(scores, [], references[:1], replicates=200, acting="sampled")
    assert report.sections[0].acting == ("sampled",)
    assert all(result.iqm_likely is None for result in report.sections[0].algorithms)
    assert "likely" not in render_markdown(report)


def test_most_likely_actions_alone_are_compared(make_score, references):
    worse = {"dac": {"score_likely": 0.0}}
    ways = {}
    for acting in ("sampled", "likely"):
        scores = shifted(make_score, **worse)
        report = build_report(scores, [], references[:1], replicates=200, acting=acting)
        [section] = report.sections
        found = compare_section(section, report.method).improvement
        ways[acting] = found.of("dac", "bc").probability.point
    assert ways == {"sampled": 1.0, "likely": 0.0}


def test_failed_runs_count_in_both_ways(make_score, make_failure, references):
    report = build_report(
        shifted(make_score), [make_failure("bc", "CartPole", seed) for seed in (4, 5, 6, 7)],
        references[:1], replicates=200, failed_runs=FailurePolicy.COUNT_AS_RANDOM,
    )  # fmt: skip
    [bc] = [one for one in report.sections[0].algorithms if one.algorithm == "bc"]
    [alone] = build_report(shifted(make_score), [], references[:1], replicates=200).sections
    [before] = [one for one in alone.algorithms if one.algorithm == "bc"]
    assert bc.cells[0].score_likely == pytest.approx(before.cells[0].score_likely / 2)
    assert bc.iqm_likely.point < before.iqm_likely.point


def test_one_run_without_the_second_reference_leaves_sampled_actions(make_score, references):
    scores = shifted(make_score, dac={"score_likely": math.nan})
    [section] = build_report(scores, [], references[:1], replicates=200).sections
    assert section.acting == ("sampled",)
    assert section.notes[-1] == (
        "Only sampled actions are compared: the return of the expert's most likely actions under "
        "the references of dac on CartPole is unknown."
    )
    likely = {one.algorithm: one.iqm_likely for one in section.algorithms}
    assert likely["dac"] is None
    assert likely["bc"] is not None
    for acting in ("likely", "both"):
        with pytest.raises(InputError, match=f"--acting {acting}: .*measure ./SUITE --likely"):
            build_report(scores, [], references[:1], replicates=200, acting=acting)


def test_anchors_have_both_scores_by_definition(make_score):
    _, scores = scale_of("classic", "Pendulum-v1")
    reference = ReferenceRow(suite="classic", env="Pendulum-v1", **dict(scores))
    run = make_score("bc", "Pendulum", 0, -300.0, score_likely=0.9)
    run = run.model_copy(update={"env": "Pendulum-v1"})
    [section] = build_report([run], [], [reference], replicates=200).sections
    points = {one.algorithm: one.iqm_likely.point for one in section.algorithms}
    assert points == {"bc": pytest.approx(0.9), "expert": 1.0, "random": 0.0}
    other = reference.model_copy(update={"version": "0"})
    [section] = build_report([run], [], [other], replicates=200).sections
    assert {one.iqm_likely for one in section.algorithms if one.algorithm != "bc"} == {None}


def test_intervals_include_the_errors_of_references(make_score):
    found, scores = scale_of("classic", "Pendulum-v1")
    reference = ReferenceRow(suite="classic", env="Pendulum-v1", **dict(scores))
    runs = [
        make_score("bc", "Pendulum", seed, scores.expert, score=1.0, score_likely=1.0).model_copy(
            update={"env": "Pendulum-v1"}
        )
        for seed in range(3)
    ]
    [section] = build_report(runs, [], [reference], replicates=4000).sections
    [bc] = [one for one in section.algorithms if one.algorithm == "bc"]
    # At the score 1, only the error of the expert counts.
    for interval, expert in ((bc.iqm, found.expert), (bc.iqm_likely, found.expert_likely)):
        reach = 1.96 * expert.standard_error / (expert.mean - scores.random)
        assert interval.point == 1.0
        assert interval.high - interval.low == pytest.approx(2 * reach, rel=0.1)
    other = reference.model_copy(update={"version": "0"})
    [section] = build_report(runs, [], [other], replicates=200).sections
    [bc] = [one for one in section.algorithms if one.algorithm == "bc"]
    assert (bc.iqm.low, bc.iqm.high) == (1.0, 1.0)


def test_a_name_without_runs_stands_for_its_only_variant():
    runs = [
        replace(run, algo="dac[tuned]") if run.algo == "dac" else run
        for run in entries(dac=(0.9, 0.9), bc=(0.8, 0.8))
    ]
    found, verdict = compared(runs)
    assert found.algorithm == "dac[tuned]"
    assert verdict.decision == "better"
    packed = [replace(run, algo="dac[pack=5]") for run in runs if run.algo == "dac[tuned]"]
    with pytest.raises(InputError, match=r"name one of dac\[pack=5\], dac\[tuned\]"):
        compared([*runs, *packed])


def perturbed_runs(algo, plain, noisy):
    rng = np.random.default_rng(0)
    return [
        ComparableRun(CONDITIONS, env, algo, float(score), score_likely=float(score))
        for env, mean in (("Pendulum-v1", plain), ("Pendulum-v1+noise", noisy))
        for score in rng.normal(mean, 0.02, 6)
    ]


def test_comparisons_tell_what_perturbations_change():
    entries = [*perturbed_runs("bc", 0.9, 0.6), *perturbed_runs("gail", 0.8, 0.75)]
    [found] = compare_pairwise("bc", entries, entries, ["gail"], PairwiseOptions(replicates=200))
    [effect] = found.perturbations["gail"]
    assert (effect.perturbed, effect.control) == ("Pendulum-v1+noise", "Pendulum-v1")
    assert effect.difference == pytest.approx(-0.25, abs=0.03)
    lines = summary(found, found.verdicts[0])
    assert "  changes under perturbation, and their difference:" in lines
    assert lines[-1].startswith("    Pendulum-v1+noise: bc -0.")
    assert "; -0.2" in lines[-1]
    [contest] = pairwise_document([found], PairwiseOptions())["contests"]
    assert contest["verdicts"][0]["perturbations"][0]["adjusted"] < 0.05
    [plain] = compare_pairwise(
        "bc", [run for run in entries if "+" not in run.env], entries, ["gail"], PairwiseOptions()
    )
    assert plain.perturbations == {"gail": []}
    assert not any("perturbation" in line for line in summary(plain, plain.verdicts[0]))


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_seeds_say_how_many_are_needed_at_least(runs):
    """A single run has an unknown spread, not none."""
    chosen = [
        ComparableRun(CONDITIONS, ENVIRONMENTS[0], algo, score)
        for algo, score in (("dac", 0.9), ("bc", 0.5))
        for _ in range(runs)
    ]
    found, verdict = compared(chosen)
    lacking = verdict.test.lacking
    assert lacking == 4 - runs
    assert summary(found, verdict)[-1].strip() == (
        f"at least {lacking} more seeds of each are needed before any difference could show"
    )
