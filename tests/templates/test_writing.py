"""What `init-algo` and `init-suite` write is whole, named, and replaces nothing."""

import pytest

from imitbench.cards.plugin import find_algorithm, find_suite
from imitbench.errors import InputError
from imitbench.templates.writing import write_template


@pytest.mark.parametrize("template", ["algorithm", "reward"])
def test_a_method_bears_its_name_everywhere(template, tmp_path):
    folder = write_template(template, "deep_thought", tmp_path / "new")
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["README.md", "card.yaml", "learner.py", "test_deep_thought.py"]
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


def test_nothing_is_overwritten(tmp_path):
    folder = write_template("algorithm", "mine", tmp_path)
    (folder / "learner.py").write_text("my work")
    with pytest.raises(InputError, match="is there already"):
        write_template("algorithm", "mine", tmp_path)
    assert (folder / "learner.py").read_text() == "my work"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["Mine", "my-method", "1st", "", "class", "../x", "a/b"])
def test_names_that_are_none(name, tmp_path):
    with pytest.raises(InputError, match="no name for it"):
        write_template("algorithm", name, tmp_path)


@pytest.mark.parametrize(("template", "name"), [("algorithm", "bc"), ("suite", "classic")])
def test_names_that_are_taken(template, name, tmp_path):
    with pytest.raises(InputError, match="choose another"):
        write_template(template, name, tmp_path)
