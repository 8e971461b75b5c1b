"""The table of claims is derived from its CSV file and the published results."""

import os
import re
import shlex
from pathlib import Path

import pytest
from support.claims_page import render_claims
from typer.testing import CliRunner

from imitbench.cli import run as run_command
from imitbench.cli.main import app
from imitbench.published.claim_outcomes import compare_claims, fits
from imitbench.published.claims import read_claims
from imitbench.published.results_sources import find_results

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "claims.md"
START, END = "<!-- claims: start -->", "<!-- claims: end -->"


@pytest.fixture(scope="module")
def claims():
    return read_claims(RESULTS / "claims.csv")


@pytest.fixture(scope="module")
def runs():
    return [run for source in find_results(RESULTS).sources for run in source.runs]


def test_there_are_enough_claims_of_enough_papers(claims):
    papers = {claim.paper for claim in claims if not re.search("issue|pull request", claim.paper)}
    assert len(claims) >= 25
    assert len(papers) >= 6


def test_the_page_is_that_of_the_claims_and_the_results(claims, runs):
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    due = f"{before}{START}\n\n{render_claims(claims, runs)}\n\n{END}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(due, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == due, "UPDATE_GOLDEN=1 writes the tables again"


def table_rows(page):
    """Cells of every row of a claim, by the number of the claim."""
    lines = page.partition(START)[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]
    return {int(row[0]): row for row in cells if len(row) == 13 and row[0].isdecimal()}


def test_rows_without_published_runs_say_so_and_have_no_number(claims, runs):
    rows = table_rows(PAGE.read_text(encoding="utf-8"))
    assert sorted(rows) == list(range(1, len(claims) + 1))
    known = sum(each.own is not None for each in compare_claims(claims, runs))
    own = [row[9:] for row in rows.values()]
    assert sum(cells != ["", "", "", ""] for cells in own) == known
    assert 0 < known < len(claims)


def commands(page):
    """Commands below the tables, and the numbers of the claims that each is for."""
    lines = re.findall(r"^(imitbench run .*)  # (.*)$", page.partition(START)[2], re.MULTILINE)
    return [(command, [int(each) for each in numbers.split(", ")]) for command, numbers in lines]


def test_each_command_makes_runs_like_those_of_its_rows(claims, runs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    taken = []
    monkeypatch.setattr(run_command, "print_plans", lambda plans, *_, **__: taken.append(plans))
    rows = {each.number: (each.claim, each.own) for each in compare_claims(claims, runs)}
    found = commands(PAGE.read_text(encoding="utf-8"))
    assert sorted(number for _, numbers in found for number in numbers) == sorted(rows)
    for command, numbers in found:
        words = [*shlex.split(command)[1:], "--dry-run"]
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0, command
        specs = [spec for plan in taken.pop() for spec in plan]
        for claim, own in (rows[number] for number in numbers):
            assert all(fits(claim, spec) for spec in specs), command
            assert len(specs) == (own.seeds if own else 10), command
            assert {spec.pack for spec in specs} == {own.pack if own else None}, command
