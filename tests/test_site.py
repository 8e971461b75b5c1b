"""Every page of the documentation is in its navigation, and the site builds without a warning."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from support.browser import Watched

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


@pytest.mark.browser
def test_the_search_works_on_pages_that_are_opened_from_files(site, chromium):
    watched = Watched(chromium, site / "index.html")
    field = watched.page.locator("[data-md-component=search-query]")
    field.fill("chunks of actions")
    results = watched.page.locator(".md-search-result__item h1")
    deadline = time.monotonic() + 150
    while results.count() == 0 and time.monotonic() < deadline:
        # The search ignores keys that come before its script has started, as on a busy machine.
        field.press("End")
        watched.page.wait_for_timeout(500)
    titles = results.all_inner_texts()
    assert "Your own method, your own environment" in titles
    assert not watched.complaints
    assert all(request.startswith(("file:", "data:", "about:")) for request in watched.requests)


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
    sys.path.insert(0, str(ROOT / "docs" / "hooks"))
    try:
        from api_links import ApiLinks
        from api_pages import api_modules
    finally:
        del sys.path[0]
    return ApiLinks(ROOT, api_modules(ROOT))
