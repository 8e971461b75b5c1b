"""Every command and program in the README and in similar pages runs.

Some are made smaller. The first of the README is run as it is by the first stage of continuous
integration.
"""

import re
import shlex

import pytest
from support.command import call_imitbench, run_script
from support.command_lines import with_options
from support.hub import serve_hub
from support.readme import PAGES, README, ROOT, blocks, commands

from imitbench.cards.catalog import load_suite, suite_directory, suite_names

# Replaced in commands that begin with these words.
OTHER_OPTIONS = {
    "run --algo bc --suite classic": {"--seeds": "1"},
    "run --algo bc --algo dagger --env Pendulum-v1": {"--seeds": "2"},
    "tune --algo bc": {"--trials": "2", "--held-out-seeds": "200-201"},
    "run --algo gail --algo airl": {"--set": "n_epochs=1"},
    "run --algo preference_comparisons": {"--set": "transfer_steps=2048"},
}


def test_the_table_of_suites_names_all_of_them():
    section = (ROOT / README).read_text(encoding="utf-8").split("\n## Tasks and regimes\n")[1]
    rows = [line.split("|")[1] for line in section.split("\n## ")[0].splitlines() if "|" in line]
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    assert sorted(named) == sorted(suite_names())


def test_commands_of_make_are_run_by_continuous_integration():
    script = (ROOT / ".ci" / "run").read_text()
    made = [command for command in commands() if command.startswith("make ")]
    assert made == ["make quickstart", "make test"]
    assert all(f"\n{command}\n" in script for command in made)


@pytest.fixture(scope="module")
def hub_environment(tmp_path_factory):
    """Environment variables for a loopback hub with the repositories of the card of classic."""
    root = suite_directory("classic")
    with serve_hub() as hub:
        for card in load_suite("classic").environments.values():
            if card.expert.hub is not None and card.demos.hub is not None:
                hub.add_folder("model", card.expert.hub.repo, root / "experts" / card.expert.repo)
                hub.add_folder("dataset", card.demos.hub.repo, root / "demos" / card.demos.repo)
        yield hub.environment(tmp_path_factory.mktemp("home"))


class Reader:
    """Runs the commands of a page in order, in one folder."""

    def __init__(self, page, folder, environment):
        self.page = page
        self.commands = runnable(page)
        self.folder = folder
        self.environment = environment
        self.typed = set()

    def type_up_to(self, place):
        """Runs a command, and before it the earlier ones that were not run yet."""
        for before in range(place):
            self._type(before)
        return self._type(place)

    def _type(self, place):
        if place in self.typed:
            return None
        program, *arguments = shlex.split(self.commands[place])
        assert program == "imitbench"
        self.typed.add(place)
        line = " ".join(arguments)
        for words, options in OTHER_OPTIONS.items():
            if line.startswith(words):
                arguments = with_options(arguments, options)
        return call_imitbench(*arguments, cwd=self.folder, env=self.environment)


def runnable(page):
    return [each for each in commands(page) if not each.startswith(("make ", "slurm/"))]


@pytest.fixture(scope="module")
def readers(tmp_path_factory, hub_environment):
    return {page: Reader(page, tmp_path_factory.mktemp("page"), hub_environment) for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "place"),
    [
        pytest.param(
            page,
            place,
            id=f"{page}-{command}",
            marks=pytest.mark.xdist_group(page),
        )
        for page in PAGES
        for place, command in enumerate(runnable(page))
    ],
)
def test_the_commands_of_a_page_run_in_order(readers, page, place):
    done = readers[page].type_up_to(place)
    assert done.code == 0, done.err
    assert done.out or done.err


def test_the_library_example_runs(tmp_path):
    [program] = blocks(README, "python")
    (tmp_path / "example.py").write_text(program)
    done = run_script(tmp_path / "example.py", cwd=tmp_path)
    assert done.code == 0, done.err
