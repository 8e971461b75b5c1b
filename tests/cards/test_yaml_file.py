"""Malformed cards: one line with file, line, key path and the fix."""

import re

import pytest
import yaml

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import load_algorithm, load_suite, select_environments, suite_directory
from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError

CARD = """\
schema_version: 1
name: mine
title: Mine
summary: A method.
implementation: my_package.learner:Mine
needs:
  demos: true
  action_spaces: [box]
budget_unit: batches
seconds_per_1000: 1.0
hyperparameters:
  rate: {type: float, default: 0.1, min: 0.0, help: Step size.}
"""


def message_for(tmp_path, text, model=AlgorithmCard):
    path = tmp_path / "card.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml_model(path, model)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path))


def test_a_good_card_is_read(tmp_path):
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    assert read_yaml_model(path, AlgorithmCard).hyperparameters["rate"].default == 0.1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "budget_unit",
            "budget_units",
            ":9: budget_units: unknown key; did you mean 'budget_unit'?",
        ),
        ("  demos: true", "  demo: true", ":7: needs.demo: unknown key; did you mean 'demos'?"),
        (
            ", min: 0.0",
            ", mni: 0.0",
            ":12: hyperparameters.rate.mni: unknown key; did you mean 'min'?",
        ),
        ("title: Mine\n", "", ": title: this key is required"),
        (
            "demos: true",
            "demos: 'yes'",
            ":7: needs.demos: input should be a valid boolean, not 'yes'",
        ),
        (
            "seconds_per_1000: 1.0",
            "seconds_per_1000: 3e-4",
            "YAML reads 3e-4 as text; write 3.0e-4",
        ),
        (
            "default: 0.1",
            "default: -1.0",
            "hyperparameters.rate.default must be at least 0, not -1.0",
        ),
        ("name: mine", "name: mine\nname: other", ":3: duplicate key 'name'; keep one"),
        ("[box]", "[box", ": not valid YAML"),
        (
            "[box]",
            "[discreet]",
            "needs.action_spaces.0: input should be 'discrete', 'multi_discrete' or 'box'",
        ),
    ],
)
def test_errors_name_file_line_key_and_fix(tmp_path, old, new, expected):
    assert expected in message_for(tmp_path, CARD.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "- an item\n", "a word\n"])
def test_a_file_without_keys_is_reported(tmp_path, text):
    assert "must hold `key: value` lines" in message_for(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title: Mine", "title: 2024-02-30", ": not valid YAML (day is out of range"),
        ("default: 0.1", "default: 0b_", ": not valid YAML (invalid literal"),
        ("title: Mine", "title: !!timestamp soon", ": not valid YAML ("),
        ("title: Mine", "title: !!bool perhaps", ": not valid YAML ("),
        ("title: Mine", 'title: !!float ""', ": not valid YAML ("),
        ("title: Mine", "title: a\0b", ": not valid YAML ("),
        ("title: Mine", "title: &a [*a]", ":3: not valid YAML (alias '*a' is not supported; "),
    ],
)
def test_invalid_values_are_reported(tmp_path, old, new, expected):
    assert message_for(tmp_path, CARD.replace(old, new, 1)).startswith(expected)


def test_deep_nesting_is_reported(tmp_path):
    nested = CARD.replace("title: Mine", "title: " + "[" * 5000, 1)
    # Some versions of the parser have a limit of their own.
    told = r"(:3: not valid YAML \(exceeded maximum nesting|: not valid YAML \(nested too deeply)"
    assert re.match(told, message_for(tmp_path, nested))


def test_aliases_are_refused_before_they_are_expanded(tmp_path):
    nested = [f"a{n}: &a{n} [{chr(44).join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    text = "\n".join(["a0: &a0 [1]", *nested])
    assert ":2: not valid YAML (alias '*a0' is not supported" in message_for(tmp_path, text)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_yaml_model(tmp_path / "absent.yaml", AlgorithmCard)


def test_a_suite_without_a_budget_is_reported(tmp_path):
    document = yaml.safe_load((suite_directory("classic") / "suite.yaml").read_text())
    del document["environments"]["Pendulum-v1"]["budgets"]["quick"]
    assert "budgets lacks quick" in message_for(tmp_path, yaml.safe_dump(document), SuiteCard)


def test_unknown_names_come_with_the_nearest_valid_one():
    with pytest.raises(InputError, match="did you mean 'bc'"):
        load_algorithm("bd")
    with pytest.raises(InputError, match="did you mean 'classic'"):
        load_suite("clasic")


def test_environments_are_selected_by_glob():
    suite = load_suite("classic")
    assert set(select_environments(suite, "seals/*")) == {
        "seals/CartPole-v0",
        "seals/MountainCar-v0",
    }
    assert set(select_environments(suite, None)) == set(suite.environments)
    with pytest.raises(InputError, match="did you mean 'Pendulum-v1'"):
        select_environments(suite, "Pendulum")
