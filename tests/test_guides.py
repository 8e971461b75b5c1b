"""All code of the guides to the Python API and to `imitbench train` runs, at a smaller size."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats
from support.command import call_imitbench, run_script
from support.command_lines import root_command, with_options
from typer.testing import CliRunner

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cli.main import app
from imitbench.version import __version__

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Precedes a program, whose runs are then evaluated with a few episodes.
SHORTER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from support.evaluation import short_evaluation
del sys.path[0]
short = short_evaluation()
short.__enter__()
"""
SMALL_PPO = ["--set", "n_steps=64", "--set", "n_epochs=1"]


BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


@pytest.mark.slow
def test_all_python_of_the_guide_runs(tmp_path):
    program = "\n".join(blocks("python.md", "python"))
    (tmp_path / "guide.py").write_text(SHORTER + program)
    done = run_script(tmp_path / "guide.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "did you mean 'bc'" in done.out
    assert (tmp_path / "report.html").is_file()


def test_the_programs_of_the_page_on_off_policy_methods_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [program] = blocks("off_policy.md", "python")
    _, counting = blocks("methods/csil.md", "python")
    assert "train(20_000)" in program
    names = {}
    exec(program.replace("20_000", "1_040"), names)
    trainer, stored = names["trainer"], names["policy"]
    assert (trainer.num_timesteps, trainer.n_updates) == (1040, 41)
    obs = names["demonstrations"][0].obs[:5]
    actions = [each.predict(obs, deterministic=True)[0] for each in (trainer.policy, stored)]
    np.testing.assert_array_equal(*actions)
    capsys.readouterr()
    exec(counting, names)
    ant, *others = (float(line.split()[1]) for line in capsys.readouterr().out.splitlines())
    assert ant < 0.005
    assert [f"{bound(others):.2f}" for bound in (min, max)] == ["0.37", "0.49"]  # as the page says


def test_the_page_on_speed_names_every_method_that_trains_several_seeds_as_one_network():
    section = text_of("devices.md").split("\n## Several seeds as one network\n")[1]
    named = set(re.findall(r"`([a-z_]+)`", section.split("`--pack N`")[0]))
    assert named == {name for name in algorithm_names() if load_algorithm(name).packs}


def test_the_guide_names_every_column():
    text = (DOCS / "python.md").read_text()
    from imitbench.records.runs import ScoreRow

    for column in ScoreRow.model_fields:
        assert f"`{column}`" in text


@pytest.mark.slow
def test_all_commands_of_the_guide_to_train_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in "".join(blocks("train.md", "bash")).splitlines():
        arguments = shlex.split(line, comments=True)[1:]
        if "rl" in arguments or "airl" in arguments:
            arguments += SMALL_PPO
        if arguments[0] == "train":
            arguments += ["--eval-episodes", "2"]
        done = CliRunner().invoke(app, arguments, standalone_mode=False)
        assert done.exception is None, (line, done.exception)


@pytest.mark.slow
def test_the_guide_to_own_demonstrations_leads_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [program] = blocks("own_demonstrations.md", "python")
    subprocess.run([sys.executable, "-c", program], check=True)
    for line in "".join(blocks("own_demonstrations.md", "bash")).splitlines():
        arguments = shlex.split(line)[1:]
        if arguments[0] == "run":
            small = {"--budget": "quick", "--seeds": "1", "--executor": "inline"}
            arguments = with_options(arguments, small)
        done = CliRunner().invoke(app, arguments, standalone_mode=False)
        assert done.exception is None, (line, done.exception)
        if arguments[0] == "report":
            assert "score 1 of the demonstrations" in done.stdout


def text_of(page):
    return (DOCS / page).read_text()


# Smaller runs of pages that `read` carries out.
OTHER_OPTIONS = {
    "run": {"--seeds": "1", "--budget": "quick"},
    "race": {"--batch": "3", "--max-seeds": "3"},
    "train": {"--total-timesteps": "2048", "--eval-episodes": "2"},
}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Carries out all code of a page, in order; blocks of Python without a title are run."""
    monkeypatch.chdir(tmp_path)

    def carry_out(page):
        text = (DOCS / page).read_text()
        for language, title, code in BLOCK.findall(text):
            if title:
                path = tmp_path / title
                path.parent.mkdir(exist_ok=True)
                path.write_text(code)
            elif language == "python":
                subprocess.run([sys.executable, "-c", code], check=True)
            elif language == "bash":
                for line in code.splitlines():
                    type_in(line)

    def type_in(line):
        program, *words = shlex.split(line, comments=True)
        if program == "export":
            monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        elif program == "python":
            subprocess.run([sys.executable, *words], check=True)
        else:
            assert program == "imitbench"
            if "--simulate" not in words:
                words = with_options(words, OTHER_OPTIONS.get(words[0], {}))
            if words[0] == "run" and "preference_comparisons" in words:
                words += ["--set", "preference_comparisons.transfer_steps=2048"]
            if "hybrid" in words:  # needs a GPU
                words.remove("--device")
                words.remove("hybrid")
            done = call_imitbench(*words, cwd=tmp_path)
            # Verdicts of single runs are undecided.
            assert done.code == 0 or words[0] == "compare", (line, done.err)

    return carry_out


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    ["cite.md", "dict_observations.md", "evaluate_reward.md", "how_many_seeds.md"],
)
def test_all_code_of_a_guide_runs(page, read):
    read(page)


@pytest.mark.slow
def test_all_code_of_the_guide_to_images_runs(read, tmp_path):
    done = call_imitbench("init-algo", "my_cnn", "--kind", "bc", cwd=tmp_path)
    assert done.code == 0, done.err
    read("images.md")


def test_the_numbers_of_seeds_are_those_of_the_test():
    text = (DOCS / "how_many_seeds.md").read_text()
    rows = re.findall(r"^\| (0\.\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for spread, *numbers in rows:
        for difference, stated in zip((0.05, 0.1, 0.2, 0.3), map(int, numbers), strict=True):
            enough, too_few = (
                normal_power(difference, float(spread), seeds) for seeds in (stated, stated - 1)
            )
            assert enough >= 0.8
            assert too_few < 0.8 or stated == 2


def normal_power(difference, spread, seeds):
    """The power of a two-sided t-test at 5 %, with the sign of the difference."""
    degrees = 2 * seeds - 2
    if degrees == 0:
        return 0.0
    critical = stats.t.ppf(0.975, degrees)
    return stats.nct.sf(critical, degrees, difference / (spread * (2 / seeds) ** 0.5))


def test_the_page_on_citing_states_this_version():
    entry = yaml.safe_load((DOCS.parent / "CITATION.cff").read_text())
    text = (DOCS / "cite.md").read_text()
    assert entry["version"] == __version__
    for stated in (f"version = {{{__version__}}}", f"title = {{{entry['title']}}}"):
        assert stated in text
    assert f"of imitbench {__version__}" in text


def test_every_command_that_the_guide_to_train_names_exists():
    group = root_command()
    named = re.findall(r"`imitbench ([^`]+)`", (DOCS / "train.md").read_text())
    assert len(named) > 15
    for words in named:
        command = group
        arguments = words.split()
        while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
            command = command.commands[arguments.pop(0)]
        assert command is not group, words
        known = {option for parameter in command.params for option in parameter.opts}
        options = {word for word in arguments if word.startswith("--")}
        assert options <= known or words == "train", (words, options - known)
