"""What docs/architecture.md says of files is true."""

import re
from pathlib import Path

import pytest

from imitbench.executors.registry import ENTRY_POINTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
PLACEHOLDERS = ("NAME",)


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`((?:imitbench|tests|docs|algorithms|suites|results)/[\w./]*)`", PAGE))
    files = {name for name in named if not any(word in name for word in PLACEHOLDERS)}
    assert len(files) > 30
    assert {name for name in files if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    ("name", "path"), re.findall(r"`(\w+)` \(`(imitbench/[\w/]+\.py)`\)", PAGE)
)
def test_a_class_is_in_the_file_that_is_named_beside_it(name, path):
    assert re.search(rf"^class {name}\b", (ROOT / path).read_text(), re.MULTILINE)


def test_the_picture_has_every_package():
    picture = PAGE.partition("```text")[2].partition("```")[0]
    packages = {path.parent.name for path in (ROOT / "imitbench").glob("*/__init__.py")}
    missing = {name for name in packages if not re.search(rf"\b{name}\b", picture)}
    assert missing == {"regularization", "templates", "testing"}
    assert ENTRY_POINTS in PAGE
