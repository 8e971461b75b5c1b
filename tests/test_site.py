"""Every page of the documentation is in its navigation, and the site builds without a warning."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*src="(?:https?:)?//[^"]*"')
LINKED = re.compile(r'<link[^>]*rel="(?:stylesheet|preconnect|preload)"[^>]*href="(?:https?:)?//')


def paths_in(entry):
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for each in entry.values():
            yield from paths_in(each)
    else:
        for each in entry:
            yield from paths_in(each)


def test_every_page_is_in_the_navigation():
    navigation = set(paths_in(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert written <= navigation
    assert len(navigation - written) == 5  # those that docs/hooks/pages.py generates


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is missing: pip install '.[docs]'")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NO_PROXY": "*",
            "https_proxy": "http://localhost:9",
        },
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_no_external_files(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        assert not LOADED.search(text), page
        assert not LINKED.search(text), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text()), sheet


@pytest.mark.slow
def test_the_reference_has_every_command_card_and_public_name(site):
    commands = (site / "reference" / "commands" / "index.html").read_text()
    for command in ("imitbench run", "imitbench experts train", "imitbench leaderboard verify"):
        assert f">{command}<" in commands
    assert "--checkpoint-minutes" in commands
    algorithms = (site / "reference" / "algorithms" / "index.html").read_text()
    for card in ROOT.glob("algorithms/*/card.yaml"):
        assert f'id="{card.parent.name}"' in algorithms
    suites = (site / "reference" / "suites" / "index.html").read_text()
    assert "seals/Walker2d-v1" in suites
    library = (site / "reference" / "api" / "algorithms" / "index.html").read_text()
    assert 'id="imitbench.algorithms.bc.BC.train"' in library
    assert "_batches" not in re.findall(r'id="imitbench\.algorithms\.bc\.BC\.(\w+)"', library)
