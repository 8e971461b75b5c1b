"""Pages and links that are generated when the site is built, so that they match the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from api_links import ApiLinks
from api_pages import api_modules, api_pages
from command_page import commands_page
from method_pages import fill_home_page, fill_method_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from suites_page import suites_page

ROOT = Path(__file__).resolve().parents[2]
API_PLACE = "api"
BOOSTS = {
    "reference/": 0.001,  # a title counts a thousand times as much as text: guides first
    "architecture": 0.1,
    "claims": 0.1,
    "differences": 0.1,
    "results": 0.1,
    "methods/": 1.5,
    "faq": 0.5,
}
"""Weights of pages in the search, by the start of their path; others have 1."""
LINKS = ApiLinks(ROOT, api_modules(ROOT))


def on_config(config: MkDocsConfig) -> None:
    """Replaces the entry `Library: api` of `mkdocs.yml` with the pages of the library."""
    pages = [{title: path} for path, (title, _) in api_pages(ROOT).items()]

    def filled(entry: Any) -> Any:
        if isinstance(entry, list):
            return [filled(each) for each in entry]
        if isinstance(entry, dict):
            return {
                key: pages if value == API_PLACE else filled(value) for key, value in entry.items()
            }
        return entry

    config.nav = filled(config.nav)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and `slurm/README.md` as `cluster.md`."""
    made = {
        "reference/commands.md": commands_page(),
        "reference/suites.md": suites_page(),
        "cluster.md": (ROOT / "slurm" / "README.md").read_text(),
        **{path.with_suffix(".md").as_posix(): text for path, text in _notebooks().items()},
        **{path: text for path, (_, text) in api_pages(ROOT).items()},
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fills in the pages that list methods, and links names of the library to the reference."""
    place = page.file.src_uri
    if place == "index.md":
        markdown = fill_home_page(markdown, ROOT / "docs")
    if place.startswith("methods/"):
        markdown = fill_method_page(markdown, ROOT / "docs")
    page.meta.setdefault("search", {"boost": _boost(place)})
    return LINKS.link(markdown)


def _boost(place: str) -> float:
    """Returns how much a page counts in the search: guides come before what explains and lists."""
    return next((boost for start, boost in BOOSTS.items() if place.startswith(start)), 1.0)


def _notebooks() -> dict[Path, str]:
    """Returns the notebooks of the tutorials as Markdown, without outputs, by their paths."""
    docs = ROOT / "docs"
    return {path.relative_to(docs): _as_page(path) for path in docs.glob("tutorials/*.ipynb")}


def _as_page(notebook: Path) -> str:
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    parts.append(f"This page as a notebook: [{notebook.name}]({notebook.name}).")
    return "\n\n".join(parts) + "\n"
