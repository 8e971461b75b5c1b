"""Versions of references: rescored results, claims to supersede others, and tables apart."""

import dataclasses

import pytest
from support.submissions import write_submitted_runs

from imitbench.errors import InputError
from imitbench.published.results_folder import export_results, read_runs, rescore
from imitbench.published.results_sources import find_results
from imitbench.published.submission import read_strictly
from imitbench.records.bundled_cards import bundled_suite
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.site import write_site


def export(runs, folder, supersedes=None):
    export_results(runs, folder, version="0.1.0", command="x", supersedes=supersedes)


@pytest.fixture
def results(tmp_path):
    """An earlier submission, `old`, whose references have version 0."""
    write_submitted_runs(tmp_path / "runs", algorithms=("bc", "random"), failing=())
    runs = [
        dataclasses.replace(
            run,
            result=run.result.model_copy(
                update={
                    "references": run.result.references.model_copy(
                        update={"version": "0", "expert": run.result.references.expert - 50.0}
                    )
                }
            ),
        )
        for run in read_runs(tmp_path / "runs").runs
    ]
    export(runs, tmp_path / "results" / "old")
    return tmp_path / "results"


def digest(results, name):
    return next(each.digest for each in find_results(results).sources if each.name == name)


def rescored(results):
    return rescore(read_strictly(results / "old").published, "old")


def test_rescored_runs_have_the_references_of_the_card_and_nothing_else_changes(results):
    before, after = read_strictly(results / "old").published, rescored(results)
    version = bundled_suite("classic").version
    assert {run.result.references.version for run in before} == {"0"}
    assert {run.result.references.version for run in after} == {version}
    for old, new in zip(before, after, strict=True):
        assert old.spec == new.spec
        assert old.result.raw_return == new.result.raw_return
    with pytest.raises(InputError, match="nothing to rescore"):
        rescore(after, "old")


def test_versions_are_in_tables_of_their_own_and_linked(results, tmp_path):
    export(rescored(results), results / "new", digest(results, "old"))
    found = find_results(results)
    assert {each.name: each.superseded_by for each in found.sources} == {"new": "", "old": "new"}
    board = build_board(found, title="x", replicates=200)
    assert [part.version for part in board.sections] == ["version 1", "version 0"]
    for part in board.sections:
        assert len({row.version for row in part.section.references}) == 1
    ranks = {row.submitters: row.rank for part in board.sections for row in part.rows
             if row.name == "bc"}  # fmt: skip
    assert ranks == {("new",): 1, ("old",): None}
    write_site(board, tmp_path / "site", results=[results])
    index = (tmp_path / "site" / "index.html").read_text()
    assert "superseded by new" in index
    assert "supersedes old" in index


def test_only_whoever_has_all_runs_supersedes(results):
    export(rescored(results)[:-1], results / "less", digest(results, "old"))
    found = find_results(results)
    assert {each.superseded_by for each in found.sources} == {""}
    assert any("less: does not supersede old" in note for note in found.notes)


def test_manifests_without_it_keep_their_digest(results):
    text = (results / "old" / "manifest.json").read_text()
    assert "supersedes" not in text
