"""Scores by regime and rank changes between regimes, in reports and on boards."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from support import shown_results
from support.shown_results import write_results

from imitbench.errors import InputError
from imitbench.published.results_sources import find_results
from imitbench.report.data_formats import render_csv, render_json
from imitbench.report.html_page import render_html
from imitbench.report.latex import render_latex
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.data_formats import render_json as board_json
from imitbench.report.leaderboard.data_formats import render_markdown as board_markdown
from imitbench.report.leaderboard.suite_page import render_suite
from imitbench.report.markdown import render_markdown
from imitbench.report.plots import check_figures, write_plots
from imitbench.report.regimes import with_regimes
from imitbench.report.tables import build_report
from imitbench.report.terminal import render_terminal
from imitbench.store.run_details import ReportDetails

EVIL = r"<script>alert(1)</script> a|b $x$ \input{y} % {z}"
# Scores of each method in both regimes: `bc` and `dac` swap, `gail` stays the worst.
FULL = {"bc": 0.9, "dac": 0.6, "gail": 0.2}
HIDDEN = {"bc": 0.3, "dac": 0.7, "gail": 0.1}
SHARED = "classic: budget quick, source bundled"
FEW = "1, one step in 20, no actions"


@pytest.fixture
def report_of(references):
    def make(rows):
        return with_regimes(build_report(rows, [], references, replicates=500))

    return make


@pytest.fixture
def regime(make_score):
    """Rows of a regime: methods with scores, six seeds on one or two environments."""

    def make(scores, environments=("CartPole", "Pendulum"), **changes):
        spans = {"CartPole": (20.0, 480.0), "Pendulum": (-1200.0, 1000.0)}
        return [
            make_score(name, env, seed, random + span * (score + 0.01 * seed), **changes,
                       run_id=f"{name}{env}{seed}{changes}")
            for name, score in scores.items()
            for env, (random, span) in spans.items() if env in environments
            for seed in range(6)
        ]  # fmt: skip

    return make


@pytest.fixture
def report(regime, report_of, make_score):
    few = {"n_demos": 1, "demo_every": 20, "demo_actions": "hidden"}
    # It uses no demonstrations, so it is in the section of each regime.
    other = make_score("ppo", "CartPole", 0, 500.0, n_demos=None, all_demos=None, source=None)
    return report_of([*regime(FULL), *regime(HIDDEN, **few), other])


def shown(report, title):
    [table] = [each for each in report.extra if each.title == f"{SHARED}, {title}"]
    return [[entry.shown for entry in row] for row in table.rows]


def test_scores_by_regime_are_those_of_the_sections(make_score, report_of):
    rows = [
        make_score(
            "bc", "CartPole", seed, 20.0 + 48 * count, n_demos=count, run_id=f"{count}{seed}"
        )
        for count in (1, 3, 10)
        for seed in range(2)
    ]
    rows += [make_score("late", "CartPole", 0, 500.0, n_demos=10)]
    rows += [make_score("ppo", "CartPole", 0, 500.0, n_demos=None, all_demos=None, source=None)]
    rows += [make_score("late", "Pendulum", 0, -200.0, n_demos=10)]
    report = report_of(rows)
    [comparison] = report.regimes
    assert comparison.regimes == ("1", "3", "10")
    assert shown(report, "IQM score by regime") == [
        [
            "bc",
            "0.100 [0.100, 0.100]",
            "0.300 [0.300, 0.300]",
            "1.000 [1.000, 1.000], 1 of 2 environments",
        ],
        ["late", "n/a", "n/a", "1.000 [n/a (1 seed)]"],
    ]
    # Two regimes never have two methods in common.
    assert comparison.changes == {}
    assert len(report.extra) == 1


def test_ranks_and_tests_are_in_tables(report):
    [comparison] = report.regimes
    assert comparison.regimes == (FEW, "10")
    [row] = shown(report, "order of methods by regime")
    assert row[:6] == [FEW, "10", "", "3", "2", "0.3333"]
    assert float(row[6]) < 0.05
    assert row[7:] == ["1999", "3", "1", "1", "0.0005"]
    assert shown(report, "ranks by regime") == [
        [FEW, "10", "dac", "", "1", "2", "-1"],
        [FEW, "10", "bc", "dac", "2", "1", "+1"],
        [FEW, "10", "gail", "", "3", "3", "0"],
    ]


def test_one_regime_or_other_budgets_are_no_comparison(regime, report_of):
    assert report_of(regime(FULL)).regimes == ()
    assert report_of([*regime(FULL), *regime(HIDDEN, budget="full", n_demos=1)]).regimes == ()


def test_the_figure_joins_results_on_the_same_environments(regime, report_of):
    rows = [*regime(FULL), *regime(HIDDEN, n_demos=1)]
    rows += regime({"short": 0.5}) + regime({"short": 0.5}, ("CartPole",), n_demos=1)
    page = render_html(report_of(rows))
    start = page.index("<svg", page.index('id="g0"'))
    chart = ElementTree.fromstring(page[start : page.index("</svg></div>", start) + 6])
    groups = [each for each in chart if each.tag == "g"]
    lines = [len(group.findall("polyline")) for group in groups]
    assert lines == [1, 1, 1, 0]  # bc, dac, gail, short
    assert [len(group.findall("line")) for group in groups] == [2, 2, 2, 2]
    hints = [title.text for title in groups[3].iter("title")]
    assert hints[0].startswith("short, 1: 0.525, from 0.5")
    assert hints[0].endswith(", 1 of 2 environments")


def test_a_figure_of_regimes_needs_two(regime, report_of, report, tmp_path):
    one = report_of(regime(FULL))
    with pytest.raises(InputError, match=r"regimes-\*: compares regimes .* have only one; draw"):
        write_plots(one, ReportDetails(), tmp_path, "svg", ["regimes-*"])
    with pytest.raises(InputError, match=r"race-\*: draws races, of which these results have none"):
        write_plots(one, ReportDetails(), tmp_path, "svg", ["race-*"])
    with pytest.raises(InputError, match=r"regimes-other: no such figure.*regimes-classic"):
        write_plots(report, ReportDetails(), tmp_path, "svg", ["regimes-other"])


def test_the_same_figure_is_a_file(report, tmp_path):
    check_figures(["regimes-classic"])
    [path] = write_plots(report, ReportDetails(), tmp_path, "svg", ["regimes-*"])
    assert path.name == "regimes-classic.svg"
    said = {"".join(each.itertext()).strip() for each in ElementTree.parse(path).iter()
            if each.tag.endswith("}text")}  # fmt: skip
    assert {"bc", "dac", "gail", "10"} <= said
    assert any("no actions" in each for each in said)


def test_every_format_shows_them_and_names_stay_text(regime, report_of):
    scores = {EVIL: 0.9, "bc": 0.5}
    report = report_of([*regime(scores), *regime({EVIL: 0.1, "bc": 0.5}, n_demos=1)])
    page = render_html(report)
    assert "<script>alert" not in page
    assert f"Score by regime: {SHARED}" in page
    for rendered in (page, render_markdown(report), render_latex(report), render_terminal(report)):
        for title in ("IQM score by regime", "order of methods by regime", "ranks by regime"):
            assert f"{SHARED}, {title}" in rendered
    assert "<script>" not in render_markdown(report)
    assert r"\input{y}" not in render_latex(report)


def test_programs_get_the_numbers(report):
    rows = [row for row in csv.DictReader(io.StringIO(render_csv(report))) if row["regime"]]
    assert [(row["row"], row["algorithm"]) for row in rows] == [
        ("regimes", ""), ("rank", "dac"), ("rank", "bc"), ("rank", "gail"), ("order", "bc"),
    ]  # fmt: skip
    assert {(row["regime"], row["other_regime"], row["suite"]) for row in rows} == {
        (FEW, "10", "classic")
    }
    assert [(row["rank"], row["other_rank"]) for row in rows[1:4]] == [
        ("1", "2"), ("2", "1"), ("3", "3"),
    ]  # fmt: skip
    order = rows[-1]
    assert order["baseline"] == "dac"
    assert float(order["difference"]) == pytest.approx(-0.4)
    assert float(order["other_difference"]) == pytest.approx(0.3)
    assert float(order["p_value"]) == float(rows[0]["p_value"]) == 0.0005
    [document] = json.loads(render_json(report))["regimes"]
    [change] = document["changes"]
    assert change["tau"] == pytest.approx(1 / 3)
    assert change["environments"] == ["CartPole", "Pendulum"]
    assert change["ranks"][1]["overtakes"] == ["dac"]
    [pair] = change["pairs_in_another_order"]
    assert (pair["ahead"], pair["behind"], pair["p_value"]) == ("dac", "bc", 0.0005)
    assert len(document["scores"]) == 6


def test_a_board_shows_them_on_the_page_of_the_suite(tmp_path, monkeypatch):
    def skills(scores):
        return {name: ((score, 0.02),) for name, score in scores.items()}

    out, usual = tmp_path / "runs", shown_results._spec
    write_results(out, seeds=4, skills=skills({"bc": 0.9, "gail": 0.6}), failing=())

    def fewer(*cell):
        spec = usual(*cell)
        return spec.model_copy(update={"demos": spec.demos.model_copy(update={"count": 1})})

    monkeypatch.setattr(shown_results, "_spec", fewer)
    write_results(out, seeds=4, skills=skills({"bc": 0.3, "gail": 0.6}), failing=())
    board = build_board(find_results(out), title="Board", replicates=100)
    [comparison] = board.regimes
    assert comparison.regimes[0] == "1"
    [changes] = comparison.changes.values()
    assert [(one.algorithm, one.ranks) for one in changes.methods] == [
        ("gail", (1, 2)),
        ("bc", (2, 1)),
    ]
    assert changes.overtaken_by("bc", 0.95) == ("gail",)
    page = render_suite(board, "classic")
    assert 'id="regimes-1"' in page
    assert "ranks by regime" in page
    text = board_markdown(board)
    assert "## Score by regime: classic" in text
    ranks = text.partition("ranks by regime")[2].splitlines()
    assert "| 1 | 10 | bc | gail | 2 | 1 | +1 |" in ranks
    [document] = json.loads(board_json(board))["regimes"]
    assert document["changes"][0]["ranks"][1]["overtakes"] == ["gail"]
