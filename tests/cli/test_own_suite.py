"""Commands on single policies and files know the environments of a suite of one's own."""

import json

import pytest
from typer.testing import CliRunner

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
    """A suite with an expert that was hardly trained, and its demonstrations."""
    folder = write_template("suite", "own", tmp_path_factory.mktemp("own"))
    call("experts", "train", "--suite", folder, "--steps", 256, "--episodes", 2,
         "--to", folder / "experts")  # fmt: skip
    call("demos", "collect", "--suite", folder, "--to", folder / "demos")
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
    measured = json.loads(call("experts", "eval", expert, *there, "--episodes", 2, "--json"))
    assert measured["published"]["mean_return"] == own["mean_reward"]
    call("experts", "convert", expert, tmp_path / "converted", *there)
    call("demos", "convert", demos, tmp_path / "demos", *there)
    assert json.loads(call("demos", "validate", tmp_path / "demos", *there, "--json"))
    training = ("--batches", 5, "--eval-episodes", 2, "--log-dir", tmp_path / "bc", "--quiet")
    trained = json.loads(call("train", "imitation", "bc", *there, *training, "--json"))
    again = json.loads(call("eval", tmp_path / "bc", *there, "--episodes", 2, "--json"))
    assert again["mean_return"] == trained["mean_return"]


def test_an_environment_that_the_suite_lacks_is_told():
    for words in (
        ("eval", "ppo-seals-CartPole-v0"),
        ("experts", "eval", "ppo-seals-CartPole-v0"),
        ("train", "imitation", "bc"),
    ):
        with pytest.raises(InputError, match="--env Pendulum-v1: not in suite seals; "):
            call(*words, "--env", "Pendulum-v1", "--suite", "seals")
