from __future__ import annotations

from collections.abc import Callable

from imitbench.records.runs import ScoreRow
from imitbench.report.model import Report
from imitbench.report.tables import build_report
from imitbench.report.terminal import render_short


def test_the_table_has_a_line_per_algorithm_best_first(report: Report) -> None:
    lines = render_short(report).splitlines()
    assert lines[0] == (
        "classic: budget quick, 10 demonstrations, source bundled (references version 1.0)"
    )
    assert [line.split()[0] for line in (lines[1], *lines[3:7])] == [
        "algorithm",
        "bc",
        "gail",
        "expert",
        "random",
    ]
    assert "2 of 3 (partial)" in lines[4]
    assert lines[3].split()[-3:] == ["200.0", "25.0%", "1"]
    assert lines[5].split()[4:-3] == ["reference", "1.000", "1.000", "(by", "definition)"]
    assert lines[5].split()[-3:] == ["n/a", "n/a", "0"]


def test_columns_are_aligned(report: Report) -> None:
    table = render_short(report).splitlines()[1:6]
    assert len({len(line) for line in table}) == 1
    assert {line[: len("algorithm") + 1][-1] for line in table} == {" "}


def test_notes_and_protocol_follow(report: Report) -> None:
    text = render_short(report)
    assert "- gail has no completed run on Reacher (2 failed)" in text
    assert "50 episodes, stochastic policy" in text.splitlines()[-1]


def test_a_single_seed_says_why_there_is_no_interval(make_score: Callable[..., ScoreRow]) -> None:
    text = render_short(build_report([make_score("bc", "CartPole", 0, 300.0)], [], []))
    assert "0.583 [n/a (1 seed)]" in text


def test_every_group_has_its_table(make_score: Callable[..., ScoreRow]) -> None:
    runs = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("full", "quick")]
    text = render_short(build_report(runs, [], []))
    assert text.index("budget quick") < text.index("budget full")
    assert text.count("algorithm  ") == 2


def test_names_cannot_steer_the_terminal(make_score: Callable[..., ScoreRow]) -> None:
    row = make_score("\x1b[2Jbc\nrm", "CartPole", 0, 300.0)
    text = render_short(build_report([row], [], []))
    assert "\x1b" not in text
    assert "[2Jbc rm" in text


def test_no_results_are_a_sentence(empty_report: Report) -> None:
    assert render_short(empty_report).startswith("No results")
