from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import numpy as np
import pytest

from imitbench.records.runs import FailureRow, ReferenceRow, ScoreRow
from imitbench.report.model import AlgorithmResult, Report, Section
from imitbench.report.tables import build_report
from imitbench.stats.aggregates import interquartile_mean, mean
from imitbench.stats.bootstrap import stratified_bootstraps
from imitbench.store.comparability import Conditions

MakeScore = Callable[..., ScoreRow]
MakeFailure = Callable[..., FailureRow]


def only_section(report: Report) -> Section:
    (section,) = report.sections
    return section


def of(section: Section, algorithm: str) -> AlgorithmResult:
    (result,) = (result for result in section.algorithms if result.algorithm == algorithm)
    return result


def build(
    rows: list[ScoreRow],
    failures: list[FailureRow] | None = None,
    references: list[ReferenceRow] | None = None,
) -> Report:
    return build_report(rows, failures or [], references or [], replicates=200)


def test_a_cell_averages_the_runs_of_its_seeds(report: Report) -> None:
    section = only_section(report)
    cell = of(section, "bc").cells[section.environments.index("CartPole")]
    returns = [480.0, 470.0, 499.5]
    assert (cell.kind, cell.seeds, cell.runs, cell.failures) == ("run", 3, 3, 0)
    assert cell.raw_mean == pytest.approx(statistics.mean(returns))
    assert cell.raw_std == pytest.approx(statistics.stdev(returns))
    assert cell.score == pytest.approx((statistics.mean(returns) - 20) / 480)
    assert cell.score_deterministic == pytest.approx((statistics.mean(returns) + 1 - 20) / 480)
    assert cell.mean_length == 200.0


def test_aggregates_are_those_of_the_statistics_package(
    report: Report, rows: list[ScoreRow]
) -> None:
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.algo == "bc":
            scores.setdefault(row.env, []).append(row.score)
    result = of(only_section(report), "bc")
    for found, statistic in ((result.mean, mean), (result.iqm, interquartile_mean)):
        generator = np.random.default_rng(0)
        named = {"statistic": statistic}
        due = stratified_bootstraps(scores, named, replicates=2000, rng=generator)
        assert found == due["statistic"]


def test_unequal_seed_counts_are_kept_and_noted(report: Report) -> None:
    result = of(only_section(report), "bc")
    assert result.seeds == (2, 3)
    assert [cell.runs for cell in result.cells] == [3, 2, 3]


def test_an_algorithm_that_lacks_an_environment_is_marked_partial(report: Report) -> None:
    section = only_section(report)
    result = of(section, "gail")
    assert result.partial
    assert [cell.environment for cell in result.covered] == ["CartPole", "Pendulum"]
    missing = result.cells[section.environments.index("Reacher")]
    assert (missing.kind, missing.score, missing.failures) == ("missing", None, 2)
    assert any("gail" in note and "Reacher (2 failed)" in note for note in section.notes)


def test_learners_are_ordered_by_iqm_and_anchors_come_last(report: Report) -> None:
    names = [result.algorithm for result in only_section(report).algorithms]
    assert names == ["bc", "gail", "expert", "random"]


def test_a_failure_never_reaches_the_scores_but_is_counted(report: Report) -> None:
    result = of(only_section(report), "bc")
    assert result.failures == 1
    assert [cell.failures for cell in result.cells] == [0, 1, 0]
    assert [(row.algo, row.seed) for row in report.failures] == [
        ("bc", 2),
        ("gail", 0),
        ("gail", 1),
    ]


def test_references_replace_anchors_that_were_not_run(report: Report) -> None:
    section = only_section(report)
    expert, anchor = of(section, "expert"), of(section, "random")
    assert {cell.kind for cell in expert.cells} == {"reference"}
    assert [cell.raw_mean for cell in expert.cells] == [500.0, -200.0, -3.7]
    assert expert.mean is not None
    assert (expert.mean.point, expert.mean.known) == (1.0, False)
    assert [cell.kind for cell in anchor.cells] == ["run", "run", "reference"]
    assert anchor.cells[2].score == 0.0
    assert anchor.partial  # its aggregate is over runs alone
    assert any("random was not run on Reacher" in note for note in section.notes)


def test_an_anchor_without_runs_and_references_is_shown_as_missing(rows: list[ScoreRow]) -> None:
    section = only_section(build(rows))
    assert {cell.kind for cell in of(section, "expert").cells} == {"missing"}
    assert of(section, "expert").mean is None
    assert any("expert has no completed run and no reference" in note for note in section.notes)


@pytest.mark.parametrize(
    ("change", "conditions"),
    [
        ({"budget": "full"}, Conditions.recorded("classic", "full", 10, "bundled")),
        ({"n_demos": 1}, Conditions.recorded("classic", "quick", 1, "bundled")),
        ({"all_demos": True}, Conditions.recorded("classic", "quick", "all", "bundled")),
        ({"source": "path:mine"}, Conditions.recorded("classic", "quick", 10, "path:mine")),
    ],
)
def test_runs_under_different_conditions_are_never_averaged(
    make_score: MakeScore, change: dict[str, object], conditions: Conditions
) -> None:
    rows = [make_score("bc", "CartPole", 0, 100.0)]
    rows += [make_score("bc", "CartPole", 0, 400.0, run_id="other", **change)]
    found = {
        section.conditions: of(section, "bc").cells[0].raw_mean for section in build(rows).sections
    }
    assert found == {
        Conditions.recorded("classic", "quick", 10, "bundled"): 100.0,
        conditions: 400.0,
    }


def test_sections_go_by_suite_then_from_small_budgets_to_large(make_score: MakeScore) -> None:
    rows = [
        make_score("bc", "CartPole", 0, 1.0, run_id=f"{suite}{budget}", suite=suite, budget=budget)
        for suite in ("seals", "classic")
        for budget in ("full", "default", "quick")
    ]
    titles = [section.title for section in build(rows).sections]
    assert titles == [
        f"{suite}: budget {budget}, 10 demonstrations, source bundled"
        for suite in ("classic", "seals")
        for budget in ("quick", "default", "full")
    ]


def test_anchors_are_in_every_section_and_count_a_seed_once(make_score: MakeScore) -> None:
    rows = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("quick", "full")]
    rows += [make_score("random", "CartPole", 0, 20.0, budget=b) for b in ("quick", "full")]
    rows += [make_score("expert", "CartPole", 0, 499.0, budget="quick")]
    for section in build(rows).sections:
        assert [cell.runs for cell in of(section, "random").cells] == [1]
        assert [cell.raw_mean for cell in of(section, "expert").cells] == [499.0]


def test_an_expert_of_another_source_is_not_shown(
    make_score: MakeScore, references: list[ReferenceRow]
) -> None:
    rows = [
        make_score("bc", "CartPole", 0, 300.0),
        make_score("expert", "CartPole", 0, 400.0, source="path:mine"),
    ]
    section = only_section(build(rows, references=references))
    assert [cell.kind for cell in of(section, "expert").cells] == ["reference"]


def test_a_suite_with_anchors_alone_is_reported(make_score: MakeScore) -> None:
    section = only_section(build([make_score("random", "CartPole", seed, 20.0) for seed in (0, 1)]))
    assert section.title == "classic"
    assert of(section, "random").seeds == (2, 2)


def test_only_failures_make_a_section_without_aggregates(
    make_failure: MakeFailure, references: list[ReferenceRow]
) -> None:
    section = only_section(build([], [make_failure("bc", "CartPole", 0)], references))
    result = of(section, "bc")
    assert (result.kind, result.mean, result.iqm, result.failures) == ("missing", None, None, 1)
    assert section.environments == ("CartPole",)
    assert [row.env for row in section.references] == ["CartPole"]


def test_failures_are_counted_in_the_section_of_their_own_group(
    make_score: MakeScore, make_failure: MakeFailure
) -> None:
    rows = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("quick", "full")]
    report = build(rows, [make_failure("bc", "CartPole", 1)])
    assert [of(section, "bc").failures for section in report.sections] == [1, 0]
    assert len(report.failures) == 1


def anchor_failure(
    make: MakeFailure, algo: str, env: str, seed: int, **changes: object
) -> FailureRow:
    fields: dict[str, object] = {"n_demos": None, "all_demos": None, "run_id": f"{algo}{changes}"}
    return make(algo, env, seed, **{**fields, **changes})


def test_a_failed_anchor_counts_like_a_completed_one(
    make_score: MakeScore, make_failure: MakeFailure
) -> None:
    """Once under two budgets, and not where its seed completed, or with another source."""
    rows = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("quick", "full")]
    rows += [
        make_score("random", "CartPole", 0, 20.0, budget="default"),
        make_score("expert", "CartPole", 0, 499.0),
    ]
    failures = [
        anchor_failure(make_failure, "random", "CartPole", seed, source=None, budget=budget)
        for seed in (0, 1)
        for budget in ("quick", "full")
    ]
    failures += [
        anchor_failure(make_failure, "expert", "CartPole", seed, source=source)
        for seed, source in ((1, "bundled"), (2, "hub"))
    ]
    report = build(rows, failures)
    assert len(report.sections) == 2
    for section in report.sections:
        assert (of(section, "random").failures, of(section, "expert").failures) == (1, 1)
    assert len(report.failures) == 6


def test_a_failed_anchor_adds_an_environment_only_under_its_own_budget(
    make_score: MakeScore, make_failure: MakeFailure
) -> None:
    rows = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("quick", "full")]
    failure = anchor_failure(make_failure, "random", "Reacher", 0, source=None, budget="quick")
    quick, full = build(rows, [failure]).sections
    assert (quick.environments, full.environments) == (("CartPole", "Reacher"), ("CartPole",))
    assert of(quick, "bc").partial
    assert not of(full, "bc").partial


def test_a_section_has_the_environments_of_the_runs_that_define_it(
    make_score: MakeScore, make_failure: MakeFailure
) -> None:
    rows = [
        make_score("bc", "CartPole", 0, 300.0),
        make_score("gail", "CartPole", 0, 300.0),
        make_score("gail", "Reacher", 0, -5.0),
        make_score("airl", "Reacher", 0, -5.0),
    ]
    failures = [make_failure("gail", "Pendulum", 0)]
    one = only_section(build_report(rows, failures, [], replicates=200, defining={rows[0].run_id}))
    assert one.environments == ("CartPole",)
    assert [result.algorithm for result in one.algorithms if result.role == "method"] == [
        "bc",
        "gail",
    ]
    assert not of(one, "gail").partial
    assert {row.env for row in one.runs} == {"CartPole"}
    without = only_section(build_report(rows, failures, [], replicates=200, defining=set()))
    assert without.environments == ("CartPole", "Pendulum", "Reacher")


def test_environments_may_have_sets_of_different_size_when_all_are_used(
    make_score: MakeScore,
) -> None:
    rows = [
        make_score("bc", env, 0, 0.0, n_demos=count, all_demos=True)
        for env, count in (("CartPole", 24), ("Pendulum", 50))
    ]
    section = only_section(build(rows))
    assert section.environments == ("CartPole", "Pendulum")
    assert "all demonstrations" in section.title


def test_a_single_seed_has_neither_spread_nor_interval(make_score: MakeScore) -> None:
    result = of(only_section(build([make_score("bc", "CartPole", 0, 300.0)])), "bc")
    assert result.cells[0].raw_std is None
    assert result.iqm is not None
    assert not result.iqm.known


def test_an_interval_that_leaves_out_an_environment_is_explained(make_score: MakeScore) -> None:
    rows = [make_score("bc", "CartPole", seed, 300.0 + seed) for seed in (0, 1)]
    rows += [make_score("bc", "Pendulum", 0, -300.0)]
    notes = only_section(build(rows)).notes
    assert any("bc has a single run on Pendulum" in note for note in notes)


def test_runs_that_share_a_seed_do_not_count_as_several_seeds(make_score: MakeScore) -> None:
    rows = [make_score("bc", "CartPole", 0, 300.0, run_id=name) for name in "ab"]
    section = only_section(build(rows))
    assert (of(section, "bc").cells[0].seeds, of(section, "bc").cells[0].runs) == (1, 2)
    assert any("2 runs share 1 seed;" in note for note in section.notes)


def test_a_score_that_is_not_finite_is_shown_and_not_aggregated(make_score: MakeScore) -> None:
    rows = [make_score("bc", "CartPole", 0, math.nan), make_score("bc", "CartPole", 1, 300.0)]
    section = only_section(build(rows))
    result = of(section, "bc")
    assert result.cells[0].score is not None
    assert math.isnan(result.cells[0].score)
    assert result.mean is None
    assert any("not finite on CartPole" in note for note in section.notes)


def test_references_that_define_no_score_are_shown_without_one(make_score: MakeScore) -> None:
    equal = ReferenceRow(suite="classic", env="CartPole", version="1.0", random=9.0, expert=9.0)
    section = only_section(build([make_score("bc", "CartPole", 0, 9.0)], references=[equal]))
    for name in ("random", "expert"):
        [cell] = of(section, name).cells
        assert (cell.raw_mean, cell.score) == (9.0, None)
        assert of(section, name).iqm is None


def test_references_of_several_versions_and_other_scales_are_noted(
    make_score: MakeScore, references: list[ReferenceRow]
) -> None:
    older = ReferenceRow(suite="classic", env="CartPole", version="0.9", random=0.0, expert=400.0)
    newer = ReferenceRow(suite="classic", env="CartPole", version="0.10", random=5.0, expert=450.0)
    rows = [
        make_score("bc", "CartPole", 0, 300.0),
        make_score("bc", "CartPole", 1, 300.0, score=0.123),
    ]
    section = only_section(build(rows, references=[newer, older]))
    assert [row.version for row in section.references] == ["0.9", "0.10"]
    assert of(section, "expert").cells[0].raw_mean == 450.0  # the latest one is used
    assert any("versions 0.10, 0.9" in note for note in section.notes)
    assert any("2 of 2 runs do not follow" in note for note in section.notes)
    agreeing = only_section(build(rows[:1], references=references))
    assert not any("do not follow" in note for note in agreeing.notes)


def test_different_references_of_one_version_are_noted_and_their_order_does_not_matter(
    make_score: MakeScore,
) -> None:
    known = [
        ReferenceRow(suite="classic", env="CartPole", version="1", random=20.0, expert=expert)
        for expert in (500.0, 250.0)
    ]
    rows = [make_score("bc", "CartPole", seed, 300.0) for seed in range(2)]
    section = only_section(build(rows, references=known))
    assert [row.expert for row in section.references] == [250.0, 500.0]
    assert of(section, "expert").cells[0].raw_mean == 500.0
    assert section == only_section(build(rows, references=known[::-1]))
    [note] = [note for note in section.notes if "references of version" in note]
    assert note.startswith("CartPole has 2 different references of version 1: scores under one")
    alone = only_section(build(rows, references=known[:1]))
    assert not any("references of version" in note for note in alone.notes)


def test_few_seeds_are_pointed_out_and_many_are_not(make_score: MakeScore) -> None:
    rows = [make_score("bc", "CartPole", seed, 300.0 + seed) for seed in range(10)]
    warning = "fewer than 10 seeds"
    assert any(warning in note for note in only_section(build(rows[:9])).notes)
    assert not any(warning in note for note in only_section(build(rows)).notes)


def test_the_order_of_rows_does_not_matter(
    rows: list[ScoreRow], failures: list[FailureRow], references: list[ReferenceRow], report: Report
) -> None:
    for seed in range(3):
        shuffler = random.Random(seed)
        mixed = [shuffler.sample(part, len(part)) for part in (rows, failures, references)]
        assert build_report(*mixed, replicates=2000) == report  # type: ignore[arg-type]


def test_an_algorithm_s_interval_does_not_depend_on_the_others(
    rows: list[ScoreRow], report: Report
) -> None:
    alone = build_report([row for row in rows if row.algo == "bc"], [], [], replicates=2000)
    assert of(only_section(alone), "bc").iqm == of(only_section(report), "bc").iqm


def test_the_seed_decides_the_intervals(rows: list[ScoreRow], report: Report) -> None:
    other = of(only_section(build_report(rows, [], [], replicates=2000, seed=1)), "bc").iqm
    assert other != of(only_section(report), "bc").iqm


def test_no_rows_make_no_section(references: list[ReferenceRow]) -> None:
    assert build([], [], references).sections == ()


def test_sections_keep_the_runs_that_their_cells_are_made_of(report: Report) -> None:
    (section,) = report.sections
    for result in section.algorithms:
        for cell in result.cells:
            runs = [
                row
                for row in section.runs
                if (row.algo, row.env) == (result.algorithm, cell.environment)
            ]
            assert len(runs) == (cell.runs if cell.kind == "run" else 0)
            assert [row.seed for row in runs] == sorted(row.seed for row in runs)


def test_a_method_that_queries_the_expert_is_shown_with_those_with_demonstrations(
    make_score, references
):
    rows = [
        make_score("bc", "CartPole", 0, 480.0, n_demos=10),
        make_score("bc", "CartPole", 0, 400.0, n_demos=3, run_id="few"),
        make_score("dagger", "CartPole", 0, 500.0, n_demos=None, all_demos=None),
        make_score("dagger", "CartPole", 0, 490.0, n_demos=None, all_demos=None, source="hub"),
    ]
    sections = build_report(rows, [], references, replicates=100).sections
    shown = {
        (section.conditions.n_demos, section.conditions.source): [
            (result.algorithm, result.cells[0].raw_mean)
            for result in section.algorithms
            if result.algorithm not in ("random", "expert")
        ]
        for section in sections
    }
    assert shown == {
        (3, "bundled"): [("dagger", 500.0), ("bc", 400.0)],
        (10, "bundled"): [("dagger", 500.0), ("bc", 480.0)],
        (None, "hub"): [("dagger", 490.0)],
    }
    assert any(
        note.startswith("dagger queries the expert during training") for note in sections[0].notes
    )
