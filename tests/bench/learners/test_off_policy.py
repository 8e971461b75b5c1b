"""Off-policy methods in the harness: what their cards allow."""

import pytest

from imitbench.cards.catalog import algorithm_names, load_algorithm

METHODS = [
    name
    for name in algorithm_names()
    if load_algorithm(name).implementation.startswith("imitbench.bench.learners.off_policy:")
]


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("name", METHODS)
def test_the_limits_on_the_card_are_those_of_the_method(name, end, set_up):
    limits = {
        key: str(int(limit) if each.type == "int" else limit)
        for key, each in load_algorithm(name).hyperparameters.items()
        if (limit := getattr(each, end)) is not None
    }
    assert limits
    set_up(name, **limits)
