"""The results that this repository publishes: valid, and the source of all that is said of them."""

import os
from pathlib import Path

import pytest

from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.markdown_tables import render_section
from imitbench.report.leaderboard.site import write_site
from imitbench.store.results_sources import find_results
from imitbench.store.submission import is_submission
from imitbench.store.validation import validate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "results.md"
START, END = "<!-- tables: start -->", "<!-- tables: end -->"
SUBMISSIONS = sorted(path for path in RESULTS.iterdir() if is_submission(path))


@pytest.fixture(scope="module")
def board():
    return build_board(find_results(RESULTS, external=True), title="Leaderboard", replicates=5000)


@pytest.mark.parametrize("folder", SUBMISSIONS, ids=lambda path: path.name)
def test_what_is_published_is_valid(folder):
    assert not validate(folder).failed


def test_nothing_published_names_a_machine_or_a_folder_of_one():
    for folder in SUBMISSIONS:
        text = (folder / "manifest.json").read_text()
        assert '"host": ""' in text
        assert "/home/" not in text
        assert "/work/" not in text


def test_every_published_folder_is_on_the_board(board):
    assert SUBMISSIONS
    assert {source.name for source in board.sources} == {path.name for path in SUBMISSIONS}
    assert all(row.checked for part in board.sections for row in part.rows)


def test_the_same_results_make_the_same_bytes(tmp_path, board):
    again = build_board(
        find_results(RESULTS, external=True), title="Leaderboard", replicates=5000
    )  # fmt: skip
    for name, each in (("one", board), ("two", again)):
        write_site(each, tmp_path / name, results=RESULTS)
    one, two = (
        {str(path.relative_to(tmp_path / name)): path.read_bytes()
         for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("one", "two")
    )  # fmt: skip
    assert one == two


def test_the_page_of_results_holds_the_boards_tables_and_no_others(board):
    blocks = [block for part in board.sections for block in render_section(part, board)]
    tables = "\n\n".join(f"#{each}" if each.startswith("## ") else each for each in blocks)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    due = f"{before}{START}\n\n{tables}\n\n{END}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(due, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == due, "UPDATE_GOLDEN=1 writes the tables anew"
