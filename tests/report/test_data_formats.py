from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imitbench.records.runs import FailureRow, ScoreRow
from imitbench.report.data_formats import COLUMNS, render_csv
from imitbench.report.model import Report
from imitbench.report.tables import build_report
from imitbench.untrusted.csv_text import spreadsheet_text

GOLDEN = Path(__file__).parent / "golden" / "report.csv"


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_report_reads_as_the_golden_file(report: Report) -> None:
    found = render_csv(report)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_there_is_a_row_for_every_cell_and_every_aggregate(report: Report) -> None:
    (section,) = report.sections
    found = [
        (row["row"], row["algorithm"], row["environment"]) for row in records(render_csv(report))
    ]
    names = [result.algorithm for result in section.algorithms]
    cells = [("cell", name, env) for env in section.environments for name in names]
    assert found == [("aggregate", name, "") for name in names] + cells


def test_raw_returns_are_next_to_scores_and_references(report: Report) -> None:
    cells = [
        row for row in records(render_csv(report)) if row["kind"] == "run" and row["environment"]
    ]
    assert cells
    for row in cells:
        raw, low, high = (
            float(row[column])
            for column in ("raw_return_mean", "reference_random", "reference_expert")
        )
        assert abs(float(row["score_mean"]) - (raw - low) / (high - low)) < 1e-8


def test_what_does_not_exist_is_an_empty_field(make_score: Callable[..., ScoreRow]) -> None:
    rows = records(render_csv(build_report([make_score("bc", "CartPole", 0, 300.0)], [], [])))
    aggregate = next(row for row in rows if row["row"] == "aggregate")
    cell = next(row for row in rows if row["row"] == "cell")
    assert aggregate["score_iqm"] == "0.5833333333"
    assert aggregate["score_iqm_low"] == aggregate["score_iqm_high"] == ""
    assert cell["raw_return_std"] == ""
    assert cell["reference_random"] == ""


def test_untrusted_text_survives_a_round_trip(make_failure: Callable[..., FailureRow]) -> None:
    evil = 'a|b\nc,"d"\r<script>'
    rows = records(render_csv(build_report([], [make_failure(evil, evil, 0)], [])))
    cell = next(row for row in rows if row["row"] == "cell" and row["kind"] == "missing")
    assert (cell["algorithm"], cell["environment"], cell["failed"]) == (evil, evil, "1")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_name_becomes_a_formula(start: str, make_failure: Callable[..., FailureRow]) -> None:
    evil = f"{start}cmd|' /C calc'!A0"
    rows = records(render_csv(build_report([], [make_failure(evil, evil, 0)], [])))
    names = {row[name] for row in rows for name in ("algorithm", "environment") if row[name]}
    assert f"'{evil}" in names
    assert evil not in names
    assert spreadsheet_text(evil) == f"'{evil}"


@pytest.mark.parametrize("number", ["-1", "+2.5e3", "-inf", "bc", ""])
def test_numbers_and_other_text_stay_as_they_are(number: str) -> None:
    assert spreadsheet_text(number) == number


def test_several_budgets_are_distinguished(make_score: Callable[..., ScoreRow]) -> None:
    runs = [make_score("bc", "CartPole", 0, 300.0, budget=b) for b in ("full", "quick")]
    rows = records(render_csv(build_report(runs, [], [])))
    assert [row["budget"] for row in rows if row["algorithm"] == "bc"] == [
        *["quick", "quick"],
        *["full", "full"],
    ]


def test_no_results_leave_the_header(empty_report: Report) -> None:
    assert render_csv(empty_report) == ",".join(COLUMNS) + "\n"
