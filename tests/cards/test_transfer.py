"""Variants in which only learned rewards are tested, and experts that another suite has."""

from pathlib import Path

import pytest
from support.command import call_imitbench, refusal
from support.plans import make_plan

from imitbench.bench.environments import check_variants
from imitbench.cards.catalog import load_suite, select_environments, select_trained
from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError
from imitbench.records.runs import ArtifactSpec, DemoSpec
from imitbench.util.name_lists import matches_id

SUITE = load_suite("transfer")
HEAVY = "imitbench/Pendulum-v0+heavy"


def planned(suite="transfer", environment=None, algorithms=("random",), **settings):
    """Environments of the runs of a plan."""
    plan = make_plan(
        algorithms=list(algorithms), suite=suite, environment=environment, seeds=[0], **settings
    )
    return list(plan.environments), list(plan)


def test_each_test_environment_belongs_to_a_training_environment_whose_spaces_it_has():
    check_variants(SUITE, SUITE.environments)
    tests = [name for name, card in SUITE.environments.items() if card.transfer]
    assert sorted(tests) == sorted(
        each for name in SUITE.ordinary for each in SUITE.tested_in(name)
    )
    assert all(SUITE.tested_in(name) for name in SUITE.ordinary)
    for name in tests:
        card = SUITE.environments[name]
        base = SUITE.environments[card.variant_of]
        assert card.demos == base.demos
        assert card.expert != base.expert
        assert card.references.expert.mean > card.references.random.mean


def test_variants_are_as_fast_as_the_environments_that_they_change():
    """Estimates of the work ahead rest on it; a speed measured on a busy machine is no fact."""
    path = Path(__file__).parents[2] / "suites/transfer/suite.yaml"
    environments = read_yaml_model(path, SuiteCard).environments
    for name, card in environments.items():
        if card.variant_of is not None:
            same = environments[card.variant_of].steps_per_second
            assert 0.7 < card.steps_per_second / same < 1.4, name


def test_training_environments_have_the_references_of_the_tasks_that_they_equal():
    for name, card in SUITE.ordinary.items():
        if card.expert.home is None:
            continue
        [same] = [
            each
            for each in load_suite(card.expert.home).environments.values()
            if each.expert.repo == card.expert.repo
        ]
        assert (card.references, card.budgets) == (same.references, same.budgets), name
        # The recipe says where the expert is, and nothing else that is new.
        assert card.expert.model_copy(update={"home": None}) == same.expert


def test_ordinary_runs_leave_test_environments_out():
    assert planned()[0] == list(SUITE.ordinary)
    assert planned(environment="Pendulum*")[0] == ["imitbench/Pendulum-v0"]
    assert planned(environment="imitbench/*")[0] == list(SUITE.ordinary)
    with pytest.raises(InputError, match=r"only learned rewards are tested in .*whole id"):
        planned(environment="*+heavy")
    # Other commands work on them.
    assert HEAVY in select_environments(SUITE, "Pendulum*")
    assert HEAVY in select_trained(SUITE, "*+heavy")


def test_a_test_environment_that_is_named_is_an_ordinary_variant():
    for name in (HEAVY, "Pendulum-v0+heavy"):
        chosen, [run] = planned(environment=name, algorithms=["bc"])
        assert chosen == [HEAVY]
        assert (run.environment.gym_id, run.environment.kwargs) == (
            "imitbench/Pendulum-v0", {"mass": 1.5}
        )  # fmt: skip
        assert run.demos.home == "classic"


def test_a_run_names_the_suite_that_has_its_demonstrations_and_expert():
    _, [run] = planned(environment="CartPole-v0", algorithms=["dagger"])
    assert (run.expert.home, run.expert.repo) == ("classic", "ppo-seals-CartPole-v0")
    [other] = planned("classic", "CartPole-v0", ["dagger"])[1]
    assert run.expert.digest == other.expert.digest
    assert ArtifactSpec.model_validate(run.expert.model_dump()) == run.expert
    # Records of other runs stay as they were.
    assert "home" not in other.expert.model_dump()
    [plain] = planned("classic", "CartPole-v0", ["bc"])[1]
    assert "home" not in plain.demos.model_dump()
    assert DemoSpec.model_validate(plain.demos.model_dump()) == plain.demos


def test_experts_of_another_suite_are_not_made_here():
    with pytest.raises(InputError, match=r"Ant-v0: has the expert of suite seals; name that by"):
        select_trained(SUITE, "imitbench/Ant-v0")
    assert list(select_trained(SUITE, None, "demos")) == ["imitbench/PointMaze-v0"]


@pytest.mark.parametrize(
    ("pattern", "selects"),
    [
        ("seals/CartPole-v0", True),
        ("CartPole*", True),
        ("CartPole-v0", True),
        ("seals/*", True),
        ("*Pole*", True),
        ("other/*", False),
        ("Pole*", False),
        ("seals", False),
    ],
)
def test_patterns_may_leave_out_what_precedes_the_last_slash(pattern, selects):
    assert matches_id("seals/CartPole-v0", [pattern]) is selects


def test_suites_show_which_environments_test_rewards(tmp_path):
    shown = call_imitbench("suites", "show", "transfer", cwd=tmp_path)
    assert "Rewards learned in imitbench/CartPole-v0 are tested in" in shown.out
    assert f"{len(SUITE.ordinary)} and " in call_imitbench("suites", cwd=tmp_path).out
    line = refusal(
        call_imitbench("run", "--algo", "bc", "--suite", "transfer", "--env", "*+heavy",
                       cwd=tmp_path)
    )  # fmt: skip
    assert "only learned rewards are tested in" in line
