"""YAML and CSV that would need minutes or gigabytes are refused at once."""

import time

import pytest
import yaml

from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.data.csv_source import open_csv
from imitbench.errors import InputError, did_you_mean
from imitbench.hub.repo_card import RepoCard
from imitbench.policies.expert_folder import read_tagless_mapping
from imitbench.store.importers.long_table import import_csv
from imitbench.untrusted.yaml_text import load_yaml

MOST = 20_000  # values, instead of the limit
LEVELS = range(1, 40)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: v}}\n" for n in LEVELS
)
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in LEVELS)
BOMBS = {
    "merge keys": MERGES,
    "aliases": LAUGHS,
    "base 60": "a: " + "1:" + "59:" * 150_000 + "1\n",
    "base 60 float": "a: " + "1:" + "59:" * 150_000 + "1.5\n",
    "digits": "a: " + "9" * 500_000 + "\n",
    "tagged": "a: !!int '" + "1:" * 100_000 + "1'\n",
    "a cycle": "a: &a [*a]\n",
    "a merged cycle": "a: &a {<<: *a}\n",
    "nesting": "a: " + "[" * 100_000 + "\n",
    "braces": "a: " + "{a: " * 50_000 + "\n",
    "many": "a: [" + "1," * MOST + "1]\n",
    "too long": "a: '" + "x" * 5_000_000 + "'\n",
}


def read_settings(path):
    return read_tagless_mapping(path)


def read_card(path):
    return read_yaml_model(path, SuiteCard)


def read_readme(path):
    path.write_text(f"---\n{path.read_text()}---\n")
    return RepoCard.read(path)


@pytest.mark.parametrize(
    ("read", "bomb"),
    [
        (read, bomb)
        for read in (read_settings, read_card, read_readme)
        for bomb in BOMBS
        # They count values in the same place.
        if bomb != "many" or read is read_settings
    ],
)
def test_yaml_bombs_are_refused_at_once(bomb, read, tmp_path, monkeypatch):
    if bomb == "many":
        monkeypatch.setenv("IMITBENCH_LIMIT_YAML_NODES", str(MOST))
    path = tmp_path / "file.yml"
    path.write_text(BOMBS[bomb])
    if bomb == "too long" and read is read_readme:
        pytest.skip("a long README is allowed")
    before = time.process_time()
    with pytest.raises(InputError):
        read(path)
    assert time.process_time() - before < 20  # minutes without the limits


def test_ordinary_aliases_merges_and_numbers_are_read():
    text = "a: &a {x: 1, y: 1:30}\nb: {<<: *a, z: 0.5}\nc: [*a, *a]\n"
    _, found = load_yaml(text)
    assert found["b"] == {"x": 1, "y": 90, "z": 0.5}
    assert found["c"] == [found["a"], found["a"]]
    assert load_yaml("") == (None, None)


def test_the_number_of_values_can_be_set(monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_YAML_NODES", "10")
    with pytest.raises(yaml.YAMLError, match="IMITBENCH_LIMIT_YAML_NODES"):
        load_yaml("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]")


@pytest.mark.parametrize("read", [import_csv, open_csv])
def test_a_table_of_a_hundred_thousand_columns_is_refused(read, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(",".join(f"obs_{n}" for n in range(100_000)) + "\n")
    with pytest.raises(InputError, match="100,000 columns"):
        read(path)


def test_rows_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_TABLE_ROWS", "5")
    path = tmp_path / "table.csv"
    path.write_text("algo,env,score\n" + "bc,e,1\n" * 10)
    with pytest.raises(InputError, match="IMITBENCH_LIMIT_TABLE_ROWS"):
        import_csv(path)


def test_a_hint_about_a_huge_name_takes_no_time():
    assert "Accepted" in did_you_mean("x" * 5_000_000, ["a", "y" * 1_000_000])
