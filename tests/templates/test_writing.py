"""What `init-algo` and `init-suite` write is whole, named, and replaces nothing."""

import ast
import importlib
import inspect
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import imitbench.templates
from imitbench.bench.environments import make_environment
from imitbench.cards.plugins import find_algorithm, find_suite
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec
from imitbench.templates.writing import write_template


@pytest.mark.parametrize("template", ["algorithm", "reward", "chunking"])
def test_a_method_bears_its_name_everywhere(template, tmp_path):
    folder = write_template(template, "deep_thought", tmp_path / "new")
    files = {path.name for path in folder.iterdir()}
    own = {"policy.py"} if template == "chunking" else set()
    assert files == {"README.md", "card.yaml", "learner.py", "test_deep_thought.py"} | own
    text = "".join(path.read_text() for path in folder.iterdir())
    assert "DeepThought" in text
    assert "my_method" not in text
    assert "MyMethod" not in text
    card = find_algorithm(str(folder))
    assert (card.name, card.implementation) == ("deep_thought", "learner:DeepThought")
    assert card.needs.action_spaces == ["discrete", "multi_discrete", "box"]


def test_a_suite_bears_its_name_everywhere(tmp_path):
    folder = write_template("suite", "own", tmp_path)
    card = find_suite(str(folder))
    assert (card.name, list(card.environments)) == ("own", ["own/Reach-v0"])
    assert "my_suite" not in "".join(path.read_text() for path in folder.iterdir())


def test_the_environment_of_a_suite_is_made_from_its_stored_specification(tmp_path):
    card = find_suite(str(write_template("suite", "own", tmp_path)))
    [(env_id, environment)] = card.environments.items()
    made = make_environment(EnvironmentSpec.of_card(env_id, environment))
    again = gym.make(EnvSpec.from_json(made.spec.to_json()))
    assert type(again.unwrapped) is type(made.unwrapped)


def test_nothing_is_overwritten(tmp_path):
    folder = write_template("algorithm", "mine", tmp_path)
    (folder / "learner.py").write_text("my work")
    with pytest.raises(InputError, match="already exists"):
        write_template("algorithm", "mine", tmp_path)
    assert (folder / "learner.py").read_text() == "my work"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["Mine", "my-method", "1st", "", "class", "../x", "a/b"])
def test_names_that_are_none(name, tmp_path):
    with pytest.raises(InputError, match="not a valid name"):
        write_template("algorithm", name, tmp_path)


@pytest.mark.parametrize(("template", "name"), [("algorithm", "bc"), ("suite", "classic")])
def test_names_that_are_taken(template, name, tmp_path):
    with pytest.raises(InputError, match="choose another"):
        write_template(template, name, tmp_path)


@pytest.mark.parametrize(
    "path",
    sorted(Path(imitbench.templates.__file__).parent.glob("*/*.py")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_what_templates_use_of_ours_is_public(path):
    tree = ast.parse(path.read_text())
    # Names of their own: what they define, and attributes that they set.
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    own |= {n.attr for n in attributes if isinstance(n.ctx, ast.Store)}
    used = {n.attr for n in attributes}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            used |= set((node.module or "").split("."))
            used |= {alias.name for alias in node.names}
    private = {name for name in used if name.startswith("_") and not name.startswith("__")}
    assert private <= own


@pytest.mark.parametrize("template", ["algorithm", "reward", "chunking"])
def test_templates_override_nothing_private_of_ours(template):
    module = importlib.import_module(f"imitbench.templates.{template}.learner")
    ours = [base for base in module.MyMethod.__mro__[1:] if base.__module__.startswith("imitbench")]
    assert ours
    methods = {name for name, value in vars(module.MyMethod).items() if inspect.isfunction(value)}
    defined = {name for name in methods if name.startswith("_") and name[1] != "_"}
    assert not defined & {name for base in ours for name in vars(base)}
