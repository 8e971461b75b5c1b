"""What finds each kind of fraud; docs/frauds.md has the same table."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.command import call_imitbench
from support.forge import FINDERS, FRAUDS, PAGE, Forger, table

from imitbench.conformance.reproduction import compare_run, sample_runs
from imitbench.published import alarms
from imitbench.published.alarms import KINDS, MEANINGS
from imitbench.published.results_sources import compare_with, find_results
from imitbench.published.submission import read_strictly
from imitbench.published.validation import validate
from imitbench.published.verification import public_draw

DOCS = PAGE.parent
RESULTS = DOCS.parent / "results"


@pytest.fixture(scope="module")
def honest(real_sweep, tmp_path_factory):
    """Real runs, and their export."""
    folder = tmp_path_factory.mktemp("honest")
    real_sweep(folder)
    assert call_imitbench("results", "export", "honest", cwd=folder).code == 0
    return folder


@pytest.fixture
def forger(honest, tmp_path):
    folder = shutil.copytree(honest / "honest", tmp_path / "cheat")
    return Forger(Path(folder), RESULTS / "imitbench-classic")


def verified(folder, out):
    """Verdicts of `leaderboard verify`, if every run is drawn; the same runs stand in `out`."""
    runs = read_strictly(folder).published
    known = {path.parent.name for path in out.glob("*/*/*/*/spec.json")}
    drawn = sample_runs(runs, len(runs), seed=0).runs
    return [
        compare_run(run, out, runs)
        for run in drawn
        if any(name.endswith(run.spec.run_id) for name in known)
    ]


def findings(forger, honest):
    """Everything that finds something, as `FINDERS` names it, with checks and warnings."""
    validation = validate(forger.folder)
    compared = compare_with(validation, [honest / "honest"])
    found = {
        "validate": set(validation.failed),
        "alarm": {alarm.kind for alarm in validation.alarms},
        "against": {alarm.kind for alarm in compared.alarms[len(validation.alarms) :]},
    }
    if validation.valid:
        seen = verified(forger.folder, honest / "runs")
        found["verify"] = {each.spec.run_id for each in seen if not each.agrees}
        found["identical"] = {
            each.spec.run_id for each in seen if each.same_setting and each.verdict != "identical"
        }
    return {name: each for name, each in found.items() if each}


def test_the_honest_export_is_found_honest(forger, honest):
    assert validate(forger.folder).alarms == ()
    assert findings(forger, honest) == {}
    seen = verified(forger.folder, honest / "runs")
    assert [each.verdict for each in seen] == ["identical"] * 6


@pytest.mark.parametrize("name", FRAUDS)
def test_each_fraud_is_found_by_what_the_page_says(forger, honest, name):
    fraud = FRAUDS[name]
    fraud.make(forger)
    found = findings(forger, honest)
    if fraud.found in ("nothing", "check-algo"):
        # The files tell nothing but that the episodes are those of the honest runs.
        assert found.keys() <= {"against"}, found
        return
    assert fraud.found in found, found
    assert set(fraud.by) <= found[fraud.found] or not fraud.by, found
    if fraud.found != "validate":
        assert "validate" not in found, found
    if fraud.found in ("verify", "identical"):
        assert "alarm" not in found, found


def test_the_page_has_the_table():
    """`python tests/support/forge.py` writes it."""
    assert table() in PAGE.read_text()
    assert len(FRAUDS) >= 20
    assert {fraud.found for fraud in FRAUDS.values()} == set(FINDERS)


def test_the_warnings_are_documented():
    text = (DOCS / "leaderboard.md").read_text()
    rows = text.partition("| warning |")[2].partition("\n\n")[0].splitlines()[2:]
    assert tuple(row.split("`")[1] for row in rows) == KINDS == tuple(MEANINGS)


def test_a_board_tells_of_copies(forger, honest):
    FRAUDS["resubmitted"].make(forger)
    found = find_results(honest / "honest", forger.folder)
    assert {source.name: [alarm.kind for alarm in source.alarms] for source in found.sources} == {
        "honest": ["copies"], "cheat": ["copies"]
    }  # fmt: skip
    [told, _] = [note for note in found.notes if note.startswith("warning: ")]
    assert "6 runs with the episodes of cheat" in told
    assert "to the last digit: one is a copy" in told


def test_a_board_tells_of_near_copies_on_both_sides(forger, honest):
    FRAUDS["resubmitted, better"].make(forger)
    found = find_results(honest / "honest", forger.folder)
    near = {
        source.name: [str(alarm) for alarm in source.alarms if "nearly" in str(alarm)]
        for source in found.sources
    }
    assert "3 runs with nearly the episodes of honest, but other settings" in near["cheat"][0]
    assert "3 runs with nearly the episodes of cheat" in near["honest"][0]


def test_the_command_tells_of_copies_and_does_not_fail(forger, honest):
    FRAUDS["resubmitted"].make(forger)
    words = ("leaderboard", "validate", forger.folder, "--against", honest / "honest")
    answer = call_imitbench(*words, cwd=honest)
    assert answer.code == 0
    assert "valid, 6 runs, 1 warning" in answer.out
    assert "warning (copies): bc on Pendulum-v1, seed 0: 6 runs with the episodes" in answer.err
    document = json.loads(call_imitbench(*words, "--json", cwd=honest).out)
    assert [each["kind"] for each in document["warnings"]] == ["copies"]


def test_a_public_seed_draws_for_each_submission(forger, honest):
    runs = read_strictly(forger.folder).published
    one, other = public_draw("a" * 64, "4 8 15 16 23 42"), public_draw("b" * 64, "4 8 15 16 23 42")
    assert one == 17863604042230853266
    assert one != other
    assert [run.spec.run_id for run in sample_runs(runs, 3, seed=one).runs] == [
        run.spec.run_id for run in sample_runs(runs, 3, seed=one).runs
    ]
    answer = call_imitbench(
        "leaderboard", "verify", forger.folder, "--public-seed", "x", "--seed", 1, cwd=honest
    )
    assert (answer.code, "--public-seed and --seed: give one of them" in answer.err) == (2, True)


def test_the_chance_of_discovery_is_that_on_the_page():
    text = PAGE.read_text()
    rows = text.partition("| runs drawn |")[2].partition("\n\n")[0].splitlines()[2:]
    for row in rows:
        drawn, *stated = (cell.strip() for cell in row.strip("|").split("|"))
        for forged, cell in zip((1, 3, 10, 30), stated, strict=True):
            missed = math.comb(30 - forged, int(drawn)) / math.comb(30, int(drawn))
            assert cell == f"{1 - missed:.0%}"
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        (range(3), []),
        (range(1000, 1003), []),
        ([*range(2), *range(1000, 1002)], []),
        ([0, 2], ["seeds are not counted from 0: 1 is not among them"]),
        ([1000, 1002], ["seeds are not counted from 1000: 1001 is not among them"]),
        ([5], ["seeds are not counted from 0: 0 is not among them"]),
        ([7, 1001], ["seeds are not counted from 0: 0 is not among them",
                     "seeds are not counted from 1000: 1000 is not among them"]),
    ],
)  # fmt: skip
def test_chosen_seeds_are_noticed(seeds, said):
    runs = [
        SimpleNamespace(spec=SimpleNamespace(suite="classic", setting="", seed=seed))
        for seed in seeds
    ]
    assert [alarm.what for alarm in alarms._odd_seeds(runs, set())] == said
