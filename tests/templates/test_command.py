"""The program that `init-algo --kind command` writes learns, in Python and in JavaScript."""

import dataclasses
import shutil

import numpy as np
import pytest

from imitbench.cards.algorithm import CommandRecipe
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.test_bed import MethodUnderTest, practice_test_bed
from imitbench.templates.writing import write_template

LANGUAGES = {"python": "[python, train.py]", "javascript": "[node, train.js]"}


@pytest.fixture(params=LANGUAGES)
def folder(request, tmp_path):
    if request.param == "javascript" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    made = write_template("command", "deep_thought", tmp_path)
    card = (made / "card.yaml").read_text()
    assert LANGUAGES["python"] in card
    (made / "card.yaml").write_text(card.replace(LANGUAGES["python"], LANGUAGES[request.param]))
    return made


def follow(bed, kind):
    """Replaces the actions of the demonstrations by a rule: the sign of the first number."""
    demos = []
    for demo in bed.demos:
        positive = demo.obs[:-1, 0] > 0
        acts = 2 * positive if kind == "discrete" else np.stack([positive, ~positive], 1) - 0.5
        demos.append(dataclasses.replace(demo, acts=acts.astype(demo.acts.dtype)))
    return dataclasses.replace(bed, demos=demos)


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_it_learns_the_rule_that_was_demonstrated(folder, kind):
    card = find_algorithm(str(folder))
    bed = follow(practice_test_bed(kind), kind)
    done = MethodUnderTest(card, card.resolve({}), amount=400).train(bed)
    assert [point["step"] for point in done.curve] == [100, 200, 300, 400]
    obs = np.concatenate([demo.obs[:-1] for demo in bed.demos])
    due = np.concatenate([demo.acts for demo in bed.demos])
    found, _ = done.learner.policy().predict(obs, deterministic=True)
    right = found == due if kind == "discrete" else (found > 0) == (due > 0)
    assert right.mean() > 0.9


def test_the_format_of_demonstrations_is_part_of_the_identity_only_if_it_is_not_usual():
    usual = CommandRecipe(run=["python", "train.py"])
    assert usual.model_dump(mode="json") == {
        "run": ["python", "train.py"],
        "checkpoints": False,
        "timeout_minutes": None,
    }
    lines = CommandRecipe(run=["python", "train.py"], demos="jsonl")
    assert lines.model_dump(mode="json")["demos"] == "jsonl"


def test_another_format_of_demonstrations_is_refused(tmp_path):
    made = write_template("command", "deep_thought", tmp_path)
    card = (made / "card.yaml").read_text()
    (made / "card.yaml").write_text(card.replace("demos: jsonl", "demos: csv"))
    with pytest.raises(ValueError, match=r"card.yaml:\d+: command.demos"):
        find_algorithm(str(made))
