"""Pages and links that are generated when the site is built, so that they match the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api_links import ApiLinks
from api_pages import api_modules, api_pages
from command_page import commands_page
from method_pages import fill_method_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebooks import notebook_pages
from suites_page import suites_page

ROOT = Path(__file__).resolve().parents[2]
API_PLACE = "api"
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
        **notebook_pages(ROOT / "docs"),
        **{path: text for path, (_, text) in api_pages(ROOT).items()},
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fills in the pages of methods, and links the names of the library to the reference."""
    if page.file.src_uri.startswith("methods/"):
        markdown = fill_method_page(markdown, ROOT / "docs")
    return LINKS.link(markdown)
