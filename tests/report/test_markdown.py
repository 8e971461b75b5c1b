from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from imitbench.records.runs import FailureRow, ReferenceRow, ScoreRow
from imitbench.report.markdown import escape, render_markdown
from imitbench.report.model import Report
from imitbench.report.tables import build_report

GOLDEN = Path(__file__).parent / "golden" / "report.md"


def rows_of(markdown: str) -> list[list[str]]:
    """Cells of every table row, split at bars that are not escaped."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_report_reads_as_the_golden_file(report: Report) -> None:
    found = render_markdown(report)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_every_score_table_states_how_it_was_made(report: Report) -> None:
    markdown = render_markdown(report)
    tables = markdown.count("| Seeds |")
    assert tables == 2
    for statement in (
        "50 episodes, stochastic policy; score = (return - random) / (expert - random)",
        "2000 replicates, seed 0",
        "references version 1.0",
    ):
        assert markdown.count(statement) == tables


def test_episodes_are_not_claimed_when_unknown(rows: list[ScoreRow]) -> None:
    markdown = render_markdown(build_report(rows, [], [], replicates=10, episodes=None))
    assert "50 episodes" not in markdown
    assert "references not recorded" in markdown


def test_no_results_are_a_sentence(empty_report: Report) -> None:
    markdown = render_markdown(empty_report)
    assert "No results" in markdown
    assert "|" not in markdown


def test_a_single_seed_says_why_there_is_no_interval(make_score: Callable[..., ScoreRow]) -> None:
    markdown = render_markdown(build_report([make_score("bc", "CartPole", 0, 300.0)], [], []))
    assert ["bc", "1 of 1", "1", *["0.583 [n/a (1 seed)]"] * 2, "0"] in rows_of(markdown)
    assert "300.00 ± n/a" in markdown


def test_only_failures_are_listed_with_phase_type_and_message(
    make_failure: Callable[..., FailureRow], references: list[ReferenceRow]
) -> None:
    markdown = render_markdown(build_report([], [make_failure("bc", "CartPole", 4)], references))
    listed = rows_of(markdown)
    assert ["bc", "0 of 1 (partial)", "0", "n/a", "n/a", "1"] in listed
    run = ["classic", "CartPole", "bc", "4", "train", "FloatingPointError", "loss is nan"]
    assert [*run, "bc-CartPole-4-failed"] in listed


def test_untrusted_text_stays_text_and_keeps_the_table_intact(
    make_failure: Callable[..., FailureRow],
) -> None:
    evil = "a|b\n# c\r\n<script>alert('x')</script> [link](javascript:x) `code` \\| \x1b[31m"
    failure = make_failure(evil, evil, 0, message=evil, error_type=evil, run_id=evil, suite=evil)
    markdown = render_markdown(build_report([], [failure], []))
    assert "<script" not in markdown
    assert "\x1b" not in markdown
    assert "\n# c" not in markdown
    assert "[link](" not in markdown
    listed = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in listed} == {7, 9, 10}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("seals/CartPole-v0", "seals/CartPole-v0"),
        ("preference_comparisons", "preference_comparisons"),
        ("_bc_ __x__", r"\_bc\_ \_\_x\_\_"),
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("a\nb\u2028c\td", "a b c d"),
        ("x < y & z", "x &lt; y &amp; z"),
        ("*bold* ~~no~~ $x$", r"\*bold\* \~\~no\~\~ \$x\$"),
        ("https://example.org www.example.org", r"https\://example.org www\.example.org"),
        ("Größe 10 %", "Größe 10 %"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_long_messages_are_cut(make_failure: Callable[..., FailureRow]) -> None:
    failure = make_failure("bc", "CartPole", 0, message="x" * 5000)
    markdown = render_markdown(build_report([], [failure], []))
    assert "x" * 300 + "…" in markdown
    assert "x" * 301 not in markdown
