"""Every command, as users type it."""

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys

import click.testing
import pytest
from support.command import Started
from support.command_lines import root_command

from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite

WIDE = {"COLUMNS": "200"}
QUICK = ("--env", "Pendulum-v1", "--budget", "quick", "--quiet", "--executor", "inline")
SHORT = ("--suite", "diagnostics", "--env", "seals/EarlyTermPos-v0", "--budget", "quick")


@pytest.fixture(scope="module")
def results(real_sweep, tmp_path_factory):
    """A small results folder that several tests read."""
    folder = tmp_path_factory.mktemp("results")
    real_sweep(folder)
    return folder


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['imitbench', '--help']\n"
        "from imitbench.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'stable_baselines3', 'duckdb', 'pyarrow', 'gymnasium'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout


@pytest.mark.parametrize(
    "command",
    [["run"], ["suites"], ["suites", "show"], ["import", "csv"]],
    ids=" ".join,
)
def test_every_command_explains_itself_with_an_example(imitbench, command):
    """One of each depth; `test_json.py` looks at the texts of all."""
    answer = imitbench(*command, "--help")
    assert answer.code == 0
    assert "Example: imitbench" in " ".join(answer.out.split())


def help_pages(command, words=(), root=None):
    """Yields the help page of a command and of all commands below it."""
    root = command if root is None else root
    yield click.testing.CliRunner().invoke(root, [*words, "--help"], env=WIDE).output
    for name in getattr(command, "commands", ()):
        yield from help_pages(command.commands[name], (*words, name), root)


def test_help_names_values_by_words_and_not_by_types():
    pages = list(help_pages(root_command()))
    assert len(pages) > 50
    for page in pages:
        assert "Usage:" in page
        assert not re.search(r"<(int|float|str|path|dir|file|list)\b", page), page


def test_run_prints_a_table_and_leaves_results(imitbench, tmp_path):
    answer = imitbench("run", "--algo", "random", "--seeds", 2, *SHORT, "--jobs", 1)
    assert answer.code == 0
    assert "random" in answer.out
    assert "[2/2] random on seals/EarlyTermPos-v0, seed 1: score " in answer.err
    assert "2 done, 0 already there, 0 failed; results in runs" in answer.err
    assert len(list(tmp_path.glob("runs/diagnostics/random/*/*/result.json"))) == 2


def test_run_prints_one_json_document_on_request(imitbench, results):
    answer = imitbench("run", "--algo", "bc", "--seeds", 2, *QUICK, "--json", cwd=results)
    document = json.loads(answer.out)
    assert (document["already_done"], document["done"], document["failed"]) == (2, 0, [])
    assert [row["seed"] for row in document["scores"]] == [0, 1]
    assert answer.err == ""


def test_dry_run_prints_the_plan_and_does_nothing(imitbench, tmp_path):
    answer = imitbench("run", "--algo", "all", "--seeds", 5, "--dry-run")
    assert answer.code == 0
    controls = load_suite("classic").controls
    for card in map(load_algorithm, algorithm_names()):
        # What needs a model, or a regime with a mixture, is listed as not applicable.
        told = answer.err if card.needs.tabular or card.needs.supplement else answer.out
        assert (card.name in told) == (card.role in ("method", "anchor") or card.name in controls)
    assert "expected time with --jobs 1: about" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_dry_run_excludes_completed_runs(imitbench, results):
    answer = imitbench(
        "run", "--algo", "bc", "--seeds", 5, *QUICK, "--dry-run", "--json", cwd=results
    )
    [cell] = json.loads(answer.out)["cells"]
    assert (cell["runs"], cell["done"]) == (5, 3)
    assert cell["seconds"] > 0


def test_set_changes_a_hyperparameter_and_the_label(imitbench):
    answer = imitbench(
        "run", "--algo", "bc", "--seeds", 1, *SHORT, "--quiet", "--executor", "inline",
        "--set", "hidden_size=8", "--json",
    )  # fmt: skip
    [row] = json.loads(answer.out)["scores"]
    assert row["algo"] == "bc[hidden_size=8]"


def test_status_counts_runs(imitbench, results):
    answer = imitbench("status", "--json", cwd=results)
    assert json.loads(answer.out) == [
        {"suite": "classic", "algo": algo, "env": "Pendulum-v1", "done": 3, "running": 0,
         "failed": 0, "interrupted": 0, "waiting": 0, "eta_s": None, "live": []}
        for algo in ("bc", "random")
    ]  # fmt: skip
    assert "Pendulum-v1" in imitbench("status", cwd=results).out


def test_status_watches_until_all_is_done(imitbench, results):
    answer = imitbench("status", "--watch", "--every", 0.1, cwd=results)
    assert answer.code == 0
    assert "Pendulum-v1" in answer.out
    assert answer.err.splitlines() == ["6 done", "6 done"]  # while watching, and at the end


def test_status_counts_requested_runs_and_interrupts_cleanly(imitbench, results, tmp_path):
    shutil.copytree(results / "runs", tmp_path / "runs")
    for path in tmp_path.glob("runs/*/bc/*/*"):
        shutil.rmtree(path)
    [cell, _] = json.loads(imitbench("status", "--json").out)
    assert (cell["algo"], cell["done"], cell["waiting"]) == ("bc", 0, 3)
    watching = Started("status", "--watch", cwd=tmp_path)
    assert "3 done, 3 waiting" in watching.stderr.readline()
    watching.signal(signal.SIGINT)
    answer = watching.end()
    assert answer.code == 0
    assert "Pendulum-v1" in answer.out


def test_collect_says_what_changed(imitbench, results):
    assert json.loads(imitbench("collect", "--json", cwd=results).out) == {
        "added": 0,
        "removed": 0,
        "quarantined": [],
    }


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_sql_prints_rows(imitbench, results, format):
    query = "select algo, seed from scores order by all"
    answer = imitbench("sql", query, "--format", format, cwd=results)
    expected = [(algo, seed) for algo in ("bc", "random") for seed in range(3)]
    if format == "json":
        assert [tuple(row.values()) for row in json.loads(answer.out)] == expected
    elif format == "csv":
        rows = list(csv.reader(io.StringIO(answer.out)))
        assert rows == [["algo", "seed"], *([algo, str(seed)] for algo, seed in expected)]
    else:
        assert [tuple(line.split()) for line in answer.out.splitlines()[2:]] == [
            (algo, str(seed)) for algo, seed in expected
        ]


def test_report_goes_to_stdout_or_a_file(imitbench, results, tmp_path):
    printed = imitbench("report", cwd=results)
    assert "Pendulum-v1" in printed.out
    imitbench("report", "--to", tmp_path / "report.md", cwd=results)
    assert (tmp_path / "report.md").read_text() == printed.out
    rows = list(
        csv.DictReader(io.StringIO(imitbench("report", "--format", "csv", cwd=results).out))
    )
    assert {row["algorithm"] for row in rows} >= {"bc", "random", "expert"}


def test_a_report_is_a_page_or_latex_on_request(imitbench, results, tmp_path):
    imitbench("report", "--format", "html", "--to", tmp_path / "report.html", cwd=results)
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "batch_size" in page
    printed = imitbench("report", "--format", "latex", cwd=results).out
    assert "\\toprule" in printed
    assert "Pendulum-v1" in printed


def test_a_report_is_figures_on_request(imitbench, refused, results, tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "plots"
    answer = imitbench("report", "--format", "svg", "--to", folder, cwd=results)
    assert f"wrote {folder / 'classic-intervals.svg'}" in answer.err
    assert (folder / "classic-curve-bc-loss.svg").is_file()
    line = refused("report", "--format", "png", cwd=results)
    assert line == "error: --format png needs a folder: --to DIR"


def test_cards_are_listed_and_shown(imitbench):
    assert "bc" in imitbench("algos").out
    assert "batch_size" in imitbench("algos", "bc").out
    assert json.loads(imitbench("algos", "bc", "--json").out)["name"] == "bc"
    assert "classic" in imitbench("suites").out
    shown = imitbench("suites", "show", "classic").out
    assert "Pendulum-v1" in shown
    assert re.search(r"Pendulum-v1 +medium +checkpoint +10 +-806\.759 +yes", shown)
    assert "sac-Pendulum-v1" in imitbench("experts", "list").out
    listed = imitbench("demos", "list")
    assert "sac-Pendulum-v1" in listed.out
    assert "imitbench prefetch --suite adroit --source minari" in listed.err
    documents = json.loads(imitbench("demos", "list", "--json").out)
    without = {each["suite"] for each in documents if each["bytes"] is None}
    assert without == {"adroit", "handwriting", "pusht-pixels"}


def test_experts_eval_measures_a_bundled_expert(imitbench):
    answer = imitbench(
        "experts", "eval", "ppo-seals-CartPole-v0", "--env", "seals/CartPole-v0",
        "--episodes", 3, "--deterministic", "--json",
    )  # fmt: skip
    document = json.loads(answer.out)
    assert document == {
        "mean_return": 500.0,
        "std_return": 0.0,
        "episodes": 3,
        "deterministic": True,
        "published": {
            "mean_return": 500.0, "std_return": 0.0, "episodes": 100, "deterministic": False,
            "file": "results.json", "difference": 0.0, "standard_error": 0.0,
            "standard_errors_apart": None, "agrees": None,
        },
    }  # fmt: skip


def test_an_expert_that_is_too_weak_is_kept_and_reported(imitbench, tmp_path):
    from imitbench.cards.catalog import suite_directory

    (tmp_path / "mine").mkdir()
    card = (suite_directory("classic") / "suite.yaml").read_text()
    card = card.replace("name: classic", "name: mine", 1)
    assert card.count("      algo: sac\n") == 1
    card = card.replace("      algo: sac\n", "      algo: sac\n      least_return: -1.0\n")
    (tmp_path / "mine" / "suite.yaml").write_text(card)
    trained = imitbench(
        "experts", "train", "--suite", "./mine", "--env", "Pendulum-v1",
        "--steps", 210, "--episodes", 1, "--to", "experts",
    )  # fmt: skip
    assert trained.code == 1
    assert "too weak for its card: mean return -" in trained.err
    assert (tmp_path / "experts" / "sac-Pendulum-v1" / "policy.safetensors").is_file()


@pytest.mark.slow
def test_an_expert_is_trained_and_its_demonstrations_are_collected(imitbench, tmp_path):
    trained = imitbench(
        "experts", "train", "--suite", "classic", "--env", "seals/CartPole-v0",
        "--steps", 2048, "--episodes", 2, "--to", "source/experts",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    expert = tmp_path / "source" / "experts" / "ppo-seals-CartPole-v0"
    training = json.loads((expert / "training.json").read_text())
    assert training["env_steps"] == 2048
    assert training["command"].startswith("imitbench experts train --suite classic")
    assert json.loads((expert / "results.json").read_text())["n_eval_episodes"] == 2
    collected = imitbench(
        "demos", "collect", "--suite", "classic", "--env", "seals/CartPole-v0",
        "--experts", "source", "--to", "source/demos",
    )  # fmt: skip
    assert collected.code == 0, collected.err
    shown = imitbench("demos", "show", "source/demos/ppo-seals-CartPole-v0", "--json")
    assert json.loads(shown.out)["n_traj"] == 50


def test_suites_measure_updates_a_card(imitbench, tmp_path):
    from imitbench.cards.catalog import suite_directory
    from imitbench.cards.suite import SuiteCard
    from imitbench.cards.yaml_file import read_yaml_model

    card = tmp_path / "suite.yaml"
    card.write_text((suite_directory("classic") / "suite.yaml").read_text())
    answer = imitbench(
        "suites", "measure", "classic", "--env", "Pendulum-v1", "--episodes", 2, "--card", card
    )
    assert answer.code == 0, answer.err
    before, after = load_suite("classic"), read_yaml_model(card, SuiteCard)
    references = after.environments["Pendulum-v1"].references
    assert references.random.episodes == 2
    assert references.expert_likely.mean != references.expert.mean
    untouched = "seals/CartPole-v0"
    assert after.environments[untouched] == before.environments[untouched]


def test_suites_measure_adds_the_most_likely_actions_and_changes_nothing_else(imitbench, tmp_path):
    import yaml

    from imitbench.cards.catalog import suite_directory

    card = tmp_path / "suite.yaml"
    before = yaml.safe_load((suite_directory("classic") / "suite.yaml").read_text())
    environment = before["environments"]["Pendulum-v1"]
    environment["references"].pop("expert_likely")
    card.write_text(yaml.safe_dump(before))
    options = ("--env", "Pendulum-v1", "--episodes", 2, "--likely", "--card", card)
    answer = imitbench("suites", "measure", "classic", *options)
    assert answer.code == 0, answer.err
    after = yaml.safe_load(card.read_text())
    added = after["environments"]["Pendulum-v1"]["references"].pop("expert_likely")
    assert after == before
    assert (added["deterministic"], added["episodes"]) == (True, 2)
    assert added["revision"] == environment["references"]["expert"]["revision"]


def test_doctor_finds_nothing_wrong(imitbench):
    answer = imitbench("doctor")
    assert answer.code == 0, answer.out
    assert "PROBLEM" not in answer.out


def test_doctor_leaves_no_folder_behind(imitbench, tmp_path):
    assert imitbench("doctor", "--out", str(tmp_path / "new" / "runs")).code == 0
    assert not (tmp_path / "new").exists()


def test_doctor_exits_with_1_and_names_the_problem(imitbench):
    answer = imitbench("doctor", "--out", "/proc/no-results-here")
    assert answer.code == 1
    assert "PROBLEM  results folder" in answer.out


def test_version(imitbench):
    import imitbench as package

    assert imitbench("--version").out.strip() == package.__version__
