"""`--json` prints one JSON document on stdout, for every command."""

import json
import math

import pytest
from support.command_lines import root_command
from support.shown_results import write_results
from typer.testing import CliRunner

from imitbench.cli.main import app
from imitbench.cli.output import print_json
from imitbench.errors import InputError

# Commands without results to print, each with the reason. There is none at present.
WITHOUT_JSON = dict.fromkeys(
    ("init-algo", "init-suite", "leaderboard init"), "prints the folder that it wrote"
)

# Commands whose example uses another command.
OTHER_EXAMPLES = {"suites": "suites show", "train eval-policy": "eval", "label open": "label --env"}


def commands(group, path=()):
    if hasattr(group, "commands"):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))
    if not hasattr(group, "commands") or getattr(group, "invoke_without_command", False):
        yield " ".join(path), group


COMMANDS = dict(commands(root_command()))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json") / "runs"
    write_results(folder, seeds=3, failing=(("gail", "Pendulum-v1", 2),))
    return folder


def call(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], standalone_mode=False)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_every_command_has_json(name):
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert ("--json" in options) != (name in WITHOUT_JSON)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_every_command_has_an_example(name):
    # What is hidden explains which other command to call.
    example = "run --algo" if COMMANDS[name].hidden else OTHER_EXAMPLES.get(name, name)
    assert f"Example: imitbench {example}" in " ".join(COMMANDS[name].help.split())


@pytest.mark.parametrize(
    "words",
    [
        "algos", "algos bc", "suites", "suites show classic", "experts list", "demos list",
        "demos validate ppo-seals-CartPole-v0 --limit 1", "doctor",
        "run --algo bc --algo mce_irl --dry-run",
    ],
)  # fmt: skip
def test_bundled_items_are_listed_as_one_document(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert json.loads(call(*words.split(), "--json").stdout)


@pytest.mark.parametrize(
    "words",
    [
        "status", "collect", "logs --failed", "report --replicates 200", "resume", "cancel",
        "compare gail --baseline bc --replicates 200", "sql select(1)", "resume --dry-run",
    ],
)  # fmt: skip
def test_a_results_folder_is_described_as_one_document(words, out):
    answer = call(*words.split(), "--out", out, "--json")
    assert answer.exception is None, answer.exception
    json.loads(answer.stdout)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, command in COMMANDS.items()
        if {"json", "format"} <= {each.name for each in command.params}
    ],
)
def test_another_format_contradicts_json(name, out):
    words = [*name.split(), *(["select 1"] if name == "sql" else []), "--out", out]
    assert json.loads(call(*words, "--json", "--format", "json").stdout)
    refused = call(*words, "--json", "--format", "csv").exception
    assert isinstance(refused, InputError)
    assert str(refused) == "--format csv: contradicts --json; leave one of them out"


def test_no_column_of_a_query_is_lost(out):
    query = ("sql", "select 1 as a, 2 as b, 3 as a", "--out", out)
    refused = call(*query, "--json").exception
    assert isinstance(refused, InputError)
    assert str(refused).startswith("query: has 2 columns a, of which JSON would keep one; name")
    assert call(*query, "--format", "csv").stdout == "a,b,a\n1,2,3\n"


def test_one_document_says_what_does_not_apply():
    document = json.loads(
        call("run", "--algo", "mce_irl", "--algo", "random", "--dry-run", "--json").stdout
    )
    assert {cell["algo"] for cell in document["cells"]} == {"random"}
    assert {pair["algo"] for pair in document["not_applicable"]} == {"mce_irl"}


def test_resume_has_the_same_keys_whether_or_not_something_is_missing(tmp_path):
    options = ("--out", tmp_path, "--json", "--quiet")
    run = ("--algo", "random", "--env", "Pendulum-v1", "--seeds", 1, "--executor", "inline")
    done = json.loads(call("run", *run, *options).stdout)
    nothing = json.loads(call("resume", *options).stdout)
    assert list(nothing) == list(done)
    assert (nothing["done"], nothing["left"], nothing["scores"]) == (0, 0, [])


def test_numbers_that_json_lacks_are_null(capsys):
    print_json({"scores": [1.0, math.nan, math.inf, -math.inf]})
    assert json.loads(capsys.readouterr().out) == {"scores": [1.0, None, None, None]}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_says_what_it_is(name):
    silent = [each.opts[0] for each in COMMANDS[name].params if not each.help]
    assert not silent
