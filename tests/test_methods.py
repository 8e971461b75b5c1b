"""Each method has a page, whose code runs, and which shows its card and its published results."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.stem for path in (DOCS / "methods").glob("*.md") if path.stem != "index")
# What the code of each page is replaced with, so that it takes seconds.
OFF_POLICY = {"train(20_000)": "train(1_040)"}
SMALL = {
    "adril": OFF_POLICY,
    "airl": {"train(100_000)": "train(2_048)"},
    "bc": {"n_epochs=10": "n_epochs=1"},
    "controls": {"learn(50_000)": "learn(2_048)"},
    "cpl": {"train(2_000)": "train(4)", "episodes(16)": "episodes(1)"},
    "csil": {**OFF_POLICY, "bc_updates=1_000": "bc_updates=10", "updates=200": "updates=10"},
    "dac": OFF_POLICY,
    "dagger": {"train(4_000)": "train(1_500)"},
    "density": {"policy(100_000)": "policy(2_048)"},
    "explicit_rewards": OFF_POLICY,
    "gail": {"train(100_000)": "train(1_024)"},
    "hype": OFF_POLICY,
    "iq_learn": OFF_POLICY,
    "ls_iq": OFF_POLICY,
    "offline": {"train(2_000)": "train(20)"},
    "mce_irl": {"train(1_000)": "train(2)"},
    "observations": {"train(100_000)": "train(1_024)"},
    "pebble": {
        "num_iterations=5": "num_iterations=1",
        "pretrain(2_000)": "pretrain(200)",
        "total_timesteps=18_000": "total_timesteps=200",
    },
    "preference_comparisons": {
        "num_iterations=5": "num_iterations=1",
        "total_timesteps=100_000": "total_timesteps=2_048",
    },
    "pwil": OFF_POLICY,
    "ranked_rewards": {"policy(100_000)": "policy(2_048)"},
    "sequences": {"train(2_000)": "train(4)"},
    "sqil": {"total_timesteps=20_000": "total_timesteps=600"},
    "value_dice": OFF_POLICY,
}


@pytest.fixture(scope="module")
def method_pages():
    pytest.importorskip("markdown", reason="Markdown is missing: pip install '.[docs]'")
    sys.path.insert(0, str(DOCS / "hooks"))
    try:
        import method_pages
    finally:
        del sys.path[0]
    return method_pages


def text_of(page):
    return (DOCS / "methods" / f"{page}.md").read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)


def names_in(page, kind):
    [names] = re.findall(rf"^<!-- {kind}: ([\w, ]+) -->$", text_of(page), re.MULTILINE)
    return names.split(", ")


def test_each_algorithm_has_one_page(method_pages):
    assert set(method_pages.pages_of_methods(DOCS)) == set(algorithm_names())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_all_of_its_algorithms(page, method_pages):
    names = names_in(page, "card")
    assert sorted(names_in(page, "results")) == sorted(names)
    shown = [name for name in names if load_algorithm(name).hyperparameters]
    assert sorted(names_in(page, "hyperparameters")) == sorted(shown)
    filled = method_pages.fill_method_page(text_of(page), DOCS)
    for name in shown:
        for parameter in load_algorithm(name).hyperparameters:
            assert f"| `{parameter}` |" in filled


def test_the_pages_have_every_published_row(method_pages):
    tables = (DOCS / "results_tables.md").read_text(encoding="utf-8")
    tier = r"(?:[a-z -]+ (?:\d+|provisional))?"
    rows = re.findall(rf"^\| {tier} ?\| (.*\[.*\] \|.* \d+ \|)$", tables, re.MULTILINE)
    external = re.findall(r"^\| +\| (\w+ \(external\).*)$", tables, re.MULTILINE)
    filled = "".join(method_pages.fill_method_page(text_of(page), DOCS) for page in PAGES)
    assert len(rows) > 80
    heads = re.findall(r"^(\| conditions \|.*)\n(.*)\n(.*)$", filled, re.MULTILINE)
    assert {len({line.count("|") for line in lines}) for lines in heads} == {1}
    assert len(external) > 10
    assert [row for row in rows + external if row not in filled] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = blocks(page, "python")[0]
    for written, small in SMALL[page].items():
        assert written in program
        program = program.replace(written, small)
    exec(compile(program, f"{page}.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_can_be_planned(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks(page, "bash")).splitlines()
    assert lines
    for line in lines:
        program, command, *arguments = shlex.split(line)
        assert (program, command) == ("imitbench", "run")
        done = CliRunner().invoke(app, ["run", *arguments, "--dry-run"], standalone_mode=False)
        assert done.exception is None, (line, done.exception)
