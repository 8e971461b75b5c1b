"""No command executes modules that lie in the working folder, in results or beside a plug-in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.command_lines import commands
from support.labelling import write_small_set
from support.plugins import write_plugin

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("imitbench")

# Of the standard library, of dependencies, of extras, and of this package.
NAMES = ("json", "random", "multiprocessing", "runpy", "numpy", "torch", "gymnasium", "submitit",
         "optuna", "imitbench")  # fmt: skip
PLANTED = """
import os, pathlib
with open(os.environ["PLANTED_MODULES_SEEN"], "a") as file:
    file.write(f"{__file__}\\n")
"""
PENDULUM = "--env Pendulum-v1"
SHORT = f"--suite classic {PENDULUM} --seeds 1 --budget quick --jobs 1 --quiet"
# What is passed to each command in a folder with planted modules, and whether that is slow. Exit
# codes other than 0 are those of commands whose input is refused after it was read.
CALLS = {
    "run": (0, f"--algo ./lab/mine --out new {SHORT}"),
    "run as a package": (0, f"--algo lab.mine.learner:Mine --out new {SHORT}"),
    "race": (
        0,
        f"./lab/mine --baseline random --out raced --suite classic {PENDULUM} --budget quick "
        "--batch 3 --max-seeds 3 --quiet",
    ),
    "resume": (0, "--out runs --quiet"),
    "status": (0, "--out runs"),
    "cancel": (0, "--out runs"),
    "logs": (0, "--out runs --failed"),
    "collect": (0, "--out runs"),
    "report": (0, "--out runs"),
    "compare": (0, "random --against published --out runs --suite classic"),
    "claims check": (2, "0"),
    "sql": (0, "--out runs select+1"),
    "eval": (0, f"./expert {PENDULUM} --episodes 2"),
    "rewards evaluate": (2, "--out runs --algo random"),
    "rewards show": (2, f"sub {PENDULUM}"),
    "algos": (0, "./lab/mine"),
    "suites show": (0, "classic"),
    "suites measure": (2, f"classic {PENDULUM} --card nothing.yaml"),
    "suites pin": (2, "nothing"),
    "experts list": (0, ""),
    "experts pull": (2, "nowhere"),
    "experts push": (2, "sub me/expert --yes"),
    "experts train": (2, f"--suite nothing {PENDULUM} --to trained"),
    "experts convert": (2, "sub trained"),
    "experts eval": (0, f"./expert {PENDULUM} --episodes 2"),
    "demos list": (0, ""),
    "demos pull": (2, "nowhere"),
    "demos push": (2, "sub me/demos --yes"),
    "demos convert": (2, "sub trained"),
    "demos export": (2, "sub trained.csv"),
    "demos validate": (2, "sub"),
    "demos collect": (2, f"--suite nothing {PENDULUM} --to trained"),
    "demos show": (2, "sub"),
    "record": (2, f"{PENDULUM} --controls nothing.yaml"),
    "label open": (2, f"{PENDULUM} --policy ./nothing --to labels"),
    "label status": (0, "set"),
    "label export": (2, "set labels"),
    "label push": (2, "set me/labels --yes"),
    "label import": (2, "set nothing.jsonl"),
    "label merge": (2, "set nothing"),
    "results push": (2, "me/results --out nothing"),
    "results pull": (0, "sub --out pulled"),
    "results tensorboard": (0, "--out runs --to boards"),
    "results wandb": (2, "--out nothing"),
    "results export": (0, "exported --out runs"),
    "import sacred": (2, "sub"),
    "import csv": (2, "nothing.csv"),
    "import rliable": (2, "nothing.npz"),
    "import human-preferences": (2, "sub --data nothing --to labels"),
    "leaderboard build": (0, "--results sub --out site"),
    "leaderboard validate": (1, "sub"),
    "leaderboard verify": (1, "sub --runs 1"),
    "leaderboard verify of a valid one": (0, "valid --runs 1"),
    "leaderboard intake": (0, "valid --results valid --runs 1 --out taken-in"),
    "leaderboard init": (0, "board"),
    "leaderboard rescore": (2, "sub scored"),
    "leaderboard model-card": (0, "README.md --algo bc --results sub"),
    "prefetch": (2, "--suite nothing"),
    "tune": (0, f"--algo bc --out tuning {PENDULUM} --trials 2 --budget quick --quiet"),
    "init-algo": (0, "another"),
    "init-suite": (2, "tasks --from-demos sub"),
    "check-algo": (0, "./lab/mine"),
    "audit": (2, "--algo bc --env nothing-v0 --seeds 1 --budget quick --quiet"),
    "verify-resume": (0, f"--algo ./lab/mine {PENDULUM}"),
    "doctor": (0, ""),
    "train bc-mse": (0, f"{PENDULUM} --batches 5 --eval-episodes 1 --log-dir trained"),
    "train eval-policy": (0, f"./expert {PENDULUM} --episodes 2"),
}
# Those that start processes of their own in the default tests; all others are slow together.
QUICK = ("run", "sql", "leaderboard verify")


def plant(folder):
    for name in NAMES[:-1]:
        (folder / f"{name}.py").write_text(PLANTED)
    (folder / NAMES[-1]).mkdir()
    (folder / NAMES[-1] / "__init__.py").write_text(PLANTED)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Receives the paths of planted modules that were executed."""
    return tmp_path_factory.mktemp("seen") / "modules"


@pytest.fixture(scope="module")
def imitbench(place, seen, real_sweep):
    """Calls the installed command in a folder full of planted modules; returns how it ended."""

    def call(*words):
        done = subprocess.run(
            [COMMAND, *words], cwd=place, capture_output=True, text=True,
            env={**os.environ, "PLANTED_MODULES_SEEN": str(seen)},
        )  # fmt: skip
        assert not seen.exists(), seen.read_text()
        assert "Traceback" not in done.stderr, done.stderr
        return done

    shutil.copytree(ROOT / "suites/classic/experts/sac-Pendulum-v1", place / "expert")
    write_small_set(place / "set")
    write_plugin(place / "lab" / "mine")
    (place / "lab/mine/__init__.py").touch()
    (place / "lab/__init__.py").touch()
    real_sweep(place)
    assert call_imitbench("results", "export", "valid", cwd=place).code == 0
    shutil.copytree(place / "valid", place / "sub")
    for folder in (place, place / "runs", place / "sub", place / "lab"):
        plant(folder)
    return call


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CALLS]
)
def test_no_planted_module_is_executed(name, imitbench):
    code, options = CALLS[name]
    words = [*name.partition(" of ")[0].partition(" as ")[0].split(), *options.split()]
    done = imitbench(*(word.replace("+", " ") for word in words))
    assert done.returncode == code, done.stderr


def test_every_command_is_called():
    trainings = {name for name, _ in commands() if name.startswith("train ")}
    assert {name for name, _ in commands()} - trainings - set(CALLS) == {"dashboard"}


@pytest.mark.parametrize(
    "words", ["dashboard --out runs --json", "label set", f"record {PENDULUM}"]
)
@pytest.mark.slow
def test_servers_execute_no_planted_module(words, imitbench, place, seen):
    process = subprocess.Popen(
        [COMMAND, *words.split(), "--port", "0", "--no-browser"], cwd=place, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PLANTED_MODULES_SEEN": str(seen), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    with process:
        assert process.stdout.readline()  # it serves
        process.terminate()
        _, errors = process.communicate()
    assert not seen.exists(), seen.read_text()
    assert "Traceback" not in errors
