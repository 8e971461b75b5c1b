"""Methods that learn from observations: the expert's actions change nothing."""

import dataclasses

import numpy as np
import pytest
import torch as th

from imitbench.bench.hidden_parts import hide_actions
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.data.trajectories import every_nth_step
from imitbench.records.runs import Budget

METHODS = [
    name
    for name in algorithm_names()
    if not (needs := load_algorithm(name).needs).actions and not needs.supplement and needs.demos
]
AMOUNTS = {"env_steps": 400, "replay_steps": 60}
# Small enough for several rounds within the budget.
SETTINGS = {
    "n_envs": "2", "n_steps": "100", "n_epochs": "1", "hidden_size": "8", "learning_starts": "20",
    "model_updates": "5", "bc_updates": "5", "model_pretraining": "5",
}  # fmt: skip


def poisoned(demos):
    """The demonstrations with actions that fit no space."""
    return [
        dataclasses.replace(demo, acts=np.full((len(demo), 7), np.nan, np.float32))
        for demo in demos
    ]


def wrong(demos):
    """The demonstrations with each other's actions."""
    others = reversed(demos)
    return [dataclasses.replace(demo, acts=o.acts) for demo, o in zip(demos, others, strict=True)]


def whole(demo):
    return [demo]


def thinned(demo):
    return every_nth_step(demo, 20, 3)


@pytest.mark.parametrize(("env", "parts"), [("Pendulum-v1", whole), ("seals/CartPole-v0", thinned)])
@pytest.mark.parametrize("name", METHODS)
def test_training_is_bit_for_bit_the_same_whatever_the_expert_did(
    name, env, parts, set_up, demos_of
):
    card = load_algorithm(name)
    settings = {key: value for key, value in SETTINGS.items() if key in card.hyperparameters}
    demos = [part for demo in demos_of[env][:2] for part in parts(demo)]
    trained = []
    for given in (hide_actions(demos), demos, wrong(demos), poisoned(demos)):
        learner = set_up(name, env=env, demos=given, steps=50, **settings)
        points = []
        amount = AMOUNTS[card.budget_unit]
        learner.train(
            Budget(name="quick", unit=card.budget_unit, amount=amount),
            lambda step, metrics, points=points: points.append((step, dict(metrics))),
        )
        trained.append((points, learner.policy().state_dict()))
    (points, policy), *others = trained
    assert len(points) > 1
    for other_points, other_policy in others:
        np.testing.assert_equal(other_points, points)
        assert all(th.equal(other_policy[key], value) for key, value in policy.items())
