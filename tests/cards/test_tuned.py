"""Tuned values fit their algorithm's card, and runs with them are labelled."""

import pytest
from support.plans import make_plan

from imitbench.cards import tuned as module
from imitbench.cards.catalog import (
    algorithm_directory,
    algorithm_names,
    load_algorithm,
    load_suite,
    suite_names,
)
from imitbench.cards.tuned import TUNED_FILE, load_tuned, read_tuned
from imitbench.errors import InputError

TUNED = [name for name in algorithm_names() if load_tuned(load_algorithm(name)) is not None]
ENVIRONMENTS = {env for name in suite_names() for env in load_suite(name).environments}

GOOD = """
schema_version: 1
algorithm: bc
environments:
  Pendulum-v1:
    source: here
    values: {batch_size: 16}
"""


@pytest.fixture
def plan():
    def make(algorithms, environment=None, suite="seals", **settings):
        return make_plan(
            algorithms=algorithms,
            suite=suite,
            environment=environment,
            seeds=[0],
            budget="quick",
            **settings,
        )

    return make


@pytest.fixture
def tuned_file(tmp_path, monkeypatch):
    """Puts a file in the place of behavioral cloning's tuned values, and loads it."""
    bundled = module.algorithm_directory
    monkeypatch.setattr(
        module, "algorithm_directory", lambda name: tmp_path if name == "bc" else bundled(name)
    )

    def load(text):
        (tmp_path / "tuned.yaml").write_text(text)
        return load_tuned(load_algorithm("bc"))

    return load


@pytest.mark.parametrize("name", TUNED)
def test_tuned_values_are_for_existing_environments(name):
    card = load_algorithm(name)
    stated = read_tuned(algorithm_directory(name) / TUNED_FILE).environments
    tuned = load_tuned(card)
    assert set(tuned) <= ENVIRONMENTS
    for environment, values in tuned.items():
        assert list(values) == list(card.hyperparameters)
        # No value at all says that nothing better than the defaults was found.
        assert (values != card.resolve({})) == bool(stated[environment].values)


def test_runs_with_tuned_values_have_their_own_label(plan):
    usual = list(plan(["bc", "random"]))
    tuned = list(plan(["bc", "random"], config="tuned"))
    assert {run.algo_label for run in usual} == {"bc", "random"}
    assert {run.algo_label for run in tuned} == {"bc[tuned]", "random"}
    ids = {run.run_id for run in usual}
    assert [run.run_id in ids for run in tuned] == [run.algo == "random" for run in tuned]
    ant = next(run for run in tuned if run.environment.id == "seals/Ant-v1" and run.algo == "bc")
    assert ant.hyperparameters["batch_size"] == 16


def test_values_from_set_take_precedence_over_tuned_ones(plan):
    [run] = plan(["bc"], "seals/Ant-v1", config="tuned", overrides={"batch_size": "8"})
    assert run.hyperparameters["batch_size"] == 8
    assert run.hyperparameters["hidden_size"] == 32
    assert run.algo_label == "bc[tuned,batch_size=8]"


def test_an_environment_without_tuned_values_is_skipped_and_reported(tuned_file, plan):
    tuned_file(GOOD)
    made = plan(["bc", "random"], suite="classic", config="tuned")
    assert {run.environment.id for run in made if run.algo == "bc"} == {"Pendulum-v1"}
    left_out = made.not_applicable
    assert {pair.algo for pair in left_out} == {"bc"}
    assert all("no tuned values" in pair.why for pair in left_out)


def test_algorithms_without_any_tuned_values_are_reported(plan):
    with pytest.raises(InputError, match="--config tuned: there are no tuned values for random"):
        plan(["random"], config="tuned")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch_size", "batch_sizes", "did you mean 'batch_size'?"),
        ("16", "0", "must be at least 1"),
        ("16", "many", "must be int"),
        ("algorithm: bc", "algorithm: gail", "must be the card's name, 'bc'"),
        ("source: here", "sauce: here", "unknown key"),
    ],
)
def test_wrong_values_are_reported_in_one_line(tuned_file, old, new, said):
    with pytest.raises(InputError) as caught:
        tuned_file(GOOD.replace(old, new, 1))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
