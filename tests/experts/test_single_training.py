"""Options become a training: names are found, and what does not fit is refused."""

import numpy as np
import pytest
from support.plain_sets import episodes, steps, write_npy

from imitbench.bench.implementation import learner_class
from imitbench.bench.learners.reinforcement import NAMES, reinforcement_card
from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.data.conversion import export_demonstrations
from imitbench.data.trajectory_source import MemorySource
from imitbench.errors import InputError
from imitbench.experts.single_training import prepare_training
from imitbench.experts.training_request import TrainingRequest
from imitbench.util.hub_client import silent


def test_a_suite_s_environment_brings_demonstrations_and_budget():
    training = prepare_training(TrainingRequest(algo="bc", env="Pendulum-v1"), silent)
    card = load_suite("classic").environments["Pendulum-v1"]
    assert len(training.demos) == card.demos.trajectories
    assert training.budget.amount == card.budgets["default"].batches
    assert training.environment.horizon == card.horizon


def test_epochs_are_passes_over_the_demonstrations():
    asked = TrainingRequest(
        algo="bc", env="Pendulum-v1", n_demos=2, epochs=3, overrides={"batch_size": "64"}
    )
    training = prepare_training(asked, silent)
    assert training.budget.amount == 3 * -(-2 * 200 // 64)


def test_demonstrations_are_drawn_by_the_seed():
    first, same, other = (
        prepare_training(
            TrainingRequest(algo="bc", env="Pendulum-v1", n_demos=2, seed=seed), silent
        ).demos
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first[0].obs, same[0].obs)
    assert any((a.obs != b.obs).any() for a, b in zip(first, other, strict=True))


def test_demonstrations_are_sampled_from_an_expert_that_is_named():
    folder = suite_directory("classic") / "experts" / "sac-Pendulum-v1"
    asked = TrainingRequest(algo="bc", env="Pendulum-v1", expert=str(folder), n_demos=2)
    training = prepare_training(asked, silent)
    assert [len(each) for each in training.demos] == [200, 200]
    assert training.origins["demos"] == {"sampled": 2}
    assert training.origins["expert"]["name"] == str(folder)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({}, "demos bundled"),
        ({"demos": "sac-Pendulum-v1"}, "demos sac-Pendulum-v1"),
        ({"expert": "sac-Pendulum-v1", "n_demos": 1}, "demos of the expert"),
    ],
)
def test_messages_name_the_demonstrations_as_the_user_did(asked, name):
    training = prepare_training(TrainingRequest(algo="bc", env="Pendulum-v1", **asked), silent)
    assert training.inputs().demos_name == name


@pytest.mark.parametrize("name", ["set.npz", "set.csv", "set.jsonl", "set"])
def test_demonstrations_of_another_format_are_refused_with_the_command_that_converts_them(
    name, tmp_path
):
    made = episodes(obs=3, acts=1)
    path = tmp_path / name
    if name == "set.npz":
        np.savez(path, **steps(made))
    elif name == "set":
        write_npy(path, steps(made))
    else:
        export_demonstrations(MemorySource(made, where="made", form="list"), path)
    asked = TrainingRequest(algo="bc", env="Pendulum-v1", demos=str(path))
    with pytest.raises(InputError, match=f"`imitbench demos convert {path} OUT --env Pen"):
        prepare_training(asked, silent)


def test_an_environment_of_no_suite_has_a_fixed_horizon_by_default():
    name = "sac-Pendulum-v1"
    asked_for = [
        TrainingRequest(
            algo="gail", env="gymnasium:MountainCar-v0", demos=name, variable_horizon=flag
        )
        for flag in (False, True)
    ]
    assert [prepare_training(each, silent).environment.horizon for each in asked_for] == [
        "fixed",
        "variable",
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"algo": "bcc"}, "did you mean 'bc'"),
        ({"env": "Pendulum-v0"}, "cannot be created"),
        ({"env": "CartPole-v1"}, "--demos: CartPole-v1 is in no suite"),
        ({"algo": "dagger", "env": "CartPole-v1"}, "--expert: dagger queries an expert"),
        ({"demos": "sac-Pendulum"}, "did you mean 'sac-Pendulum-v1'"),
        ({"n_demos": 10_000}, "--n-demos 10000: there are"),
        ({"demos": "sac-Pendulum-v1", "expert": "sac-Pendulum-v1"}, "come from one of them"),
        ({"overrides": {"bach_size": "3"}}, "did you mean 'batch_size'"),
        ({"algo": "mce_irl"}, "tabular environment"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        prepare_training(TrainingRequest(**{"algo": "bc", "env": "Pendulum-v1", **asked}), silent)


@pytest.mark.parametrize("name", NAMES)
def test_reinforcement_learning_has_typed_hyperparameters(name):
    card = reinforcement_card(name)
    assert card.needs.true_reward
    assert card.resolve({"learning_rate": "0.01"})["learning_rate"] == 0.01
    assert learner_class(card.implementation, None, name).__name__ == f"{name.upper()}Learner"
