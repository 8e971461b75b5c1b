"""Files of tuned values: values are added atomically, and checked by the card."""

import pytest
import yaml
from support.plans import make_plan
from support.tuning import small_plan

from imitbench.cards.tuned import read_tuned, resolve_tuned
from imitbench.errors import InputError
from imitbench.tune.held_out_comparison import (
    Candidate,
    CandidateResult,
    add_tuned,
    check_target,
    compare_candidates,
    tuned_values,
)

OTHER = """
schema_version: 1
algorithm: bc
environments:
  seals/Ant-v1:
    source: a publication
    values: {batch_size: 16}
"""
BETTER, WORSE = [0.9, 0.8, 0.85, 0.92, 0.88], [0.1, 0.2, 0.15, 0.12, 0.18]


def comparison(values, tuned=BETTER, default=WORSE):
    def standing(number, scores, values):
        candidate = Candidate(trial=number, values=values)
        return CandidateResult(candidate=candidate, scores=scores, returns=scores)

    return compare_candidates([standing(0, default, {}), standing(3, tuned, values)], trials=9)


@pytest.fixture
def found(make_request):
    request = make_request(
        plan=small_plan(overrides={"hidden_layers": "1"}), command="imitbench tune --algo bc"
    )
    return tuned_values(request, comparison({"learning_rate": 2.5e-05, "batch_size": 32}))


def test_values_come_with_their_provenance(found, make_request, tmp_path):
    path, card = tmp_path / "deep" / "tuned.yaml", make_request().algorithm
    add_tuned(path, card, {"Pendulum-v1": found})
    document = yaml.safe_load(path.read_text())
    values = document["environments"]["Pendulum-v1"]
    assert values["values"] == {"batch_size": 32, "learning_rate": 2.5e-05, "hidden_layers": 1}
    assert "uses reward" in values["source"]
    tuning = values["tuning"]
    assert tuning["uses_reward"] is True
    assert tuning["verdict"] == "better"
    assert (tuning["tuned"]["runs"], tuning["default"]["runs"]) == (BETTER, WORSE)
    assert (tuning["trials"], tuning["search_seeds"]) == (9, [100])
    assert tuning["held_out_seeds"] == [200, 201]
    resolved = resolve_tuned(path, read_tuned(path), card)["Pendulum-v1"]
    assert resolved == {**card.resolve({}), **values["values"]}


def test_other_environments_stay_and_the_same_is_replaced(found, make_request, tmp_path):
    path, card = tmp_path / "tuned.yaml", make_request().algorithm
    path.write_text(OTHER)
    add_tuned(path, card, {"Pendulum-v1": found})
    add_tuned(path, card, {"Pendulum-v1": found.model_copy(update={"source": "again"})})
    environments = read_tuned(path).environments
    assert list(environments) == ["seals/Ant-v1", "Pendulum-v1"]
    assert environments["seals/Ant-v1"] == read_tuned_text(OTHER, tmp_path)["seals/Ant-v1"]
    assert environments["Pendulum-v1"].source == "again"
    assert environments["Pendulum-v1"].tuning == found.tuning


def read_tuned_text(text, folder):
    (folder / "other.yaml").write_text(text)
    return read_tuned(folder / "other.yaml").environments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OTHER.replace("algorithm: bc", "algorithm: gail"), "contains values of gail, not of bc"),
        (OTHER.replace("batch_size", "batch_sise"), "did you mean 'batch_size'"),
        ("anything: 1", "unknown key"),
    ],
)
def test_another_file_is_not_changed(found, make_request, tmp_path, text, said):
    path, card = tmp_path / "tuned.yaml", make_request().algorithm
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        check_target(path, card)
    with pytest.raises(InputError, match=said):
        add_tuned(path, card, {"Pendulum-v1": found})
    assert path.read_text() == text


def test_a_folder_is_refused(make_request, tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        check_target(tmp_path, make_request().algorithm)


def test_tuned_values_need_a_winner_but_not_a_better_verdict(make_request):
    assert (
        tuned_values(make_request(), compare_candidates(comparison({}).standings[:1], trials=9))
        is None
    )
    undecided = tuned_values(make_request(), comparison({"batch_size": 32}, BETTER, BETTER))
    assert undecided.tuning.verdict == "not better"


def test_runs_take_their_values_from_a_file(found, make_request, tmp_path):
    path = tmp_path / "tuned.yaml"
    add_tuned(path, make_request().algorithm, {"Pendulum-v1": found})

    def plan(*algorithms, config="tuned.yaml"):
        return make_plan(algorithms, config=config, folder=tmp_path)

    made = plan("bc", "random")
    [run] = [each for each in made if each.algo == "bc"]
    assert run.environment.id == "Pendulum-v1"
    assert run.algo_label == "bc[tuned]"
    assert run.hyperparameters["learning_rate"] == 2.5e-05
    assert len(made.not_applicable) == 2
    assert all("no tuned values" in pair.why for pair in made.not_applicable)
    with pytest.raises(InputError, match="holds values of bc, and not of random"):
        plan("random")
    with pytest.raises(InputError, match="must be default, tuned, or a file"):
        plan("bc", config="tunde")
