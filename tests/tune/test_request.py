"""Checks of a request, and the settings that must not change between calls."""

import dataclasses

import pytest
from support.tuning import small_plan

from imitbench.errors import InputError
from imitbench.tune.request import StudyScope, StudySettings, default_name
from imitbench.tune.runner import check_request

PENDULUM = StudyScope("Pendulum-v1", ("Pendulum-v1",))


def test_seeds_of_search_and_comparison_must_differ(make_request):
    with pytest.raises(InputError, match="--held-out-seeds: 101 also in --search-seeds"):
        make_request(search_seeds=(100, 101), held_out_seeds=(101, 102))


def test_an_algorithm_without_search_space_is_refused(make_request):
    with pytest.raises(InputError, match="--algo random: its card has no search space"):
        make_request("random")


def test_trials_train_their_share_of_the_budget(make_request):
    request, half = make_request(), make_request(search_share=0.5)
    whole, trial = (each.trial_spec("Pendulum-v1", {}, 100) for each in (request, half))
    assert whole == request.spec("Pendulum-v1", {}, 100)
    assert trial.budget.amount * 2 == whole.budget.amount
    assert (trial.budget.name, trial.budget.unit) == (whole.budget.name, whole.budget.unit)
    assert half.spec("Pendulum-v1", {}, 200).budget == whole.budget
    assert trial.run_id != whole.run_id
    settings = [StudySettings.of(each, PENDULUM) for each in (request, half)]
    assert [each.model_dump().get("search_share") for each in settings] == [None, 0.5]
    assert "search_share" not in settings[0].model_dump()


def test_seeds_are_packed_where_there_are_several(make_request):
    plan = small_plan("dac", "classic", "Pendulum-v1")
    request = make_request(plan=plan, pack_seeds=True, held_out_seeds=(200, 201, 202))
    assert request.trial_spec("Pendulum-v1", {}, 100).pack is None  # one seed
    assert request.spec("Pendulum-v1", {}, 200).pack == 3
    several = make_request(plan=plan, pack_seeds=True, search_seeds=(100, 101))
    assert several.trial_spec("Pendulum-v1", {}, 100).pack == 2
    assert StudySettings.of(several, PENDULUM).pack_seeds is True
    assert "pack_seeds" not in StudySettings.of(make_request(), PENDULUM).model_dump()


@pytest.mark.parametrize(
    ("algo", "objective", "said"),
    [
        ("sqil", "return", "--pack-seeds: sqil cannot train several seeds as one network"),
        ("dac", "state-match", "--pack-seeds: --objective state-match is measured in each run"),
    ],
)
def test_seeds_that_cannot_be_packed_are_refused(make_request, algo, objective, said):
    plan = small_plan(algo, "classic", "Pendulum-v1")
    with pytest.raises(InputError, match=said):
        make_request(plan=plan, objective=objective, pack_seeds=True)


def test_values_from_set_are_not_searched(make_request):
    request = make_request(plan=small_plan(overrides={"batch_size": "16", "bc.hidden_size": "8"}))
    assert "batch_size" not in request.space
    assert "hidden_size" not in request.space
    assert request.base["hidden_size"] == 8
    assert set(request.defaults) == set(request.space)


def test_setting_every_value_leaves_nothing_to_search(make_request):
    card = make_request().algorithm
    overrides = {name: str(value).lower() for name, value in card.resolve({}).items()}
    with pytest.raises(InputError, match="nothing to search"):
        make_request(plan=small_plan(overrides=overrides))


def test_default_names_distinguish_tunings():
    assert default_name("bc", "classic", "environment", "return", "default") == "bc-classic"
    assert default_name("bc", "seals", "environment", "demo-likelihood", "quick") == (
        "bc-seals-demo-likelihood-quick"
    )
    assert default_name("bc", "seals", "suite", "return", "quick") == "bc-seals-per-suite-quick"
    assert default_name("bc", "seals", "environment", "return", "full/4") == "bc-seals-full-4"


def test_objectives_without_a_common_scale_are_not_averaged(make_request):
    with pytest.raises(InputError, match="--per environment"):
        make_request(per="suite", objective="demo-likelihood")


def test_values_of_a_suite_belong_to_environments_that_no_trial_has_seen(make_request):
    searched = ("seals/CartPole-v0", "Pendulum-v1")
    plan = small_plan(env=None)
    some = dataclasses.replace(plan, environments={env: plan.environments[env] for env in searched})
    request = make_request(plan=some, per="suite")
    [scope] = request.scopes
    assert request.covered(scope) == (*searched, "seals/MountainCar-v0")
    assert request.recorded_environments() == {"environments": list(searched)}
    for whole in (make_request(plan=plan, per="suite"), make_request(plan=some)):
        assert all(whole.covered(scope) == scope.environments for scope in whole.scopes)
        assert whole.recorded_environments() == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"search_seeds": (7,)}, r"another search seeds \(\[100\], not \[7\]\)"),
        ({"search_share": 0.5}, r"another search share \(None, not 0.5\)"),
        ({"points": 4}, r"another points \(2, not 4\)"),
        ({"storage": "journal"}, r"another storage"),
        ({"plan": small_plan(budget="full")}, r"another budget \(quick, not full\)"),
        ({"plan": small_plan(n_demos=3)}, r"another n demos \(2, not 3\)"),
        ({"plan": small_plan(overrides={"batch_size": "16"})}, "another space"),
    ],
)
def test_a_study_continues_only_with_its_settings(make_request, tmp_path, change, said):
    folder = tmp_path / "Pendulum-v1"
    StudySettings.of(make_request(), PENDULUM).write(folder)
    check_request(make_request(), tmp_path)
    check_request(make_request(trials=9, best=2, held_out_seeds=(300,)), tmp_path)
    with pytest.raises(InputError, match=said):
        check_request(make_request(**change), tmp_path)


def test_a_damaged_study_is_reported(make_request, tmp_path):
    (tmp_path / "Pendulum-v1").mkdir()
    (tmp_path / "Pendulum-v1" / "study.json").write_text("{}")
    with pytest.raises(InputError, match="not the settings of a study"):
        check_request(make_request(), tmp_path)


def test_an_environment_that_does_not_fit_is_reported(make_request, tmp_path):
    request = make_request(plan=small_plan("sqil", "classic", "Pendulum-v1"))
    check_request(request, tmp_path)
    request = make_request(plan=small_plan("mce_irl", "classic", "Pendulum-v1"))
    with pytest.raises(InputError, match="mce_irl on Pendulum-v1"):
        check_request(request, tmp_path)


def test_a_study_does_not_continue_with_other_demonstrations(make_request, tmp_path):
    settings = StudySettings.of(make_request(), PENDULUM)
    settings.model_copy(update={"first_run": "0" * 12}).write(tmp_path / "Pendulum-v1")
    with pytest.raises(InputError, match="started with other demonstrations, another expert"):
        check_request(make_request(), tmp_path)
