"""Executors are found by name, and third-party ones are used like bundled ones."""

import json

import pytest
import typer
from typer.testing import CliRunner

import imitbench
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class, executor_names, executors_of, resolve
from imitbench.executors.slurm import SLURM_FOLDER
from imitbench.executors.slurm.executor import SlurmExecutor

# A third-party executor needs only one file, and a line in its pyproject.toml.
LAB = """
from imitbench.executors.inline import InlineExecutor

class LabExecutor(InlineExecutor):
    option_help = {"profile": "the bench to use"}

    @classmethod
    def from_options(cls, options, worker, out):
        (out / ".lab").mkdir(parents=True, exist_ok=True)
        (out / ".lab" / "bench.txt").write_text(f"bench {options.profile}")
        return cls(worker)

    @classmethod
    def status(cls, out):
        return "2 jobs in the lab"

    @classmethod
    def cancel(cls, out):
        return 2

    @classmethod
    def logs(cls, out, run_id):
        return [("lab", out / ".lab" / "bench.txt")]

something = 3
"""
ENTRY_POINTS = """[imitbench.executors]
lab = lab_executor:LabExecutor
odd = lab_executor:something
gone = lab_executor:Missing
local = lab_executor:LabExecutor
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """An installed package with executors."""
    home = tmp_path / "site"
    (home / "lab-1.0.dist-info").mkdir(parents=True)
    (home / "lab-1.0.dist-info" / "METADATA").write_text("Name: lab\nVersion: 1.0\n")
    (home / "lab-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    (home / "lab_executor.py").write_text(LAB)
    monkeypatch.syspath_prepend(str(home))


def call(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], standalone_mode=False)


def test_an_executor_of_an_installed_package_does_runs(lab, tmp_path):
    assert executor_names() == ["local", "slurm", "inline", "gone", "lab", "odd"]
    out = tmp_path / "runs"
    done = imitbench.run(
        "random", env="Pendulum-v1", seeds=1, budget="quick", out=out, progress=False,
        executor="lab", profile="west",
    )  # fmt: skip
    assert done.ok
    assert (out / ".lab" / "bench.txt").read_text() == "bench west"
    assert "lab" in call("run", "--help").stdout


def test_commands_query_an_executor_only_about_its_results_folders(lab, tmp_path):
    assert list(executors_of(tmp_path)) == []
    (tmp_path / ".lab").mkdir()
    assert list(executors_of(tmp_path)) == [executor_class("lab")]
    assert json.loads(call("cancel", "--out", tmp_path, "--json").stdout) == {"cancelled_tasks": 2}


def test_status_and_logs_show_what_it_says(lab, tmp_path):
    options = {"env": "Pendulum-v1", "seeds": 1, "budget": "quick", "progress": False}
    imitbench.run("random", out=tmp_path, executor="lab", **options)
    [result] = tmp_path.rglob("result.json")
    logs = json.loads(call("logs", result.parent.name, "--out", tmp_path, "--json").stdout)["logs"]
    assert logs["lab"] == ["bench None"]
    assert "2 jobs in the lab" in call("status", "--out", tmp_path).stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("odd", "lab_executor:something is not an executor; make it a subclass of"),
        ("gone", "lab_executor:Missing cannot be loaded"),
        ("labb", "no such executor; did you mean 'lab'"),
    ],
)
def test_a_class_that_is_not_an_executor_is_reported(lab, name, message):
    with pytest.raises(InputError, match=f"--executor {name}: {message}"):
        executor_class(name)


def test_bundled_executors_cannot_be_replaced(lab):
    assert executor_class("local").__module__ == "imitbench.executors.local"


def test_options_of_one_executor_are_refused_by_others(tmp_path):
    options = RunOptions(profile=tmp_path / "p.yaml")
    with pytest.raises(InputError, match="works only with --executor slurm"):
        resolve(options)


def test_the_help_of_such_options_equals_that_of_the_executor():
    command = typer.main.get_command(app).commands["run"]
    helps = {each.name: each.help for each in command.params}
    assert helps["executor"] == "Where runs are done: local, slurm, inline."
    for keyword, text in SlurmExecutor.option_help.items():
        assert helps[keyword] == f"With slurm: {text}."


def test_slurm_stores_its_files_in_the_expected_folder():
    [name] = [each for each in executor_names() if executor_class(each) is SlurmExecutor]
    assert f".{name}" == SLURM_FOLDER
