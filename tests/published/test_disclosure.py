"""Results say how their hyper-parameters were chosen, and what they say fits their runs."""

import json
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.plans import make_plan
from support.submissions import write_submitted_runs
from typer.testing import CliRunner

from imitbench.cards.catalog import load_algorithm
from imitbench.cards.tuned import TunedValues, Tuning
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.published import card_checks, disclosure, table_values
from imitbench.published.claim_outcomes import own_outcomes
from imitbench.published.claims import read_claims
from imitbench.published.disclosure import (
    DISCLOSURE_FILE,
    Disclosure,
    add_disclosures,
    check_disclosures,
    disclosure_text,
    has_other_values,
    own_disclosures,
    parse_disclosures,
)
from imitbench.published.findings import Findings
from imitbench.published.results_folder import read_runs
from imitbench.published.results_sources import find_results, submission_folders
from imitbench.published.validation import validate
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.data_formats import render_csv, render_json, render_markdown
from imitbench.report.leaderboard.site import write_site
from imitbench.tune.held_out_comparison import add_tuned

RESULTS = Path(__file__).resolve().parents[2] / "results"
LABEL = "bc[batch_size=128]"
BY_HAND = {
    "suite": "classic", "algo": LABEL, "chosen": "hand", "criterion": "the true return",
    "tasks": ["Pendulum-v1"], "seeds": [100, 101], "env_steps": None, "published_seeds": False,
    "exported": "last",
}  # fmt: skip


def specs(*algorithms, seeds=2, **settings):
    return list(make_plan(algorithms=list(algorithms), suite="classic", environment="Pendulum-v1",
                          seeds=range(seeds), budget="quick", **settings))  # fmt: skip


def problems(rows, runs):
    findings = Findings()
    check_disclosures([Disclosure(**row) for row in rows], runs, findings)
    assert {each.check for each in findings.problems} <= {"disclosure"}
    return [each.what for each in findings.problems]


@pytest.fixture
def changed():
    """Runs of BC with another batch size than the card's."""
    return specs("bc", overrides={"batch_size": "128"})


def test_a_statement_that_fits_has_no_problems(changed):
    assert changed[0].algo_label == LABEL
    assert problems([BY_HAND], changed) == []
    assert problems([], specs("bc", "random")) == []  # the card's values need none


def test_other_values_than_the_cards_need_a_statement(changed):
    [what] = problems([], changed)
    assert what == f"{LABEL} on classic does not say how its hyper-parameters were chosen"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": "default"}, "but the label says that values differ"),
        ({"chosen": "search", "seeds": []}, "a search has a criterion, tasks and seeds"),
        ({"seeds": [1, 100]}, "seed 1 was compared and is published here"),
        ({"published_seeds": None}, "must be true or false"),
        ({"exported": "average"}, "policy_tau of the runs says otherwise"),
        ({"algo": "bc"}, "there are no such runs"),
    ],
)
def test_a_statement_that_contradicts_the_runs_is_refused(changed, changes, message):
    assert any(message in what for what in problems([BY_HAND | changes], changed))


def test_a_seed_that_was_compared_elsewhere_may_be_published(changed):
    assert problems([BY_HAND | {"seeds": [1], "tasks": ["seals/CartPole-v0"]}], changed) == []


def test_only_card_values_are_defaults():
    row = BY_HAND | {"algo": "bc"}
    assert "the values are the card's" in problems([row], specs("bc"))[0]
    assert problems([row | {"chosen": "default", "published_seeds": None}], specs("bc")) == []


def test_averages_are_recognized_by_the_values_of_the_runs():
    average = specs("dac", pack=2)
    row = {"suite": "classic", "algo": "dac[pack=2]", "chosen": "default", "published_seeds": None}
    assert not has_other_values(average[0])
    assert problems([row | {"exported": "average"}], average) == []
    assert "otherwise" in problems([row | {"exported": "last"}], average)[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([BY_HAND, BY_HAND], f"{LABEL} on classic occurs twice"),
        ([BY_HAND | {"luck": 1}], "rows.0.luck"),
        ([BY_HAND | {"env_steps": -1}], "rows.0.env_steps"),
        ([BY_HAND | {"chosen": "guessed"}], "rows.0.chosen"),
    ],
)
def test_a_malformed_file_is_one_line(tmp_path, rows, message):
    path = tmp_path / DISCLOSURE_FILE
    document = {"format": "imitbench-disclosure", "version": 1, "rows": rows}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"^{path}: .*{message.replace('[', '.')}") as caught:
        parse_disclosures(path)
    assert "\n" not in str(caught.value)


@pytest.fixture
def own_runs(tmp_path):
    write_submitted_runs(tmp_path / "runs", failing=(), overrides={"bc.batch_size": "128"})
    return tmp_path / "runs"


def export(runs, folder):
    """Exports, and returns what the command says."""
    done = call_imitbench("results", "export", folder, "--out", runs, "--quiet", cwd=runs)
    assert done.code == 0
    return done.err


def test_an_export_asks_for_statements_and_takes_them_along(own_runs, tmp_path):
    bare, stated = tmp_path / "bare", tmp_path / "stated"
    assert f"{LABEL} on classic does not say" in export(own_runs, bare)
    assert validate(bare).failed == ["disclosure"]
    rows = [Disclosure(**BY_HAND), Disclosure(**BY_HAND | {"algo": "never run"})]
    (own_runs / DISCLOSURE_FILE).write_text(disclosure_text(rows))
    assert export(own_runs, stated) == ""
    assert validate(stated).valid
    assert [row.algo for row in parse_disclosures(stated / DISCLOSURE_FILE)] == [LABEL]
    manifests = [json.loads((each / "manifest.json").read_text()) for each in (bare, stated)]
    assert manifests[0]["files"] == manifests[1]["files"]


def test_statements_come_with_pulled_runs(own_runs, tmp_path):
    (own_runs / DISCLOSURE_FILE).write_text(disclosure_text([Disclosure(**BY_HAND)]))
    export(own_runs, tmp_path / "published")
    theirs = tmp_path / "theirs"
    for _ in range(2):
        done = call_imitbench("results", "pull", "published", "--out", "theirs", cwd=tmp_path)
        assert done.code == 0, done.err
        assert parse_disclosures(theirs / DISCLOSURE_FILE) == [Disclosure(**BY_HAND)]
    assert export(theirs, tmp_path / "again") == ""
    assert validate(tmp_path / "again").valid


def test_own_statements_are_kept(tmp_path):
    mine = Disclosure(**BY_HAND | {"seeds": [7]})
    (tmp_path / DISCLOSURE_FILE).write_text(disclosure_text([mine]))
    other = Disclosure(**BY_HAND | {"algo": "another"})
    add_disclosures(tmp_path, [Disclosure(**BY_HAND), other])
    assert parse_disclosures(tmp_path / DISCLOSURE_FILE) == [other, mine]


def test_every_row_of_a_board_says_how_its_values_were_chosen(own_runs, tmp_path):
    (own_runs / DISCLOSURE_FILE).write_text(disclosure_text([Disclosure(**BY_HAND)]))
    board = build_board(find_results(own_runs), title="x", replicates=100)
    rows = {row["algorithm"]: row for row in json.loads(render_json(board))["tables"][0]["rows"]}
    assert rows[LABEL]["values_chosen"] == "by hand"
    assert rows[LABEL]["disclosures"][0]["seeds"] == [100, 101]
    assert rows["gail"]["values_chosen"] == "not stated"
    assert "by hand" in render_csv(board)
    assert "| by hand |" in render_markdown(board)
    write_site(board, tmp_path / "site", results=[])
    [page] = {tmp_path / "site" / row.row.page for row in board.rows if row.row.name == LABEL}
    assert (
        "The values were chosen by hand, compared by the true return, on Pendulum-v1, with seeds "
        "100, 101, in an unrecorded number of environment steps. No published seeds had a say. The "
        "evaluated policy is the last one."
    ) in page.read_text()


def test_searches_on_record_need_no_statement_of_their_own(tmp_path, monkeypatch):
    write_submitted_runs(tmp_path / "runs", ("bc",), failing=())
    found = read_runs(tmp_path / "runs").runs
    own = [type(run)(run.spec.model_copy(update={"variant": "tuned"}), run.result) for run in found]
    runs = {"mean": 1.0, "runs": [1.0]}
    tuning = Tuning(
        imitbench="1", suite="classic", objective="return", uses_reward=True, budget="quick",
        trials=30, env_steps=7, search_seeds=[100], held_out_seeds=[200], sampler_seed=0,
        verdict="better", default=runs, tuned=runs,
    )  # fmt: skip
    values = TunedValues(source="x", values={}, tuning=tuning)
    monkeypatch.setattr(disclosure, "_bundled", lambda _: {"Pendulum-v1": values})
    [row] = own_disclosures(tmp_path, own)
    assert (row.algo, row.chosen, row.env_steps) == ("bc[tuned]", "search", 7)
    assert (row.tasks, row.seeds, row.published_seeds) == (["Pendulum-v1"], [100, 200], False)
    assert problems([row.model_dump()], [run.spec for run in own]) == []
    elsewhere = tuning.model_copy(update={"environments": ["seals/CartPole-v0"]})
    values = values.model_copy(update={"tuning": elsewhere})
    assert own_disclosures(tmp_path, own)[0].tasks == ["seals/CartPole-v0"]


def test_values_of_the_table_of_methods_are_known(tmp_path, monkeypatch):
    """They are other ones than those next to the cards, and for other demonstrations."""
    means = {"mean": 1.0, "runs": [1.0]}
    found = {
        kind: TunedValues(
            source="x",
            values={"batch_size": size},
            tuning=Tuning(
                imitbench="1", suite="classic", objective=kind, uses_reward=kind == "return",
                budget="quick", trials=16, env_steps=7, core_hours=0.5, search_seeds=[100],
                held_out_seeds=[200], sampler_seed=0, verdict="better", default=means, tuned=means,
            ),
        )
        for kind, size in (("return", 128), ("state-match", 256))
    }  # fmt: skip
    folder = tmp_path / "table-values"
    folder.mkdir()
    for name, kind in (("bc", "return"), ("bc-state-match", "state-match")):
        add_tuned(folder / f"{name}.yaml", load_algorithm("bc"), {"Pendulum-v1": found[kind]})
    monkeypatch.setattr(table_values, "_folder", lambda: folder)
    for known in (table_values.table_values, card_checks._tuned):
        known.cache_clear()
    claims = tmp_path / "claims.csv"
    claims.write_text(
        "paper,year,figure,url,task,claimed_score,point,algo,suite,env,budget,n_demos,config\n"
        "A,2020,Table 1,https://example.org,Pendulum-v1,1,last,bc,classic,Pendulum-v1,quick,all,"
        "tuned\n"
    )
    for name, criterion in (("bc", "the true return"), ("bc-state-match", "state-match")):
        runs, shown = tmp_path / name, tmp_path / f"{name}-published"
        config = str(folder / f"{name}.yaml")
        write_submitted_runs(runs, ("bc",), failing=(), config=config)
        words = ["results", "export", str(shown), "--out", str(runs)]
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
        assert not validate(shown).failed
        [row] = parse_disclosures(shown / DISCLOSURE_FILE)
        assert (row.algo, row.chosen, row.criterion) == ("bc[tuned]", "search", criterion)
        by = "" if criterion == "the true return" else " by state-match"
        assert row.short == f"searched{by}"
        second = {table_values.is_of_second_row(run.spec) for run in read_runs(runs).runs}
        assert second == {name == "bc-state-match"}  # claims leave them out
        stated = read_claims(claims)
        own = own_outcomes(stated, read_runs(runs).runs)
        assert [outcome is not None for outcome in own] == [name == "bc"]
        assert (row.trials, row.env_steps, row.core_hours) == (16, 7, 0.5)
    (folder / "bc-state-match.yaml").unlink()
    for known in (table_values.table_values, card_checks._tuned):
        known.cache_clear()
    assert {each.check for each in validate(shown).problems} == {"algorithm"}
    table_values.table_values.cache_clear()
    card_checks._tuned.cache_clear()


@pytest.mark.parametrize("folder", submission_folders(RESULTS), ids=lambda path: path.name)
def test_every_published_method_has_a_statement(folder):
    """Also the card's own values, as they were chosen by somebody."""
    algorithms = {
        label
        for summary in json.loads((folder / "manifest.json").read_text())["suites"].values()
        for label in summary["algorithms"]
    }
    path = folder / DISCLOSURE_FILE
    stated = {row.algo for row in parse_disclosures(path)} if path.exists() else set()
    anchors = {"random", "expert"}
    controls = {"zero_reward", "constant_plus", "constant_minus", "random_reward"}
    # Controls have no values to choose, in packs neither.
    methods = {name for name in algorithms if name.partition("[")[0] not in anchors | controls}
    assert stated == methods
