"""The search space on a card: one range or list of accepted values."""

import pytest
from pydantic import ValidationError

from imitbench.cards.algorithm import Hyperparameter, SearchSpace
from imitbench.cards.catalog import algorithm_names, load_algorithm

TUNABLE = tuple(
    name for name in algorithm_names() if load_algorithm(name).role in ("method", "reference")
)


def parameter(kind, default, search, **limits):
    document = {"type": kind, "default": default, "help": "", "search": search, **limits}
    return Hyperparameter.model_validate(document)


@pytest.mark.parametrize(
    ("kind", "default", "search"),
    [
        ("float", 0.001, {"low": 1e-5, "high": 0.1, "log": True}),
        ("float", 0.0, {"low": 0, "high": 1.0}),
        ("float", 0.0, {"choices": [0.0, 0.1]}),
        ("int", 4, {"low": 1, "high": 10}),
        ("int", 64, {"low": 16, "high": 256, "step": 16}),
        ("int", 64, {"low": 16, "high": 256, "log": True}),
        ("bool", True, {"choices": [True, False]}),
        ("str", "a", {"choices": ["a", "b"]}),
    ],
)
def test_ranges_and_lists_are_search_spaces(kind, default, search):
    assert default in parameter(kind, default, search).search


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({}, "needs low and high, or choices"),
        ({"low": 0.1}, "needs low and high, or choices"),
        ({"low": 1.0, "high": 1.0}, "low must be less than high"),
        ({"low": 0.0, "high": float("inf")}, "low must be less than high"),
        ({"low": 0.0, "high": 1.0, "log": True}, "above 0 if log is true"),
        ({"low": 1, "high": 9, "step": 0}, "step must be at least 1"),
        ({"low": 1, "high": 9, "step": 2, "log": True}, "cannot be combined with log"),
        ({"choices": [1]}, "two or more"),
        ({"choices": [1, 1]}, "two or more different"),
        ({"choices": [1, 2], "low": 1}, "choices cannot be combined"),
        ({"lo": 1, "high": 2}, "extra"),
    ],
)
def test_invalid_search_spaces_are_refused(search, said):
    with pytest.raises(ValidationError, match=said):
        SearchSpace.model_validate(search)


@pytest.mark.parametrize(
    ("kind", "default", "search", "limits", "said"),
    [
        ("bool", True, {"low": 0, "high": 1}, {}, "a bool has no range"),
        ("str", "a", {"low": 0, "high": 1}, {}, "a str has no range"),
        ("float", 0.5, {"low": 0, "high": 1, "step": 1}, {}, "step is for int only"),
        ("int", 2, {"low": 1.5, "high": 4}, {}, "search.low must be int"),
        ("int", 2, {"low": 0, "high": 4}, {"min": 1}, "search.low must be at least 1"),
        ("float", 0.5, {"low": 0.0, "high": 4.0}, {"max": 1}, "search.high must be at most 1"),
        ("int", 2, {"choices": [2, True]}, {}, "search.choices.1 must be int"),
        ("str", "a", {"choices": ["a", "c"]}, {"choices": ["a", "b"]}, "search.choices.1 must be"),
        ("int", 3, {"low": 4, "high": 9}, {}, "must include the default 3"),
        ("int", 3, {"low": 2, "high": 8, "step": 2}, {}, "must include the default 3"),
        ("int", 3, {"choices": [1, 2]}, {}, "must include the default 3"),
    ],
)
def test_a_space_fits_its_hyperparameter(kind, default, search, limits, said):
    with pytest.raises(ValidationError, match=said):
        parameter(kind, default, search, **limits)


@pytest.mark.parametrize("name", TUNABLE)
def test_methods_have_search_spaces(name):
    card = load_algorithm(name)
    assert len(card.search_space) >= 4
    assert any(each.endswith("learning_rate") for each in card.search_space)


def test_anchors_and_controls_have_nothing_to_search():
    others = set(algorithm_names()) - set(TUNABLE)
    assert not any(load_algorithm(name).search_space for name in others)


def test_search_spaces_are_shown_as_text():
    assert str(SearchSpace(low=1e-4, high=0.01, log=True)) == "0.0001 to 0.01 (log)"
    assert str(SearchSpace(low=2, high=8, step=2)) == "2 to 8 by 2"
    assert str(SearchSpace(choices=[None, 0.5, "a"])) == "null, 0.5, a"
