"""The README is a promise: every command in it runs, and so does its Python."""

import os
import shlex
import subprocess
import sys

import pytest
from support.hub import serve_hub
from support.readme import ROOT, blocks, commands

from imitbench.cards.catalog import load_suite, suite_directory


def test_commands_of_make_are_run_by_continuous_integration():
    script = (ROOT / ".ci" / "run").read_text()
    made = [command for command in commands() if command.startswith("make ")]
    assert made == ["make quickstart", "make test"]
    assert all(f"\n{command}\n" in script for command in made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    """The environment variables of a machine whose hub has what the card of classic names."""
    root = suite_directory("classic")
    with serve_hub() as hub:
        for card in load_suite("classic").environments.values():
            if card.expert.hub is not None and card.demos.hub is not None:
                hub.add_folder("model", card.expert.hub.repo, root / "experts" / card.expert.repo)
                hub.add_folder("dataset", card.demos.hub.repo, root / "demos" / card.demos.repo)
        yield {**os.environ, **hub.environment(tmp_path_factory.mktemp("home"))}


@pytest.mark.parametrize(
    "command", [each for each in commands() if not each.startswith(("make ", "slurm/"))]
)
def test_commands_run_in_the_order_of_the_readme(folder, surroundings, command):
    program, *arguments = shlex.split(command)
    assert program == "imitbench"
    done = subprocess.run(
        [sys.executable, "-m", "imitbench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=surroundings,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr


def test_the_example_of_the_library_runs(tmp_path):
    [program] = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
