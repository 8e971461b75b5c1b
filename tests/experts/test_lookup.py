"""Environments of suites are found again by what policies are evaluated in."""

import pytest

from imitbench.cards.catalog import suite_directory, suite_names
from imitbench.errors import InputError
from imitbench.experts.lookup import find_demos, find_same_environment, suites_of
from imitbench.records.environments import EnvironmentSpec


@pytest.mark.parametrize("suite", suite_names())
def test_the_environment_of_a_run_is_found_in_its_suite(suite):
    [card] = suites_of(suite)
    for env_id, own in card.environments.items():
        spec = EnvironmentSpec.of_card(env_id, own)
        listed = find_same_environment(spec.evaluated, suite)
        assert listed is not None
        assert EnvironmentSpec.of_card(listed.env_id, listed.card).evaluated == spec.evaluated
        altered = spec.evaluated.model_copy(update={"kwargs": {**spec.kwargs, "other": 1}})
        assert find_same_environment(altered, suite) is None


def test_sets_for_mixtures_are_found_by_name_like_demonstrations():
    own = suite_directory("classic") / "demos"
    for name in ("sac-Pendulum-v1", "medium-Pendulum-v1", "random-seals-CartPole-v0"):
        assert find_demos(name) == own / name
    with pytest.raises(InputError) as told:
        find_demos("medium-seals-Hopper-v1")
    assert str(told.value) == (
        "medium-seals-Hopper-v1: suite seals does not bundle it; run `imitbench demos collect "
        "--suite seals --env seals/Hopper-v1 --set medium`, and name the new folder"
    )
