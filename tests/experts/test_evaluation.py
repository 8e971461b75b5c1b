"""A measurement compared with a published one."""

import math

import numpy as np
import pytest

from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.errors import InputError
from imitbench.experts.lookup import find_environment
from imitbench.experts.measurement import (
    compare_with_published,
    measure_likely,
    spaces_of,
    with_own_arguments,
)
from imitbench.hub.reported_results import ReportedReturn
from imitbench.policies.expert_folder import ExpertFolder

RETURNS = np.array([9.0, 11.0] * 25)  # mean 10, deviation 1, error 1/7


def published(mean, std=2.0, episodes=17, deterministic=False):
    return ReportedReturn(mean, std, episodes, deterministic, "results.json")


def test_both_standard_errors_count():
    found = compare_with_published(RETURNS, False, published(9.5))
    assert found.difference == pytest.approx(0.5)
    assert found.standard_error == pytest.approx(math.hypot(1 / 7, 2 / 4))
    assert found.distance == pytest.approx(0.5 / math.hypot(1 / 7, 0.5))
    assert found.agrees is True


@pytest.mark.parametrize(
    ("mean", "agrees"), [(11.0, True), (11.1, False), (9.0, True), (8.9, False)]
)
def test_more_than_two_standard_errors_disagree(mean, agrees):
    assert compare_with_published(RETURNS, False, published(mean)).agrees is agrees


def test_missing_numbers_of_a_card_have_defaults():
    found = compare_with_published(
        RETURNS, False, published(9.5, std=None, episodes=None, deterministic=None)
    )
    assert found.standard_error == pytest.approx(math.hypot(1 / 7, 1 / 3))
    assert found.agrees is True


def test_returns_that_never_vary_are_compared_up_to_rounding():
    same = np.full(5, 500.0)
    assert compare_with_published(same, False, published(500.0, std=0.0)).agrees is True
    assert compare_with_published(same, False, published(500.004, std=0.0)).agrees is True
    other = compare_with_published(same, False, published(499.0, std=0.0))
    assert (other.agrees, other.distance) == (False, None)


def test_policies_of_different_kinds_are_not_compared():
    assert (
        compare_with_published(RETURNS, True, published(10.0, deterministic=False)).agrees is None
    )
    assert (
        compare_with_published(RETURNS, False, published(10.0, deterministic=True)).agrees is None
    )


def test_spaces_and_time_limit_are_those_of_the_environment():
    found = spaces_of(find_environment("Pendulum-v1"))
    assert found.observation_space.shape == (3,)
    assert found.action_space.shape == (1,)
    assert found.max_episode_steps == 200


def test_an_experts_own_arguments_are_used_where_the_suite_has_none(tmp_path):
    spec = find_environment("Pendulum-v1")
    expert = ExpertFolder(tmp_path, tmp_path, env_kwargs={"g": 9.81, "odd": [1]})
    own = with_own_arguments(spec, expert)
    assert own.kwargs == {"g": 9.81}
    assert with_own_arguments(own, ExpertFolder(tmp_path, tmp_path, env_kwargs={"g": 1.0})) == own


def test_likely_actions_of_another_expert_are_refused_before_they_are_measured(monkeypatch):
    card = load_suite("classic").environments["Pendulum-v1"]
    other = card.references.expert.model_copy(update={"revision": "0" * 12})
    references = card.references.model_copy(update={"expert": other})
    monkeypatch.setattr("imitbench.experts.measurement.measure", None)  # nothing is measured
    with pytest.raises(InputError, match=r"are of another expert \(0{12}, not"):
        measure_likely(
            "Pendulum-v1",
            card.model_copy(update={"references": references}),
            suite_directory("classic"),
            episodes=1000,
            command="imitbench suites measure classic --likely",
        )
