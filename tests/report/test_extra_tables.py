"""Costs, further aggregates and imported results."""

import pytest

from imitbench.report.data_formats import render_csv
from imitbench.report.html_page import render_html
from imitbench.report.latex import render_latex
from imitbench.report.markdown import render_markdown
from imitbench.report.section_comparison import compare_section
from imitbench.report.tables import build_report
from imitbench.stats.coverage import FailurePolicy
from imitbench.store.external_results import ExternalScoreRow
from imitbench.store.run_details import ReportDetails

EVIL = r"<script>alert(1)</script> a|b $x$ \input{y} % {z}"


def table_of(section_or_report, title):
    [table] = [each for each in section_or_report.extra if each.title == title]
    return table


def shown(table):
    return [[entry.shown for entry in row] for row in table.rows]


@pytest.fixture
def report_of(references):
    def make(rows, failures=(), **options):
        return build_report(rows, list(failures), references, replicates=500, **options)

    return make


@pytest.fixture
def external():
    def make(**changes):
        fields = dict.fromkeys(ExternalScoreRow.model_fields) | {
            "run_id": "0",
            "name": "paper",
            "tool": "csv",
            "env": "CartPole",
            "algo": "bc",
            "raw_return": 440.0,
            "score": 0.875,
        }
        return ExternalScoreRow.model_validate(fields | changes)

    return make


def test_costs_are_means_over_environments_of_means_over_runs(make_score, report_of):
    rows = [
        make_score("bc", "CartPole", 0, 500.0, train_s=3600.0, env_steps=1_000_000, n_demos=4),
        make_score("bc", "CartPole", 1, 500.0, train_s=7200.0, env_steps=3_000_000, n_demos=4),
        make_score("bc", "Pendulum", 0, -700.0, train_s=900.0, env_steps=0, n_demos=4),
    ]
    [section] = report_of(rows).sections
    [bc] = [each for each in section.algorithms if each.algorithm == "bc"]
    assert (bc.cost.core_hours, bc.cost.env_steps, bc.cost.demos) == (0.875, 1_000_000, 4)
    [row] = shown(table_of(section, "Cost"))
    assert row == ["bc", "yes", "0.750", "0.875", "0.8571", "1", "0.75", "4", "0.1875"]


def test_the_frontier_has_what_nothing_beats_at_its_cost(make_score, report_of):
    rows = [
        make_score("cheap", "CartPole", 0, 260.0, train_s=10.0),
        make_score("dear", "CartPole", 0, 500.0, train_s=100.0),
        make_score("wasteful", "CartPole", 0, 400.0, train_s=200.0),
    ]
    [section] = report_of(rows).sections
    assert {row[0]: row[1] for row in shown(table_of(section, "Cost"))} == {
        "dear": "yes",
        "wasteful": "no",
        "cheap": "yes",
    }


def test_the_frontier_compares_means_over_the_same_environments(make_score, report_of):
    rows = [
        make_score("whole", "CartPole", 0, 500.0, train_s=100.0),
        make_score("whole", "Pendulum", 0, -700.0, train_s=100.0),
        make_score("poor", "CartPole", 0, 400.0, train_s=200.0),
        make_score("poor", "Pendulum", 0, -900.0, train_s=200.0),
        make_score("easy", "CartPole", 0, 490.0, train_s=10.0),
    ]
    [section] = report_of(rows).sections
    assert {row[0]: row[1] for row in shown(table_of(section, "Cost"))} == {
        "easy": "n/a",
        "whole": "yes",
        "poor": "no",
    }


def test_what_is_not_used_has_no_ratio(make_score, report_of):
    rows = [make_score("sac", "CartPole", 0, 500.0, n_demos=None, all_demos=None, env_steps=0)]
    [section] = report_of(rows).sections
    [row] = table_of(section, "Cost").rows
    assert [entry.shown for entry in row[5:]] == ["none", "n/a", "none", "n/a"]
    assert all(entry.key is None for entry in row[5:])


def test_median_and_gap_are_those_of_the_statistics(make_score, report_of):
    returns = {"CartPole": 500.0, "Pendulum": -1200.0, "Reacher": -3.7}
    rows = [make_score("bc", env, seed, r) for env, r in returns.items() for seed in range(2)]
    [section] = report_of(rows).sections
    [bc, *_] = shown(table_of(section, "Further aggregates"))
    assert bc == ["bc", "1.000 [1.000, 1.000]", "0.333 [0.333, 0.333]"]


def test_imported_results_are_in_separate_tables(make_score, report_of, external):
    rows = [make_score("bc", "CartPole", seed, 480.0) for seed in range(3)]
    mine, both = report_of(rows), report_of(rows, imported=[external(), external(run_id="1")])
    [before], [after] = mine.sections, both.sections
    assert after.algorithms == before.algorithms
    assert after.runs == before.runs
    assert shown(table_of(after, "Imported results")) == [
        ["CartPole", "paper:bc", "csv", "as stated", "2", "440.00 ± 0.00", "0.875 ± 0.000"]
    ]


def test_imported_results_of_other_conditions_are_in_other_tables(make_score, report_of, external):
    rows = [make_score("bc", "CartPole", 0, 480.0)]
    given = [external(n_demos=10), external(n_demos=3, run_id="1"), external(suite="x", run_id="2")]
    report = report_of(rows, imported=given)
    assert shown(table_of(report.sections[0], "Imported results"))[0][4] == "1"
    assert shown(table_of(report, "Imported results"))[0][4] == "2"


def test_settings_tell_imported_variants_apart(make_score, report_of, external):
    given = [external(config="a" * 64), external(config="b" * 64, run_id="1")]
    table = table_of(report_of([], imported=given), "Imported results")
    assert [row[1] for row in shown(table)] == ["paper:bc[aaaaaaaa]", "paper:bc[bbbbbbbb]"]


def test_failed_runs_count_as_random_when_asked(make_score, make_failure, report_of):
    rows = [make_score("bc", "CartPole", seed, 500.0) for seed in range(3)]
    failures = [make_failure("bc", "CartPole", 3), make_failure("bc", "Pendulum", 0)]
    left_out = report_of(rows, failures)
    counted = report_of(rows, failures, failed_runs=FailurePolicy.COUNT_AS_RANDOM)
    [before], [after] = left_out.sections, counted.sections
    assert [before.algorithms[0].mean.point, after.algorithms[0].mean.point] == [1.0, 0.375]
    assert [cell.score for cell in before.algorithms[0].cells] == [1.0, None]
    assert [cell.score for cell in after.algorithms[0].cells] == [0.75, 0.0]
    deterministic = [each.algorithms[0].cells[0].score_deterministic for each in (before, after)]
    assert deterministic[1] == pytest.approx(0.75 * deterministic[0])
    assert after.algorithms[0].cells[0].raw_mean == 500.0
    assert "A failed run counts as the random reference" in render_markdown(counted)
    assert "Failed runs are left out" in render_markdown(left_out)
    profile = compare_section(after, counted.method).profiles["bc"]
    assert profile.values[profile.at < 0.5][-1] == pytest.approx(0.375)


def test_every_format_shows_them_and_names_stay_text(make_score, report_of, external):
    rows = [make_score(EVIL, "CartPole", 0, 480.0, n_demos=n, run_id=str(n)) for n in (1, 2)]
    report = report_of(rows, imported=[external(name="paper", algo=EVIL, env=EVIL)])
    page = render_html(report, ReportDetails({}, {}))
    assert "<script>alert" not in page
    for title in ("Cost", "Further aggregates", "Imported results"):
        assert title in page
        assert title in render_markdown(report)
        assert title in render_latex(report)
    assert "<script>" not in render_markdown(report)
    assert r"\input{y}" not in render_latex(report)
    assert "core_hours" in render_csv(report).splitlines()[0]
