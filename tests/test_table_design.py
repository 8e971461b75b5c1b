"""The table's design is as it was registered, and its commands can be typed as they are printed."""

import json
import runpy
import shlex
from pathlib import Path

import pytest
from support.submissions import LEVELS, write_submitted_runs
from typer.testing import CliRunner

from imitbench.cards.catalog import load_algorithm
from imitbench.cards.tuned import TunedValues
from imitbench.cli import run as run_command
from imitbench.cli.main import app
from imitbench.published.disclosure import check_disclosures
from imitbench.published.findings import Findings
from imitbench.tune.held_out_comparison import add_tuned

ROOT = Path(__file__).resolve().parents[1]
TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))
REGISTERED = "2da18ef37a1fa47b365d578d539977a6e8d1788b10b5eb2fb77f3696619be568"
DIGEST = "5a207c96416cac1d58cc5372b1b725dfded16076339590d71ad69956548f154a"


@pytest.fixture(scope="module")
def design():
    return TABLE["read_design"]()


def test_the_design_is_the_registered_one(design, tmp_path):
    assert design.digest == DIGEST
    [amendment] = design.amendments
    assert (amendment.digest, amendment.amended_at > design.registered_at) == (REGISTERED, True)
    changed = json.loads(TABLE["DESIGN"].read_text())
    changed["search"]["trials"] = 50
    (tmp_path / "design.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="was changed after it was registered"):
        TABLE["read_design"](tmp_path / "design.json")


def test_no_search_sees_a_seed_of_the_rows(design):
    search = design.search
    seen = {*search.seeds, *search.held_out_seeds}
    assert len(seen) == len(search.seeds) + len(search.held_out_seeds)
    assert not seen & set(design.seeds)


@pytest.mark.parametrize("part", ["a", "b", "c", "d"])
def test_the_commands_of_rows_plan_the_registered_seeds(design, part, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # values of searches are named from here
    taken = []
    monkeypatch.setattr(run_command, "print_plans", lambda plans, *_, **__: taken.append(plans))
    commands = list(TABLE["row_commands"](design, part))
    assert bool(commands) == (part != "c")  # its methods follow from part a
    for command in commands:
        words = [*shlex.split(command)[1:], "--dry-run", "--out", str(tmp_path)]
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0, command
        specs = [spec for plan in taken.pop() for spec in plan]
        assert sorted({spec.seed for spec in specs}) == design.seeds, command


def found_by_a_search(root, method, values, kind="", verdict="better"):
    """Writes what the search of a method would write."""
    runs = {"mean": 1.0, "runs": [1.0]}
    tuning = {
        "imitbench": "1", "suite": "seals", "per": "suite", "objective": kind or "return",
        "environments": ["seals/Hopper-v1", "seals/HalfCheetah-v1"], "uses_reward": not kind,
        "budget": "default", "trials": 16, "env_steps": 40, "core_hours": 2.5,
        "search_seeds": [100, 101], "held_out_seeds": [200, 201], "sampler_seed": 0,
        "verdict": verdict, "default": runs, "tuned": runs,
    }  # fmt: skip
    found = TunedValues.model_validate({"source": "x", "values": values, "tuning": tuning})
    folder = root / TABLE["VALUES"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'-'.join(filter(None, (method, kind)))}.yaml"
    add_tuned(path, load_algorithm(method), {"seals/Hopper-v1": found})


def specs_of(command, out, monkeypatch):
    taken = []
    monkeypatch.setattr(run_command, "print_plans", lambda plans, *_, **__: taken.extend(plans))
    words = [*shlex.split(command)[1:], "--dry-run", "--out", str(out)]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0, command
    return [spec for plan in taken for spec in plan]


def test_rows_have_the_values_of_searches_on_every_suite(design, tmp_path, monkeypatch):
    commands = TABLE["row_commands"]
    monkeypatch.setitem(commands.__globals__, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    found_by_a_search(tmp_path, "dac", {"gamma": 0.9})
    found_by_a_search(tmp_path, "dac", {"gamma": 0.8}, "state-match")
    found_by_a_search(tmp_path, "bc", {"learning_rate": 0.002}, verdict="undecided")
    assert len(TABLE["complete_values"](design)) == 3
    assert TABLE["complete_values"](design) == []
    ways = [{}, {"kind": "state-match"}, {"kind": "mujoco"}]
    rows = [
        specs_of(command, tmp_path, monkeypatch)
        for way in ways
        for part in ("a", "b")
        for command in commands(design, part, of=["dac", "bc"], **way)
    ]
    first = [own[0] for own in rows]
    assert [(spec.suite, spec.algo_label, spec.hyperparameters.get("gamma")) for spec in first] == [
        ("seals", "bc", None), ("seals", "dac[tuned,pack=5]", 0.9),
        ("mujoco", "bc", None), ("mujoco", "dac[tuned,pack=5]", 0.9),
        ("seals", "dac[tuned,pack=5]", 0.8), ("mujoco", "dac[tuned,pack=5]", 0.8),
    ]  # fmt: skip
    assert all(len({spec.environment.id for spec in own}) == 5 for own in rows)


def test_a_search_that_found_nothing_better_is_stated_with_its_cost(design, tmp_path, monkeypatch):
    monkeypatch.setitem(TABLE["statements"].__globals__, "ROOT", tmp_path)
    found_by_a_search(tmp_path, "dac", {"gamma": 0.9}, verdict="not better")
    found_by_a_search(tmp_path, "bc", {"learning_rate": 0.002})
    stated = {row.row: row for row in TABLE["statements"](design)}
    assert ("seals", "bc") not in stated  # its row has other values
    row = stated["seals", "dac[pack=5]"]
    assert (row.chosen, row.criterion, row.seeds) == (
        "default",
        "the true return",
        [100, 101, 200, 201],
    )
    assert (row.trials, row.env_steps, row.core_hours) == (16, 40, 2.5)
    findings = Findings()
    [command] = TABLE["row_commands"](design, "a", of=["dac"])
    check_disclosures([row], specs_of(command, tmp_path, monkeypatch), findings)
    assert findings.problems == []
    [asked] = [row for row in stated.values() if (row.suite, row.chosen) == ("classic", "hand")]
    assert asked.algo == "preference_comparisons[total_comparisons=500]"


def test_the_page_states_the_steps_that_the_design_has(design, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "table.md").read_text()
    commands = TABLE["row_commands"](design, "a", of=["dac", "sqil", "gail"])
    planned = [
        (specs[0].algo, f"{specs[0].budget.amount:,}")
        for command in commands
        if (specs := specs_of(command, tmp_path, monkeypatch))
    ]
    assert planned == [
        ("dac", "200,000"), ("sqil", "200,000"), ("gail", "2,000,000"), ("gail", "200,000"),
    ]  # fmt: skip
    best = ["bc", "dac", "gail", "iq_learn", "ls_iq", "sqil", "csil", "hype"]
    fast = TABLE["row_commands"](design, "c", of=["dac", "sqil", "gail"], best=best)
    steps = [
        (specs[0].budget.amount, specs[0].pack)
        for command in fast
        if "--regime few" in command and (specs := specs_of(command, tmp_path, monkeypatch))
    ]
    assert sorted(steps, key=str) == [(50_000, 5)] * 2 + [(50_000, None)] * 4  # on both suites
    for said in (
        "`pwil` (200,000 steps, packs of 5)",
        "`sqil` (200,000 steps)",
        "`few` with 50,000 steps",
        "`gail`, `airl` (2,000,000 steps, and at 200,000)",
    ):
        assert said in page


def test_pairs_that_differ_are_counted_over_all_tracks(design, tmp_path, monkeypatch):
    for method in ("airl", "sqil"):
        monkeypatch.setitem(LEVELS, method, LEVELS["gail"])
    out = tmp_path / "results"
    few = {"suite": "seals", "env": "*", "n_demos": 1, "demo_every": 20, "budget": "default"}
    write_submitted_runs(out, ("bc", "gail", "airl"), seeds=10, failing=(), **few)
    write_submitted_runs(out, ("sqil",), seeds=3, failing=(), **few)  # provisional
    other = few | {"demo_every": None}
    write_submitted_runs(out, ("bc", "gail"), seeds=10, failing=(), **other)
    [said] = TABLE["decided_pairs"](design, out)
    assert said.startswith("seals: budget default, 1 demonstration, one step in 20, source bundled")
    assert "3 pairs of 3 methods, decided: 2 sampled, 2 likely, 2 both (67%; goal 60%)" in said


def test_rows_of_the_best_methods_need_their_names(design, capsys):
    best = design.search.methods[:8]
    commands = list(TABLE["row_commands"](design, "c", best=best))
    assert len(commands) == 4 * len(best)
    for arguments, said in (
        (["rows", "c"], "name the 8 best methods with --best"),
        (["rows", "c", "--best", "bc,bc"], "name the 8 best methods with --best"),
        (["rows", "a", "--of", "dax"], "--of dax: the design has bc, "),
        (["decided", "nope"], "nope: no such folder"),
        (["rows", "a", "--values", "mujoco"], "name the methods, such as --of bc,dac"),
    ):
        with pytest.raises(SystemExit):
            TABLE["main"](arguments)
        assert said in capsys.readouterr().err


def test_searches_are_planned_as_they_are_registered(design, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    from imitbench.cli import tune_launch

    taken = []
    monkeypatch.setattr(tune_launch, "run_tuning", lambda request, *_, **__: taken.append(request))
    monkeypatch.chdir(tmp_path)
    for method in design.search.methods:
        words = shlex.split(TABLE["search_command"](design, method))[1:]
        CliRunner().invoke(app, words, catch_exceptions=False)
        request, wanted = taken.pop(), design.search
        [scope] = request.scopes
        assert sorted(scope.environments) == sorted(wanted.environments)
        assert len(request.covered(scope)) == 5
        assert (request.trials, request.search_share) == (wanted.trials, wanted.share)
        assert request.plan.request.budget == ("default/10" if method == "sqil" else "default")
        assert [*request.search_seeds] == wanted.seeds
        assert [*request.held_out_seeds] == wanted.held_out_seeds
        assert (request.objective, request.algorithm.name) == (wanted.objective, method)
