"""The shell completes commands, options, and the names on cards; fast, and without torch."""

import os
import subprocess
import sys

import pytest
from support.synthetic_runs import plan_runs, write_results

from imitbench.cli.main import main

PROGRAM = "import sys; sys.argv[0] = 'imitbench'; from imitbench.cli.main import main; main()"


@pytest.fixture
def complete(monkeypatch, capsys):
    """Returns the completions of bash for an incomplete line."""

    def call(line):
        monkeypatch.setattr(sys, "argv", ["imitbench"])
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
        monkeypatch.setenv("_IMITBENCH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out.split()

    return call


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("imitbench verify", ["verify-resume"]),
        ("imitbench run --dry", ["--dry-run"]),
        ("imitbench run --algo ga", ["gaifo", "gail"]),
        ("imitbench run --suite cl", ["classic"]),
        ("imitbench run --env Pen", ["Pendulum-v1"]),
        ("imitbench run --suite tabular --env Pen", []),
        ("imitbench run --budget ", ["quick", "default", "full"]),
        ("imitbench run --executor ", ["local", "slurm", "inline"]),
        ("imitbench run --source h", ["hub"]),
        ("imitbench report --format s", ["svg"]),
        ("imitbench suites show sea", ["seals", "seals-hard", "seals-v2"]),
        ("imitbench experts eval sac-", ["sac-Pendulum-v1"]),
    ],
)
def test_names_are_offered(complete, line, offered):
    assert complete(line) == offered


def test_runs_are_offered_by_their_ids(complete, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    specs = plan_runs(2)
    write_results(tmp_path / "runs", specs)
    assert sorted(complete("imitbench logs ")) == sorted(s.run_id for s in specs)


def test_completion_loads_nothing_heavy():
    program = (
        "import sys\n"
        "from imitbench.cli.main import main\n"
        "sys.argv[0] = 'imitbench'\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'duckdb', 'gymnasium'} & set(sys.modules)\n"
    )
    variables = {"COMP_WORDS": "imitbench run --algo ", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables, "_IMITBENCH_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "gail" in done.stdout


def test_a_script_for_the_shell_is_printed():
    # Typer asks which shell started it; `exit` keeps bash from replacing itself with the program.
    done = subprocess.run(
        ["bash", "-c", '"$@"; exit $?', "bash", sys.executable, "-c", PROGRAM, "--show-completion"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "_IMITBENCH_COMPLETE=complete_bash" in done.stdout
