"""Every page of the documentation is in its navigation, and the site builds without a warning."""

import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from support.browser import Watched

from imitbench.cards.catalog import algorithm_names, load_algorithm

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


def test_documentation_and_the_board_of_the_readme_have_folders_of_their_own():
    folder = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["site_dir"]
    [board] = re.findall(r"leaderboard build .*--out (\S+)", (ROOT / "README.md").read_text())
    assert Path(board) not in (Path(folder), *Path(folder).parents)
    assert Path(folder) not in Path(board).parents
    assert f'IMITBENCH_SITE="$PWD/{folder}"' in (ROOT / ".ci" / "run").read_text()
    assert f"path: {folder}\n" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


@pytest.mark.slow
def test_the_command_for_figures_draws_those_that_are_shown(tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, "docs/figures.py", "--to", str(tmp_path)], cwd=ROOT, check=False
    )
    assert done.returncode == 0
    shown = {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == shown
    for name in shown:
        # Versions of matplotlib name marks differently; texts and positions are the same.
        drawn, kept = (
            re.findall(r'<text[^>]* x="([^"]*)"[^>]*>([^<]*)</text>', (place / name).read_text())
            for place in (tmp_path, ROOT / "docs" / "images")
        )
        assert [text for _, text in drawn] == [text for _, text in kept]
        places = [[float(x) for x, _ in each] for each in (drawn, kept)]
        assert places[0] == pytest.approx(places[1], abs=0.05)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if "IMITBENCH_SITE" in os.environ:  # built just before, as by continuous integration
        return Path(os.environ["IMITBENCH_SITE"])
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
@pytest.mark.xdist_group("site")
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
@pytest.mark.xdist_group("site")
def test_the_reference_has_every_command_card_and_public_name(site):
    commands = (site / "reference" / "commands.html").read_text()
    for command in ("imitbench run", "imitbench experts train", "imitbench leaderboard verify"):
        assert f">{command}<" in commands
    assert "--checkpoint-minutes" in commands
    methods = (site / "methods" / "index.html").read_text()
    for card in ROOT.glob("algorithms/*/card.yaml"):
        assert f"><code>{card.parent.name}</code></a>" in methods
    gail = (site / "methods" / "gail.html").read_text()
    assert "<code>disc_lipschitz</code>" in gail
    assert "imitbench-seals-gail-tuned" in gail
    assert "&lt;!--" not in gail
    suites = (site / "reference" / "suites.html").read_text()
    assert "seals/Walker2d-v1" in suites
    library = (site / "reference" / "api" / "algorithms.html").read_text()
    assert 'id="imitbench.algorithms.bc.BC.train"' in library
    assert "_batches" not in re.findall(r'id="imitbench\.algorithms\.bc\.BC\.(\w+)"', library)


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_names_of_the_library_are_links(site):
    text = (site / "plugins.html").read_text()
    target = "reference/api/policies.html#imitbench.policies.stateful.StatefulPolicy"
    assert f'href="{target}"' in text
    place = site / "reference" / "api" / "policies.html"
    assert 'id="imitbench.policies.stateful.StatefulPolicy"' in place.read_text()


# What people ask, and the pages that answer it.
QUESTIONS = {
    "cite": ["cite.html"],
    "images": ["images.html"],
    "image observations": ["images.html"],
    "dict observations": ["dict_observations.html"],
    "how many seeds": ["how_many_seeds.html"],
    "evaluate a reward": ["evaluate_reward.html"],
    "own demonstrations": ["own_demonstrations.html"],
    "SLURM": ["cluster.html", "tutorials/slurm_lab.html"],
    "GPU": ["devices.html"],
    "resume": ["commands.html"],
    "add an algorithm": ["plugins.html"],
    "policy network": ["plugins.html"],
    "speed": ["devices.html"],
    "migrate": ["tutorials/migrating.html"],
    "what does a score mean": ["protocol.html", "statistics.html"],
}


@pytest.fixture(scope="module")
def search(site, chromium):
    """The home page, opened from its file, whose search answers."""
    watched = Watched(chromium, site / "index.html")
    assert ask(watched, "chunks of actions")
    yield watched
    watched.page.close()


def ask(watched, question):
    """Returns the results of a search, best first: places and titles of pages."""
    field = watched.page.locator("[data-md-component=search-query]")
    results = watched.page.locator(".md-search-result__item > a:has(h1)")
    deadline = time.monotonic() + 150
    for text in ("", question):
        field.fill(text)
        while (results.count() > 0) != bool(text) and time.monotonic() < deadline:
            # The search ignores keys that come before its script has started, on a busy machine.
            field.press("End")
            watched.page.wait_for_timeout(100)
    return [(each.get_attribute("href"), each.locator("h1").inner_text()) for each in results.all()]


@pytest.mark.browser
def test_the_search_works_on_pages_that_are_opened_from_files(search):
    titles = [title for _, title in ask(search, "chunks of actions")]
    assert "Add an algorithm or an environment" in titles
    assert not search.complaints
    assert all(request.startswith(("file:", "data:", "about:")) for request in search.requests)


@pytest.mark.browser
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_the_guide_that_answers(search, question):
    (place, title), *_ = ask(search, question)
    assert any(f"/{page}" in place for page in QUESTIONS[question]), (place, title)


def test_the_home_page_names_all_methods():
    fill_home_page = docs_module("method_pages").fill_home_page
    text = fill_home_page((ROOT / "docs" / "index.md").read_text(), ROOT / "docs")
    for name in algorithm_names():
        card = load_algorithm(name)
        assert (f"[{card.title}](methods/" in text) == (card.role == "method"), name


def test_links_are_made_of_names_in_text_only():
    names = load_links()
    entry = "imitbench.policies.stateful.StatefulPolicy"
    for text, linked in [
        ("a `StatefulPolicy` here", f"a [`StatefulPolicy`][{entry}] here"),
        (f"`{entry}(a, b)`", f"[`{entry}(a, b)`][{entry}]"),
        ("`imitbench.run`", "[`imitbench.run`][imitbench.api.run]"),
    ]:
        assert names.link(text) == linked
        for place in ("# {}", "[{}](other.md)", "```\n{}\n```"):
            kept = place.format(text.replace("a `", "`").replace("` here", "`"))
            assert names.link(kept) == kept
    assert names.link("`nothing` and `imitbench.nothing`") == "`nothing` and `imitbench.nothing`"


def load_links():
    modules = docs_module("api_pages").api_modules(ROOT)
    return docs_module("api_links").ApiLinks(ROOT, modules)


def docs_module(name):
    """Imports a module of the documentation's hooks."""
    sys.path.insert(0, str(ROOT / "docs" / "hooks"))
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[0]
