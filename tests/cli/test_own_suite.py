"""Commands on single policies and files know the environments of a user's suite."""

import json

import pytest
from support.command import call_imitbench, refusal
from typer.testing import CliRunner

import imitbench
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.templates.writing import write_template


def call(*words):
    answer = CliRunner().invoke(app, [str(word) for word in words], standalone_mode=False)
    if answer.exception is not None:
        raise answer.exception
    return answer.stdout


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite with an expert that is better than chance, demonstrations and references."""
    folder = write_template("suite", "own", tmp_path_factory.mktemp("own"))
    call("experts", "train", "--suite", folder, "--steps", 16_000, "--episodes", 10,
         "--to", folder / "experts")  # fmt: skip
    call("demos", "collect", "--suite", folder, "--to", folder / "demos")
    call("suites", "measure", folder, "--episodes", 10, "--card", folder / "suite.yaml")
    return folder


@pytest.fixture(scope="module")
def env(suite):
    [name] = json.loads(call("suites", "show", suite, "--json"))["environments"]
    return name


@pytest.mark.slow
def test_its_environment_is_found_by_every_command(suite, env, tmp_path):
    [expert] = (suite / "experts").iterdir()
    [demos] = (suite / "demos").iterdir()
    there = ("--suite", suite, "--env", env)
    own = json.loads((expert / "results.json").read_text())
    measured = json.loads(call("experts", "eval", expert, *there, "--episodes", 10, "--json"))
    assert measured["published"]["mean_return"] == own["mean_reward"]
    call("experts", "convert", expert, tmp_path / "converted", *there)
    call("demos", "convert", demos, tmp_path / "demos", *there)
    assert json.loads(call("demos", "validate", tmp_path / "demos", *there, "--json"))
    training = ("--batches", 5, "--eval-episodes", 2, "--log-dir", tmp_path / "bc", "--quiet")
    trained = json.loads(call("train", "imitation", "bc", *there, *training, "--json"))
    for named in (there, there[:2]):
        again = json.loads(call("eval", tmp_path / "bc", *named, "--episodes", 2, "--json"))
        assert again["mean_return"] == trained["mean_return"]


@pytest.mark.slow
def test_its_source_is_run_only_where_it_is_named(suite, tmp_path):
    """Unlike the tests above, in a process that has not seen the suite before."""
    words = ("--suite", suite, "--budget", "quick", "--seeds", "1", "--out", tmp_path / "runs")
    assert call_imitbench("run", "--algo", "random", *words, cwd=tmp_path).code == 0
    [run] = imitbench.results(tmp_path / "runs")["run_id"]
    words = ("eval", run, "--out", tmp_path / "runs", "--episodes", "2")
    line = refusal(call_imitbench(*words, cwd=tmp_path))
    assert "--suite" in line
    assert call_imitbench(*words, "--suite", suite, cwd=tmp_path).code == 0


@pytest.mark.parametrize("words", [("experts", "convert"), ("demos", "convert")])
def test_a_suite_alone_names_no_environment(words, tmp_path):
    with pytest.raises(InputError, match="--suite seals: needs --env"):
        call(*words, "ppo-seals-Hopper-v1", tmp_path / "out", "--suite", "seals")


def test_an_environment_that_the_suite_lacks_is_refused():
    for words in (
        ("eval", "ppo-seals-CartPole-v0"),
        ("experts", "eval", "ppo-seals-CartPole-v0"),
        ("train", "imitation", "bc"),
    ):
        with pytest.raises(InputError, match="--env Pendulum-v1: not in suite seals; "):
            call(*words, "--env", "Pendulum-v1", "--suite", "seals")
