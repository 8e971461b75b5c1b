"""Requests are expanded to runs."""

import dataclasses
import shutil

import pytest
from support.plans import make_plan

from imitbench.bench.plan import parse_demo_counts, parse_overrides, parse_seeds
from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError


def plan(algorithms=("bc",), environment=None, seeds=(0, 1), **settings):
    return make_plan(
        algorithms=list(algorithms),
        suite="classic",
        environment=environment,
        seeds=list(seeds),
        **settings,
    )


def test_every_algorithm_environment_and_seed_is_one_run():
    runs = list(plan(["bc", "random"]))
    assert len(runs) == len({run.run_id for run in runs}) == 2 * 3 * 2
    assert {run.algo for run in runs} == {"bc", "random"}


def test_all_stands_for_every_algorithm():
    names = {run.algo for run in plan(["all"], seeds=[0])}
    assert {"bc", "random", "expert"} <= names


def test_controls_run_where_the_suite_says_so():
    controls = {"zero_reward", "constant_plus", "constant_minus"}
    names = {card.name for card, _ in plan(["all"]).algorithms}
    assert controls <= names
    elsewhere = {"algorithms": ["all"], "suite": "tabular", "environment": None, "seeds": [0]}
    without = make_plan(**elsewhere)
    assert {card.name for card, _ in without.algorithms} == names - controls
    elsewhere["algorithms"] = ["all", "zero_reward"]
    named = {card.name for card, _ in make_plan(**elsewhere).algorithms}
    assert named == names - controls | {"zero_reward"}


def test_names_in_addition_to_all_must_exist():
    with pytest.raises(InputError, match="zero_rewards: no such algorithm"):
        plan(["all", "zero_rewards"])


def test_methods_that_plan_need_a_model():
    request = plan(["mce_irl"])
    assert list(request) == []
    assert {each.env for each in request.not_applicable} == set(request.environments)
    assert "plans with the model" in request.not_applicable[0].why
    tabular = make_plan(
        algorithms=["mce_irl", "bc"],
        suite="tabular",
        environment="*7x4*",
        seeds=[0],
    )
    assert tabular.not_applicable == []
    assert len(list(tabular)) == 4


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", [0, 1, 2]),
        ("0,3,5-9", [0, 3, 5, 6, 7, 8, 9]),
        ("4,", [4]),
        ("2,2,1", [2, 1]),
        ("4294967295,", [2**32 - 1]),
    ],
)
def test_seeds_are_a_count_or_a_list(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "counts"), [("5", [5]), ("1,3, 10,all", [1, 3, 10, None]), ("all", [None])]
)
def test_numbers_of_demonstrations_are_numbers_or_all(text, counts):
    assert parse_demo_counts(text) == counts


@pytest.mark.parametrize("text", ["", "0", "-1", "1-3", "1,,2", "some"])
def test_malformed_numbers_of_demonstrations_are_reported(text):
    with pytest.raises(InputError, match="--n-demos"):
        parse_demo_counts(text)


@pytest.mark.parametrize(
    "text", ["4294967296,", "99999999999999999999", "999999999999", "0-9999999", "0,0-1000000"]
)
def test_seeds_out_of_range_are_reported_before_planning(text):
    with pytest.raises(InputError, match=r"--seeds .*: at most 1000000 seeds, each below 2\^32"):
        parse_seeds(text)


@pytest.mark.parametrize("text", ["", "0", "x", "3-1", "-1", "1,,2", "9" * 5000 + "-1"])
def test_malformed_seeds_are_reported(text):
    with pytest.raises(InputError, match="--seeds"):
        parse_seeds(text)


def test_the_run_id_depends_only_on_what_determines_the_numbers():
    base = next(iter(plan()))
    again = next(iter(plan()))
    assert base.run_id == again.run_id
    changed = [
        next(iter(plan(seeds=[7]))),
        next(iter(plan(budget="quick"))),
        next(iter(plan(n_demos=5))),
        next(iter(plan(overrides={"batch_size": "16"}))),
        next(iter(plan(environment="Pendulum-v1"))),
    ]
    assert len({base.run_id, *(run.run_id for run in changed)}) == 1 + len(changed)
    assert base.model_copy(update={"variant": "for people"}).run_id == base.run_id


def test_the_identity_survives_a_round_trip_through_json():
    run = next(iter(plan(overrides={"learning_rate": "1e-3"}, n_demos=3)))
    assert type(run).model_validate_json(run.model_dump_json()).run_id == run.run_id


def test_overrides_are_typed_and_label_a_variant():
    run = next(iter(plan(overrides={"batch_size": "16", "bc.learning_rate": "3e-4"})))
    assert run.hyperparameters["batch_size"] == 16
    assert run.hyperparameters["learning_rate"] == 3e-4
    assert run.algo_label == "bc[batch_size=16,learning_rate=0.0003]"
    assert next(iter(plan())).algo_label == "bc"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batch_sise": "3"}, "did you mean 'batch_size'"),
        ({"bc.batch_sise": "3"}, "did you mean 'bc.batch_size'"),
        ({"batch_size": "many"}, "must be int, not 'many'"),
        ({"batch_size": "0"}, "must be at least 1, not 0"),
        ({"learning_rate": "nan"}, "must be finite, not nan"),
        ({"learning_rate": "-1"}, "must be at least 0, not -1"),
        ({"normalize_observations": "maybe"}, "must be true or false"),
    ],
)
def test_bad_overrides_are_reported(overrides, message):
    with pytest.raises(InputError, match="--set") as caught:
        plan(overrides=overrides)
    assert message in str(caught.value)


def test_an_override_needs_a_value():
    with pytest.raises(InputError, match="name=value"):
        parse_overrides(["batch_size"])


def test_each_seed_draws_its_own_demonstrations_when_not_all_are_used():
    all_used = list(plan(environment="Pendulum-v1"))
    assert {run.demos.subsample_seed for run in all_used} == {0}
    some_used = list(plan(environment="Pendulum-v1", n_demos=5))
    assert [run.demos.subsample_seed for run in some_used] == [0, 1]
    assert {run.demos.count for run in some_used} == {5}


def test_requesting_too_many_demonstrations_is_reported():
    with pytest.raises(InputError, match="choose 1 to"):
        list(plan(n_demos=1000))


def test_an_unknown_source_is_reported():
    with pytest.raises(InputError, match="'hub', 'minari', 'path:DIR' or 'minari:NAME'"):
        list(plan(source="huub"))
    with pytest.raises(InputError, match="not a folder"):
        list(plan(source="path:/does/not/exist"))


def test_a_folder_has_one_spelling(tmp_path):
    """All spellings of a folder are the same source and give the same runs."""
    for part in ("experts", "demos"):
        shutil.copytree(suite_directory("classic") / part, tmp_path / "own" / part)
    spellings = ("path:own", "path:./own", "path:own/", "path:other/../own")
    ids = {spec.run_id for source in spellings for spec in plan(source=source, folder=tmp_path)}
    assert len(ids) == len(list(plan(source="path:own", folder=tmp_path)))


@pytest.mark.parametrize(
    ("asked", "devices", "processor"),
    [
        ("cpu", {"gail": "cpu", "dac": "cpu", "bc": "cpu", "random": "cpu"}, "cpu"),
        # GAIL's card says that a GPU makes it slower, BC's says nothing, and random does not train.
        ("auto", {"gail": "cpu", "dac": "hybrid", "bc": "hybrid", "random": "cpu"}, "hybrid"),
        ("cuda", {"gail": "cuda", "dac": "cuda", "bc": "cuda", "random": "cuda"}, "cuda"),
        (
            "hybrid",
            {"gail": "hybrid", "dac": "hybrid", "bc": "hybrid", "random": "hybrid"},
            "hybrid",
        ),
    ],
)
def test_each_method_has_the_processor_that_suits_it(asked, devices, processor):
    found = plan(list(devices), "*Pendulum*", seeds=[0], device=asked)
    assert {run.algo: run.device for run in found} == devices
    assert found.processor == processor
    labels = {run.algo: run.variant for run in found}
    assert labels == {
        algo: "" if device == "cpu" else f"device={device}" for algo, device in devices.items()
    }


def test_methods_that_stay_on_the_cpu_need_no_gpu():
    assert plan(["gail", "random"], device="auto").processor == "cpu"


def test_missing_optional_packages_are_reported_before_anything_starts(monkeypatch):
    planned = plan(["density"], environment="Pendulum-v1")
    (card,) = planned.environments.values()
    games = dataclasses.replace(planned, environments={"ALE/Pong-v5": card})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    planned.check_extras()
    with pytest.raises(InputError, match=r"^environment ALE/Pong-v5 needs ale_py, which is not"):
        games.check_extras()
    with pytest.raises(InputError, match=r"^density.kernel=exponential needs sklearn, which is"):
        plan(["density"], environment="Pendulum-v1", overrides={"kernel": "exponential"})
