"""An option given twice, with a list, or before a command means what it says or is refused."""

import itertools
import json
import shutil

import pytest
from support.command_lines import root_command
from support.shown_results import write_results
from typer.testing import CliRunner

import imitbench
from imitbench import InputError
from imitbench.bench.plan import parse_overrides
from imitbench.cli import main
from imitbench.util.name_lists import split_names


def commands(command, path=()):
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


ROOT = root_command()
OPTIONS = {
    path: [
        option
        for option in command.params
        if option.param_type_name == "option" and option.name != "help"
    ]
    for path, command in commands(ROOT)
}


def words(option):
    """The option twice, with two values where it takes values."""
    if option.is_flag:
        return [option.opts[0], (option.secondary_opts or option.opts)[0]]
    return [option.opts[0], "first", option.opts[-1], "second"]


@pytest.mark.parametrize("path", OPTIONS, ids=" ".join)
def test_no_value_is_lost_silently(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for option in OPTIONS[path]:
        # The same flag twice says the same.
        if option.multiple or (option.is_flag and not option.secondary_opts):
            continue
        with pytest.raises(InputError, match=f"{option.opts[0]}.*: given 2 times"):
            ROOT.main([*path, *words(option)], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


GROUPS = {
    name: command
    for name, command in ROOT.commands.items()
    if getattr(command, "invoke_without_command", False)
}


@pytest.mark.parametrize("name", GROUPS)
def test_no_option_is_lost_before_a_command_of_a_group(name):
    group = GROUPS[name]
    options = [each for each in group.params if each.name != "help"]
    for option, command in itertools.product(options, group.commands):
        typed = option.opts[:1] if option.is_flag else [option.opts[0], "first"]
        wrong = "give it after the command|has no such option"
        with pytest.raises(InputError, match=f"^{' '.join(typed)}: .*({wrong})"):
            ROOT.main([name, *typed, command], standalone_mode=False)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            "claims --table x.csv check 20 --dry-run",
            "--table x.csv: give it after the command: imitbench claims check N --table x.csv",
        ),
        (
            "claims --algo bc check 20 --dry-run",
            "--algo bc: `imitbench claims check` has no such option; leave it out",
        ),
        (
            "suites --json show classic",
            "--json: give it after the command: imitbench suites show NAME --json",
        ),
    ],
)
def test_an_option_before_a_command_is_told_where_it_belongs(typed, told):
    with pytest.raises(InputError) as refused:
        ROOT.main(typed.split(), standalone_mode=False)
    assert str(refused.value) == told


MEANT = {
    "--algo", "--baseline", "--env", "--fail-if", "--out", "--results", "--set", "--suite",
    "--against", "--annotator", "--figure", "--obs", "--observation-key", "--policy",
    "--rename",
    "--optimizer", "--verifications",
}  # fmt: skip


def test_the_options_that_may_be_repeated_are_those_tested_here():
    options = itertools.chain.from_iterable(OPTIONS.values())
    assert {option.opts[0] for option in options if option.multiple} == MEANT


def document(*arguments):
    done = CliRunner().invoke(main.app, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "env",
    [("--env", "Pendulum-v1", "--env", "*Cart*"), ("--env", "Pendulum-v1,*Cart*")],
    ids=["repeated", "listed"],
)
@pytest.mark.parametrize(
    "algo", [("--algo", "bc", "--algo", "gail"), ("--algo", "bc,gail")], ids=["repeated", "listed"]
)
def test_run_takes_several_algorithms_and_environments(algo, env):
    cells = document("run", *algo, *env, "--dry-run", "--json")["cells"]
    assert {(cell["algo"], cell["env"]) for cell in cells} == {
        (algo, env) for algo in ("bc", "gail") for env in ("Pendulum-v1", "seals/CartPole-v0")
    }


@pytest.mark.parametrize(
    "suite", [("--suite", "classic", "--suite", "seals"), ("--suite", "classic,seals")]
)
def test_run_takes_several_suites(suite):
    envs = ("--env", "Pendulum-v1", "--env", "seals/A*")
    cells = document("run", "--algo", "bc", *suite, *envs, "--dry-run", "--json")["cells"]
    assert [cell["env"] for cell in cells] == ["Pendulum-v1", "seals/Ant-v1"]


def test_a_sweep_of_several_environments_can_be_resumed(tmp_path):
    words = ("--algo", "random", "--seeds", "1", "--budget", "quick", "--executor", "inline")
    envs = ("--env", "seals/RiskyPath-v0", "--env", "seals/EarlyTermPos-v0")
    suite = ("--suite", "diagnostics")
    assert document("run", *words, *suite, *envs, "--json", "--quiet")["done"] == 2
    shutil.rmtree(tmp_path / "runs" / "diagnostics" / "random" / "seals-EarlyTermPos-v0")
    cells = document("resume", "--dry-run", "--json")["cells"]
    missing = [cell["env"] for cell in cells if cell["done"] < cell["runs"]]
    assert missing == ["seals/EarlyTermPos-v0"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--env", "Pendulum-v1", "--env", "nothing"), "--env 'nothing': matches no environment"),
        (("--env", "Pendulum-v1,,"), "has an empty name"),
        (("--algo", "gial"), "algorithm gial: no such algorithm; did you mean 'gail'?"),
        (("--suite", "seals", "--suite", "classic", "--env", "Pendulum-v1"), "--suite seals: has"),
        (("--suite", "seals,classic", "--env", "Pend"), "of suites seals, classic; did you mean"),
        (("--set", "bc.epochs=1", "--set", "bc.epochs=2"), "given twice, as 1 and as 2"),
    ],
)
def test_one_wrong_name_among_several_is_refused(arguments, problem, tmp_path):
    with pytest.raises(InputError) as told:
        document("run", "--algo", "bc", *arguments, "--json")
    assert problem in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "runs"
    write_results(out, seeds=2, failing=())
    return out


def shown(report):
    [section] = report["sections"]
    names = {row["algorithm"] for row in section["rows"]} - {"random", "expert"}
    return names, set(section["environments"])


def test_reports_are_filtered(results):
    every = shown(document("report", "--out", results, "--json", "--replicates", "100"))
    assert len(every[0]) > 2
    assert len(every[1]) == 3
    filters = ("--algo", "bc", "--algo", "ga*", "--env", "Pendulum-v1,*Mount*")
    found = document("report", "--out", results, *filters, "--json", "--replicates", "100")
    assert shown(found) == ({"bc", "gail"}, {"Pendulum-v1", "seals/MountainCar-v0"})
    for option in ("--algo", "--env", "--suite"):
        with pytest.raises(InputError, match=f"{option} nothing: has no runs here"):
            document("report", "--out", results, option, "nothing")


def test_comparisons_are_filtered(results):
    filters = ("--algo", "dag*,gail", "--env", "Pendulum-v1")
    found = document("compare", "bc", "--out", results, *filters, "--json", "--replicates", "100")
    verdicts = [verdict for each in found["contests"] for verdict in each["verdicts"]]
    assert {verdict["baseline"] for verdict in verdicts} == {"dagger", "gail"}
    envs = {env["environment"] for verdict in verdicts for env in verdict["environments"]}
    assert envs == {"Pendulum-v1"}
    with pytest.raises(InputError, match="no such algorithm to compare with"):
        document("compare", "bc", "--out", results, "--algo", "nothing")


def test_the_functions_take_several_names_as_well(results):
    table = imitbench.results(results, algo=["bc", "gail"], env="Pendulum-v1,seals/Cart*")
    assert set(table.algo) == {"bc", "gail"}
    assert set(table.env) == {"Pendulum-v1", "seals/CartPole-v0"}
    report = imitbench.report(results, format=None, algo="bc", replicates=100)
    assert {each.algorithm for each in report.sections[0].algorithms} == {"bc", "expert", "random"}


def test_names_with_settings_have_commas():
    assert split_names("--algo", ["bc[a=1,b=2],gail", "bc[a=1,b=2]"]) == ["bc[a=1,b=2]", "gail"]
    assert split_names("--algo", None) == []
    assert parse_overrides(["epochs=1", "epochs=1"]) == {"epochs": "1"}
