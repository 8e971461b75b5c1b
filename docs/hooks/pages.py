"""Pages and links that are generated when the site is built, so that they match the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api_links import ApiLinks
from api_pages import api_modules, api_pages
from card_pages import algorithms_page, suites_page
from command_page import commands_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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
        "reference/algorithms.md": algorithms_page(),
        "reference/suites.md": suites_page(),
        "cluster.md": (ROOT / "slurm" / "README.md").read_text(),
        **{path: text for path, (_, text) in api_pages(ROOT).items()},
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links the names of the library to the reference."""
    return LINKS.link(markdown)
