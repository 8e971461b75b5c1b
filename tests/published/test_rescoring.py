"""Versions of references: rescored results, claims to supersede others, and tables apart."""

import dataclasses
import json

import pytest
from support.submissions import write_submitted_runs
from typer.testing import CliRunner

from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.published.opening import ResultsLocation, open_results, published_cells
from imitbench.published.results_folder import export_results, read_runs, rescore
from imitbench.published.results_sources import find_results, link_superseded
from imitbench.published.submission import read_strictly
from imitbench.published.verification import FiniteComparison, Verification, VerifiedRun
from imitbench.records.bundled_cards import bundled_suite
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.site import write_site

SUITE, ENV = "seals-v2", "seals/HalfCheetah-v1"


def export(runs, folder, supersedes=None):
    export_results(runs, folder, version="0.1.0", command="x", supersedes=supersedes)


def scaled(runs, version, below_expert):
    """The same runs with other references."""
    return [
        changed(
            run,
            references=run.result.references.model_copy(
                update={"version": version, "expert": run.result.references.expert - below_expert}
            ),
        )
        for run in runs
    ]


def changed(run, **values):
    return dataclasses.replace(run, result=run.result.model_copy(update=values))


@pytest.fixture
def results(tmp_path):
    """An earlier submission, `old`, whose references have the version before the card's, 1."""
    write_submitted_runs(tmp_path / "runs", ("bc", "random"), ENV, suite=SUITE, failing=())
    runs = scaled(read_runs(tmp_path / "runs").runs, "1", 50.0)
    export(runs, tmp_path / "results" / "old")
    return tmp_path / "results"


def digest(results, name):
    return next(each.digest for each in find_results(results).sources if each.name == name)


def rescored(results):
    return rescore(read_strictly(results / "old").published, "old")


def test_rescored_runs_have_the_references_of_the_card_and_nothing_else_changes(results):
    before, after = read_strictly(results / "old").published, rescored(results)
    version = bundled_suite(SUITE).version
    assert {run.result.references.version for run in before} == {"1"}
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
    assert [part.version for part in board.sections] == ["version 2", "version 1"]
    for part in board.sections:
        assert len({row.version for row in part.section.references}) == 1
    ranks = {row.submitters: row.rank for part in board.sections for row in part.rows
             if row.name == "bc"}  # fmt: skip
    assert ranks == {("new",): 1, ("old",): None}
    write_site(board, tmp_path / "site", results=[results])
    index = (tmp_path / "site" / "index.html").read_text()
    assert "superseded by new" in index
    assert "supersedes old" in index


def later_results(results):
    return {each.name: each.superseded_by for each in find_results(results).sources}


def without_a_seed(runs):
    return [run for run in runs if run.spec.seed]


def with_easy_references(runs):
    return scaled(runs, "2", 2000.0)


def with_references_of_the_same_version(runs):
    return scaled(runs, "1", 2000.0)


def with_another_duration(runs):
    return [changed(runs[0], train_s=1.5), *runs[1:]]


def with_a_failing_run(runs):
    return [changed(runs[0], wall_s=-1.0), *runs[1:]]


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (without_a_seed, "it lacks runs of it, or has other outcomes"),
        (with_another_duration, "it lacks runs of it, or has other outcomes"),
        (with_references_of_the_same_version, "or references that are not this package's"),
        (with_easy_references, "it does not pass the checks references"),
        (with_a_failing_run, "it does not pass the checks values"),
    ],
)
def test_only_what_rescore_would_make_of_results_supersedes_them(results, edit, told):
    export(edit(rescored(results)), results / "theirs", digest(results, "old"))
    assert later_results(results) == {"old": "", "theirs": ""}
    [note] = [note for note in find_results(results).notes if "does not supersede" in note]
    assert note.startswith("theirs: does not supersede old, because ")
    assert told in note


def test_who_supersedes_may_have_further_runs(results, tmp_path):
    write_submitted_runs(tmp_path / "more", ("bc", "random"), ENV, 4, suite=SUITE, failing=())
    known = {run.spec.run_id for run in rescored(results)}
    more = [run for run in read_runs(tmp_path / "more").runs if run.spec.run_id not in known]
    assert more
    export([*rescored(results), *more], results / "new", digest(results, "old"))
    assert later_results(results) == {"new": "", "old": "new"}


def test_results_with_the_references_of_the_cards_cannot_be_superseded(results):
    """Whoever copies them, and claims them, takes no rank."""
    export(rescored(results), results / "new")
    theirs = with_another_duration(rescored(results))
    for name, runs in (("copy", rescored(results)), ("theirs", theirs)):
        export(runs, results / name, digest(results, "new"))
    notes = find_results(results).notes
    assert set(later_results(results).values()) == {""}
    for name in ("copy", "theirs"):
        why = "the references of new are not older than those of this package"
        assert f"{name}: does not supersede new, because {why}" in notes


def test_references_that_this_package_does_not_know_are_not_older(results):
    export(scaled(rescored(results), "9", -50.0), results / "newest")
    export(rescored(results), results / "theirs", digest(results, "newest"))
    assert set(later_results(results).values()) == {""}


def refutation(source):
    """A record that a run of the source differed when it was trained again."""
    run = source.runs[0]
    numbers = FiniteComparison(stated=1.0, found=0.0, noise_band=0.1, seed_band=None)
    again = VerifiedRun(
        run_id=run.spec.run_id, label="bc", verdict="different",
        raw_return=numbers, deterministic_return=numbers,
    )  # fmt: skip
    return Verification(
        submission=source.digest, name=source.name, verified_by="x", verified_at="x", seed=0,
        completed=6, runs=[again], provenance=run.provenance,
    )  # fmt: skip


def test_results_that_were_refuted_do_not_rank_again_on_a_newer_scale(results):
    export(rescored(results), results / "new", digest(results, "old"))
    sources = {each.name: each for each in find_results(results).sources}
    record = refutation(sources["old"])
    refuted = dataclasses.replace(sources["old"], verifications=(record,))
    old, new = link_superseded([refuted, sources["new"]], [])
    assert (old.superseded_by, new.superseded_by) == ("new", "")
    assert new.verifications == (record,)
    assert not new.sound


def test_results_that_differed_when_trained_again_supersede_nothing(results):
    export(rescored(results), results / "new", digest(results, "old"))
    sources = {each.name: each for each in find_results(results).sources}
    record = refutation(sources["new"])
    refuted, notes = dataclasses.replace(sources["new"], verifications=(record,)), []
    linked = link_superseded([sources["old"], refuted], notes)
    assert [each.superseded_by for each in linked] == ["", ""]
    assert notes == [
        "new: does not supersede old, because a run of it differed when it was trained again"
    ]


def test_the_latest_of_several_versions_supersedes_all_of_them(results):
    """Nobody can check references of versions between those of the first and of the cards."""
    between = scaled(rescored(results), "1", 20.0)
    export(between, results / "between", digest(results, "old"))
    assert later_results(results) == {"between": "", "old": ""}
    export(rescored(results), results / "new", digest(results, "between"))
    found = find_results(results)
    assert later_results(results) == {"between": "new", "new": "", "old": "new"}
    assert not [note for note in found.notes if "supersede" in note]


def scores(*paths, messages=None):
    """References of the runs in a database of results, and the folders of their policies."""
    notify = (lambda _: None) if messages is None else messages.append
    with open_results(paths, notify=notify) as connection:
        return connection.execute(
            'select r.version, count(*), list(distinct s.path) from scores s join "references" r '
            "on (s.suite, s.env) = (r.suite, r.env) group by all order by all"
        ).fetchall()


def test_reports_have_the_references_that_supersede_others(results):
    """Whichever name is first."""
    export(rescored(results), results / "z-new", digest(results, "old"))
    messages = []
    [(version, count, _)] = scores(results, messages=messages)
    assert (version, count) == ("2", 6)
    assert messages == ["skipped: old: z-new has its runs with newer references"]
    counted = published_cells(ResultsLocation.of(results), notify=lambda _: None)
    assert sum(cell.counts["done"] for cell in counted) == 6


def test_results_in_another_folder_may_supersede(results, tmp_path):
    export(rescored(results), tmp_path / "new", digest(results, "old"))
    for paths in ([results, tmp_path / "new"], [tmp_path / "new", results]):
        [(version, count, _)] = scores(*paths)
        assert (version, count) == ("2", 6)


@pytest.mark.parametrize("name", ["a", "z"])
def test_reports_ignore_claims_that_boards_ignore(results, name):
    export(with_easy_references(rescored(results)), results / name, digest(results, "old"))
    messages = []
    [(version, count, _)] = scores(results, messages=messages)
    assert (version, count) == ("1", 6)
    assert any(f"{name}: does not supersede old" in message for message in messages)
    assert f"skipped: 6 runs of {name}, which other folders have as well" in messages


def test_policies_of_superseded_results_stay_in_use(results):
    export(rescored(results), results / "z-new", digest(results, "old"))
    run = rescored(results)[0].spec.run_id
    (results / "old" / "policies" / run).mkdir(parents=True)
    [(_, _, paths)] = scores(results)
    assert [path for path in paths if path] == [str(results / "old" / "policies" / run)]


CLAIM = """\
paper,year,figure,url,task,expert_return,demos,claimed_return,point,algo,suite,env,budget,n_demos,config
A,2021,Table 1,https://example.org,Cheetah,8000,5,7000,last,bc,seals-v2,seals/HalfCheetah-v1,quick,all,default
"""


def test_claims_are_compared_with_the_newer_references(results, tmp_path):
    """Whichever name is last."""
    export(rescored(results), results / "a-new", digest(results, "old"))
    (tmp_path / "claims.csv").write_text(CLAIM)
    words = ["claims", "--table", str(tmp_path / "claims.csv"), "--json", "--results"]
    both, new = (
        json.loads(CliRunner().invoke(app, [*words, str(place)], catch_exceptions=False).stdout)
        for place in (results, results / "a-new")
    )
    assert both == new


def test_manifests_without_it_keep_their_digest(results):
    text = (results / "old" / "manifest.json").read_text()
    assert "supersedes" not in text
