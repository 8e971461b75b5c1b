"""The table's design is as it was registered, and its commands can be typed as they are printed."""

import json
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from imitbench.cli import run as run_command
from imitbench.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))
DIGEST = "2da18ef37a1fa47b365d578d539977a6e8d1788b10b5eb2fb77f3696619be568"


@pytest.fixture(scope="module")
def design():
    return TABLE["read_design"]()


def test_the_design_is_the_registered_one(design, tmp_path):
    assert design.digest == DIGEST
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
        assert [*request.search_seeds] == wanted.seeds
        assert [*request.held_out_seeds] == wanted.held_out_seeds
        assert (request.objective, request.algorithm.name) == (wanted.objective, method)
