"""Alarms, the cost of tuning, versions of rows, and the page on submitting."""

import re
import shlex
from dataclasses import replace

import click
import pytest
from support.submissions import LEVELS, write_submitted_runs
from typer.main import get_command

from imitbench.cards.tuned import TunedValues, Tuning
from imitbench.cli.main import app
from imitbench.published import disclosure
from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard import row_facts
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.row_facts import package_versions
from imitbench.report.leaderboard.site import write_site
from imitbench.report.leaderboard.submit_page import STEPS
from imitbench.report.leaderboard.table_alarms import table_alarms
from imitbench.report.text import NOTHING


def board_of(out, **levels):
    """A board of bc, gail and a control on Pendulum-v1, with these typical scores."""
    before = dict(LEVELS)
    LEVELS.update(levels)
    try:
        write_submitted_runs(out, ("bc", "gail", "zero_reward"), seeds=5, failing=())
    finally:
        LEVELS.update(before)
    return build_board(find_results(out), title="x", replicates=200)


def alarms(board):
    return [
        (each.kind, each.environment)
        for part in board.sections
        for each in table_alarms(part, board.method)
    ]


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ({"bc": 1.1, "gail": 1.1, "zero_reward": 0.0}, [("saturated", "Pendulum-v1")]),
        ({"bc": 1.1, "gail": 0.5, "zero_reward": 0.0}, []),
        ({"bc": 0.8, "gail": 0.5, "zero_reward": 0.4}, [("control", "Pendulum-v1")]),
    ],
)
def test_saturated_tables_and_well_scoring_controls_raise_alarms(tmp_path, levels, found):
    board = board_of(tmp_path / "runs", **levels)
    assert alarms(board) == found
    write_site(board, tmp_path / "site", results=[])
    for page in ("index.html", "suites/classic.html"):
        text = (tmp_path / "site" / page).read_text()
        assert re.findall(r'data-alarm="(\w+)"', text) == [kind for kind, _ in found]


def test_rows_name_the_versions_that_made_them(tmp_path):
    board = board_of(tmp_path / "runs")
    rows = [row for part in board.sections for row in part.rows if row.runs]
    assert {package_versions(row.runs) for row in rows} == {("0.1.0",)}


def test_a_row_says_that_its_runs_are_of_two_kinds_of_processors(tmp_path):
    board = board_of(tmp_path / "runs")
    [part] = board.sections
    row = next(row for row in part.rows if row.runs)
    assert row_facts.processors_text(row.runs) == ""
    first, *others = row.runs
    other = first.run.provenance.model_copy(update={"cpu": "Another <processor>"})
    result = first.run.result.model_copy(update={"provenance": other})
    changed = replace(first, run=replace(first.run, result=result))
    mixed = replace(row, runs=(changed, *others))
    rows = tuple(mixed if each is row else each for each in part.rows)
    board = replace(board, sections=(replace(part, rows=rows),))
    write_site(board, tmp_path / "site", results=[])
    said = "Runs of 2 kinds of processors, which round differently: "
    [page] = [path for path in (tmp_path / "site" / "algorithms").rglob("*.html")
              if said in path.read_text()]  # fmt: skip
    assert "Another &lt;processor&gt; (1 run)" in page.read_text()


def tuned_spec(board):
    [spec, *_] = [spec for part in board.sections for row in part.rows
                  for spec in row.specs if spec.algo == "bc"]  # fmt: skip
    return spec.model_copy(update={"variant": "tuned"})


def record(**changes):
    runs = {"mean": 1.0, "runs": [1.0]}
    return Tuning.model_validate(
        {
            "imitbench": "1", "suite": "classic", "objective": "return", "uses_reward": True,
            "budget": "quick", "trials": 30, "search_seeds": [100], "held_out_seeds": [200],
            "sampler_seed": 0, "verdict": "better", "default": runs, "tuned": runs, **changes,
        }
    )  # fmt: skip


def test_the_cost_of_tuning_is_shown_if_the_values_are_those_of_the_search(tmp_path, monkeypatch):
    spec = tuned_spec(board_of(tmp_path / "runs"))
    values = {"learning_rate": spec.hyperparameters["learning_rate"]}

    def bundled(**content):
        found = TunedValues(source="x", **content)
        monkeypatch.setattr(disclosure, "_bundled", lambda _: {"Pendulum-v1": found})

    untuned = spec.model_copy(update={"variant": ""})
    bundled(values=values, tuning=record(env_steps=120_000, core_hours=1.25))
    assert row_facts.tuning_text([spec, spec]) == (
        "30 trials, 120,000 steps, 1.2 core-hours", 30.0,
    )  # fmt: skip
    assert row_facts.tuning_text([untuned]) == (NOTHING, None)
    bundled(values=values, tuning=record())
    assert row_facts.tuning_text([spec]) == ("30 trials", 30.0)
    for content in (
        {"values": values},
        {"values": {"learning_rate": -1.0}, "tuning": record(env_steps=1)},
    ):
        bundled(**content)
        assert row_facts.tuning_text([spec]) == ("tuned, cost not stated", None)
    stated = disclosure.Disclosure(
        suite=spec.suite, algo=spec.algo_label, chosen="search", criterion="the true return",
        trials=16, env_steps=40, core_hours=2, published_seeds=False, exported="last",
    )  # fmt: skip
    said = "16 trials, 40 steps, 2.0 core-hours"
    assert row_facts.tuning_text([spec], [stated]) == (said, 16.0)
    # Values of a search that do not ship with the package, and one that found nothing better.
    assert row_facts.tuning_text([untuned], [stated]) == (said, 16.0)
    kept = stated.model_copy(update={"chosen": "default"})
    assert row_facts.tuning_text([untuned], [kept]) == (said, 16.0)
    unknown = stated.model_copy(update={"trials": None})
    assert row_facts.tuning_text([untuned], [unknown]) == (NOTHING, None)
    assert "in 40 environment steps, 16 trials, 2.0 core-hours. No published" in stated.text
    assert "trials" not in stated.model_copy(update={"trials": None}).model_dump()


def test_the_page_on_submitting_names_where_and_its_commands_are_accepted(tmp_path):
    board = board_of(tmp_path / "runs")
    write_site(board, tmp_path / "site", results=[])
    text = (tmp_path / "site" / "submit.html").read_text()
    assert "maintainers of this board" in text
    assert 'href="submit.html"' in (tmp_path / "site" / "index.html").read_text()
    for _, _, _, commands in STEPS:
        for command in commands:
            assert command in text
            parse(command)


def parse(line):
    """Parses a command line, without executing it; errors are exceptions."""
    _, *words = shlex.split(line)
    command, context = get_command(app), None
    while isinstance(command, click.Group):
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
        command = command.get_command(context, words.pop(0))
        assert command is not None, line
    command.make_context(command.name, words, parent=context)


def test_two_results_of_the_same_runs_are_not_compared(tmp_path):
    """As of default and tuned values that are the same on an environment."""
    write_submitted_runs(tmp_path / "runs", ("bc",), "*", seeds=4, failing=())
    found = find_results(tmp_path / "runs")
    [source] = found.sources

    def elsewhere(run):
        result = run.result.model_copy(update={"raw_return": run.result.raw_return - 100.0})
        return replace(run, spec=run.spec.model_copy(update={"variant": "tuned"}), result=result)

    once = [run for run in source.runs if run.spec.environment.id == "Pendulum-v1"]
    again = replace(source, name="other", runs=tuple(elsewhere(run) for run in once))
    board = build_board(replace(found, sources=(source, again)), title="x", replicates=200)
    [part] = board.sections
    counts = {row.name: len(row.runs) for row in part.rows if row.runs}
    assert counts == {"bc": 12, "bc[tuned]": 4}
    assert part.pairs == {}
    [note] = [note for note in part.section.notes if "same ids" in note]
    assert note.startswith("bc and bc[tuned] have 4 runs of Pendulum-v1 with the same ids")


def on_another(run, env):
    spec = run.spec.model_copy(
        update={"environment": run.spec.environment.model_copy(update={"id": env})}
    )
    return replace(run, spec=spec, result=run.result.model_copy(update={"run_id": spec.run_id}))


@pytest.mark.parametrize(
    ("unsound", "env"),
    [
        ({"failed": ("suite",)}, "Invented-v0"),
        ({"failed": ("seeds",)}, "seals/CartPole-v0"),
        ({"superseded_by": "later"}, "seals/CartPole-v0"),
        ({}, "Invented-v0"),
    ],
)
def test_results_without_a_rank_take_the_rank_of_no_others(tmp_path, unsound, env):
    """Whoever submits one run of a kind that is not ranked cannot make all others partial."""
    write_submitted_runs(tmp_path / "runs", ("bc", "gail", "expert"), seeds=4, failing=())
    found = find_results(tmp_path / "runs")
    [source] = found.sources
    good = replace(source, name="good")
    invented = tuple(on_another(run, env) for run in source.runs if run.spec.algo == "bc")
    bad = replace(source, name="bad", runs=(*source.runs, *invented), **unsound)
    board = build_board(replace(found, sources=(good, bad)), title="x", replicates=200)
    [part] = board.sections
    assert part.section.environments == ("Pendulum-v1",)
    ranks = {(row.name, row.submitters): row.rank is not None for row in part.rows if row.is_method}
    assert ranks == {
        (name, (who,)): who == "good" or not unsound
        for name in ("bc", "gail")
        for who in ("good", "bad")
    }
    assert not any(row.result.partial for row in part.rows if row.is_method)
    [note] = [note for note in part.section.notes if "Left out" in note]
    assert note.startswith(f"Left out: 4 runs of bad on {env}, where no results have runs")
    [alone] = build_board(replace(found, sources=(bad,)), title="x", replicates=200).sections
    assert (env in alone.section.environments) == bool(unsound)


def test_a_failed_anchor_is_counted_once_on_the_board(tmp_path):
    """It is the same run under every budget, and no failure where its seed completed."""
    write_submitted_runs(
        tmp_path / "runs", ("bc", "random"), failing=[("random", "Pendulum-v1", s) for s in (0, 1)]
    )
    write_submitted_runs(
        tmp_path / "runs", ("bc", "random"), failing=[("random", "Pendulum-v1", 0)],
        budget="default",
    )  # fmt: skip
    board = build_board(find_results(tmp_path / "runs"), title="x", replicates=200)
    assert len(board.sections) == 2
    for part in board.sections:
        [row] = [row for row in part.rows if row.name == "random"]
        assert [failure.row.seed for failure in row.failures] == [0]
        assert row.result.failures == 1


@pytest.mark.parametrize("unsound", [{"failed": ("seeds",)}, {"superseded_by": "later"}, {}])
def test_an_anchor_is_that_of_results_that_can_have_a_rank_where_they_have_it(tmp_path, unsound):
    """Later runs of `random` and `expert`, or further seeds, must not change that of others."""
    write_submitted_runs(tmp_path / "runs", ("bc", "random", "expert"), seeds=5, failing=())
    found = find_results(tmp_path / "runs")
    [source] = found.sources

    def later(run):
        result = {"raw_return": run.result.raw_return - 100.0, "finished_at": "2027-01-01"}
        return replace(run, result=run.result.model_copy(update=result))

    runs = tuple(run for run in source.runs if run.spec.seed < 3 or run.spec.algo == "bc")
    good = replace(source, name="good", runs=runs)
    again = tuple(later(run) for run in source.runs)
    bad = replace(source, name="bad", runs=again, **unsound)
    board = build_board(replace(found, sources=(good, bad)), title="x", replicates=200)
    [part] = board.sections
    anchors = {row.name: (len(row.runs), row.submitters) for row in part.rows if not row.is_method}
    shown = (3, ("good",)) if unsound else (5, ("bad",))
    assert anchors == {"random": shown, "expert": shown}
    [alone] = build_board(replace(found, sources=(bad,)), title="x", replicates=200).sections
    assert {len(row.runs) for row in alone.rows if not row.is_method} == {5}


def test_a_failed_anchor_of_results_without_a_rank_is_none_of_others(tmp_path):
    for folder, failing in (("good", []), ("bad", [("random", "Pendulum-v1", 3)])):
        write_submitted_runs(
            tmp_path / folder, ("bc", "random"), seeds=4 if failing else 3, failing=failing
        )
    [good], [bad] = (find_results(tmp_path / name).sources for name in ("good", "bad"))
    sources = (replace(good, name="good"), replace(bad, name="bad", failed=("seeds",)))
    found = replace(find_results(tmp_path / "good"), sources=sources)
    [part] = build_board(found, title="x", replicates=200).sections
    [row] = [row for row in part.rows if row.name == "random"]
    assert (row.result.failures, row.failures, row.checked) == (0, (), True)
