"""Further measurements and methods with access to the reward, in every format."""

import csv
import io

import pytest

from imitbench.report.data_formats import render_csv
from imitbench.report.markdown import render_markdown
from imitbench.report.measures import summarize_measures
from imitbench.report.tables import build_report
from imitbench.report.terminal import render_short

UNTAUGHT = {"n_demos": None, "all_demos": None, "source": None, "uses_reward": True}


@pytest.fixture
def report(make_score, make_measure):
    rows = [make_score("bc", "CartPole", seed, 400.0) for seed in range(3)]
    rows += [
        make_score("preference_comparisons", "CartPole", seed, 450.0, **UNTAUGHT)
        for seed in range(3)
    ]
    measures = [
        make_measure("preference_comparisons", "CartPole", seed, name, value + seed, **UNTAUGHT)
        for seed in range(3)
        for name, value in (("reward_correlation", 0.25), ("something_new", 7.0))
    ]
    return build_report(rows, [], [], measures, replicates=200)


def test_means_are_over_the_runs_of_a_cell(make_measure):
    rows = [make_measure("a", "CartPole", seed, "m", value) for seed, value in ((0, 1.0), (1, 4.0))]
    rows.append(make_measure("a", "Pendulum", 0, "m", 9.0))
    first, second = summarize_measures(rows[::-1])
    assert (first.environment, first.runs, first.mean) == ("CartPole", 2, 2.5)
    assert first.std == pytest.approx(4.5**0.5)
    assert (second.environment, second.runs, second.mean, second.std) == ("Pendulum", 1, 9.0, None)


def test_a_method_without_demonstrations_is_shown_with_those_with(report):
    (section,) = report.sections
    assert section.conditions.n_demos == 10
    assert [result.algorithm for result in section.algorithms][:2] == [
        "preference_comparisons",
        "bc",
    ]


def test_it_is_shown_with_each_source_but_only_under_its_budget(make_score):
    rows = [
        make_score("bc", "CartPole", 0, 400.0),
        make_score("bc", "CartPole", 0, 400.0, source="path:x", run_id="other"),
        make_score("bc", "CartPole", 0, 400.0, budget="full"),
        make_score("preference_comparisons", "CartPole", 0, 450.0, **UNTAUGHT),
    ]
    sections = build_report(rows, [], [], replicates=200).sections
    shown = {
        (section.conditions.budget, section.conditions.source): {
            result.algorithm for result in section.algorithms
        }
        for section in sections
    }
    assert set(shown) == {("quick", "bundled"), ("quick", "path:x"), ("full", "bundled")}
    for (budget, _), names in shown.items():
        assert ("preference_comparisons" in names) == (budget == "quick")


def test_alone_it_has_a_separate_section(make_score):
    rows = [make_score("preference_comparisons", "CartPole", 0, 450.0, **UNTAUGHT)]
    (section,) = build_report(rows, [], [], replicates=200).sections
    assert section.title == "classic: budget quick"


def test_access_to_the_reward_is_flagged_wherever_the_method_is_named(report):
    marked = "preference_comparisons (uses reward)"
    assert marked in render_markdown(report)
    assert marked in render_short(report)
    assert any("environment's own reward" in note for note in report.sections[0].notes)
    rows = list(csv.DictReader(io.StringIO(render_csv(report))))
    assert {(row["algorithm"], row["uses_reward"]) for row in rows if row["row"] == "cell"} == {
        ("preference_comparisons", "true"),
        ("bc", "false"),
        ("expert", "false"),
        ("random", "false"),
    }


def test_measurements_are_shown_and_explained(report):
    markdown = render_markdown(report)
    row = "| CartPole | preference_comparisons | reward_correlation | 3 | 1.250 ± 1.000 |"
    assert row in markdown
    assert "reward_correlation: Spearman" in markdown
    assert "something_new | 3 | 8.000 ± 1.000" in markdown
    rows = list(csv.DictReader(io.StringIO(render_csv(report))))
    found = {row["measure"]: row["measure_mean"] for row in rows if row["row"] == "measure"}
    assert found == {"reward_correlation": "1.25", "something_new": "8"}


def test_without_measurements_there_is_no_table(make_score):
    markdown = render_markdown(build_report([make_score("bc", "CartPole", 0, 1.0)], [], []))
    assert "Further measurements" not in markdown


def test_anchors_are_measured_by_the_runs_that_a_section_shows(make_score, make_measure):
    runs = [
        (algo, env, seed, {"budget": budget, "source": source})
        for env in ("CartPole", "Pendulum")
        for algo, source in (("random", None), ("expert", "bundled"), ("expert", "path:x"))
        for seed in range(2)
        for budget in ("quick", "full")
    ]
    ids = [f"{number:012x}" for number in range(len(runs))]
    rows = [make_score("bc", "CartPole", seed, 400.0) for seed in range(2)]
    rows += [
        make_score(algo, env, seed, 1.0, run_id=run_id, **more)
        for (algo, env, seed, more), run_id in zip(runs, ids, strict=True)
    ]
    measures = [
        make_measure(algo, env, seed, "end_distance", 1.0, run_id=run_id, **more)
        for (algo, env, seed, more), run_id in zip(runs, ids, strict=True)
    ]
    (section,) = build_report(rows, [], [], measures, replicates=200).sections
    assert [(one.environment, one.algorithm, one.runs) for one in section.measured] == [
        (env, algo, 2) for env in section.environments for algo in ("expert", "random")
    ]
