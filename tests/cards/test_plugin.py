"""Plug-ins are found by folder, module and entry point; only their cards are read."""

import sys

import pytest
from support.plugins import write_plugin

from imitbench.cards import plugins as module
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugins import find_algorithm, find_algorithms, find_suite
from imitbench.errors import InputError

BOMB = "raise SystemExit('imported')\nclass Mine: pass\n"


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path


@pytest.mark.parametrize("reference", ["./mine", "mine/", "{here}/mine", "./x/../mine"])
def test_folders(reference, tmp_path):
    write_plugin(tmp_path / "mine", BOMB)
    card = find_algorithm(reference.format(here=tmp_path))
    assert (card.name, card.origin.folder) == ("mine", tmp_path / "mine")
    assert card.origin.reference == str(tmp_path / "mine")


def test_the_digest_does_not_depend_on_the_folder(tmp_path):
    one, two = (write_plugin(tmp_path / name) for name in ("one", "two"))
    digests = {find_algorithm(str(each)).origin.digest for each in (one, two)}
    assert len(digests) == 1
    write_plugin(two, "class Mine: x = 1")
    assert find_algorithm(str(two)).origin.digest not in digests


@pytest.mark.parametrize(
    "reference", ["pkg.inner.mine", "pkg.inner.mine.learner", "pkg.inner.mine.learner:Mine"]
)
def test_modules_of_packages_that_are_not_imported(reference, tmp_path):
    folder = write_plugin(tmp_path / "site" / "pkg" / "inner" / "mine", BOMB)
    for each in (folder.parent.parent, folder.parent):
        (each / "__init__.py").write_text("raise SystemExit('imported')")
    card = find_algorithm(reference)
    source = card.origin.source
    assert (source.package, source.root) == ("pkg.inner.mine", tmp_path / "site")
    assert "pkg" not in sys.modules


def test_a_module_and_a_class_that_its_card_does_not_name(tmp_path):
    write_plugin(tmp_path / "site" / "mine")
    with pytest.raises(InputError, match="names learner:Mine"):
        find_algorithm("mine.learner:Other")


def test_entry_points(tmp_path):
    write_plugin(tmp_path / "site" / "pkg" / "mine", BOMB)
    info = tmp_path / "site" / "pkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n")
    points = "[imitbench.algorithms]\nmine = pkg.mine\nyours = pkg.mine\nnone = pkg\n"
    (info / "entry_points.txt").write_text(points)
    assert find_algorithm("mine").origin.source.package == "pkg.mine"
    with pytest.raises(InputError, match="has name 'mine'; use the same name"):
        find_algorithm("yours")
    with pytest.raises(InputError, match="ship the card with the package"):
        find_algorithm("none")


def test_bundled_names_come_first(tmp_path):
    write_plugin(tmp_path / "bc", name="other")
    assert find_algorithm("bc") == load_algorithm("bc")
    assert find_algorithm("./bc").name == "other"


REFUSED = {
    "a bundled name": ({"name": "bc"}, "'bc' is a bundled algorithm"),
    "the name of all": ({"name": "all"}, "'all' stands for every algorithm"),
    "no such module": ({"implementation": "lerner:Mine"}, "no module 'lerner'"),
    "no such class": ({"implementation": "learner:Mien"}, "did you mean 'Mine'"),
    "an anchor": ({"role": "anchor"}, "anchors are this package's"),
    "no Python": ({"source": "class Mine:\n  x =\n"}, r"learner\.py:2: not valid Python"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    options, message = REFUSED[case]
    write_plugin(tmp_path / "mine", **options)
    with pytest.raises(InputError, match=message) as told:
        find_algorithm("./mine")
    assert "\n" not in str(told.value)


def test_unknown_names_are_reported_with_similar_ones(tmp_path):
    with pytest.raises(InputError, match=r"card\.yaml: no such file; .*init-algo"):
        find_algorithm("./absent")
    with pytest.raises(InputError, match="did you mean 'bc'"):
        find_algorithm("bcc")
    with pytest.raises(InputError, match="or name a plug-in"):
        find_algorithm("absent.package")


def test_two_plugins_of_one_name_are_refused_and_one_twice_is_one(tmp_path):
    write_plugin(tmp_path / "one")
    write_plugin(tmp_path / "two")
    assert len(find_algorithms(["./one", "one/", "bc"])) == 2
    with pytest.raises(InputError, match="give one of them another name"):
        find_algorithms(["./one", "./two"])


def test_a_card_of_the_package_may_be_named_by_its_implementation(tmp_path):
    write_plugin(tmp_path / "mine", implementation="imitbench.bench.learners.bc:BCLearner")
    assert find_algorithm("./mine").origin.digest is not None


def test_the_command_counts_as_source(tmp_path):
    folder = write_plugin(tmp_path / "mine")
    before = find_algorithm("./mine").origin.digest
    with (folder / "card.yaml").open("a") as card:
        card.write("command: {run: [python, train.py]}\n")
    assert find_algorithm("./mine").origin.digest != before


class TestSuites:
    def test_a_folder_with_a_module(self, tmp_path):
        from imitbench.templates.writing import write_template

        folder = write_template("suite", "own", tmp_path)
        card = find_suite("./own")
        [environment] = card.environments.values()
        assert (card.name, card.origin.folder) == ("own", folder)
        assert environment.module_digest == card.origin.digest is not None
        with pytest.raises(InputError, match=r"for the folder: \./own"):
            find_suite("own")
        (folder / "environment.py").write_text("")
        assert find_suite("./own").origin.digest != card.origin.digest

    def test_names_of_bundled_suites_are_refused(self, tmp_path):
        from imitbench.templates.writing import write_template

        path = write_template("suite", "own", tmp_path) / "suite.yaml"
        path.write_text(path.read_text().replace("name: own", "name: classic"))
        with pytest.raises(InputError, match="'classic' is a bundled suite"):
            find_suite("./own")

    def test_absent_ones(self):
        with pytest.raises(InputError, match="init-suite"):
            find_suite("./absent")


def test_paths_are_distinguished_from_names():
    assert [module.is_path(each) for each in ("./a", "a/", "~/a", ".")] == [True] * 4
    assert [module.is_path(each) for each in ("a", "a.b", "a.b:C")] == [False] * 3
