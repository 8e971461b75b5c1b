"""The reference pages of the library: one page per package, from its docstrings."""

from __future__ import annotations

from pathlib import Path

LIBRARY = (
    "algorithms",
    "data",
    "policies",
    "rewards",
    "rl",
    "regularization",
    "testing",
    "util",
    "stats",
    "cards",
)
"""Packages whose modules are all public."""

EXTENDING = (
    "imitbench.api",
    "imitbench.errors",
    "imitbench.bench.learner",
    "imitbench.bench.learners.reward_learner",
    "imitbench.bench.learners.ppo_learner",
    "imitbench.bench.learners.sb3_learner",
    "imitbench.bench.protocol",
    "imitbench.bench.spec",
    "imitbench.executors.base",
    "imitbench.executors.options",
    "imitbench.executors.registry",
    "imitbench.records.runs",
    "imitbench.store.database",
)
"""Modules of the harness that plug-ins and other packages build on."""


def api_pages(root: Path) -> dict[str, tuple[str, str]]:
    """Returns title and Markdown of every page, by its path.

    Args:
        root: Folder of the repository. Modules are found as files; none is imported.
    """
    return {
        f"reference/api/{name}.md": (title, _page(title, modules))
        for name, (title, modules) in _contents(root).items()
    }


def api_modules(root: Path) -> list[str]:
    """Returns the modules of all pages, by dotted name."""
    return [module for _, modules in _contents(root).values() for module in modules]


def _contents(root: Path) -> dict[str, tuple[str, list[str]]]:
    """Returns title and modules of every page, by its name."""
    contents = {"harness": ("The harness", list(EXTENDING))}
    for package in LIBRARY:
        folder = root / "imitbench" / package
        modules = sorted(
            ".".join(path.relative_to(root).with_suffix("").parts)
            for path in folder.rglob("*.py")
            if not path.name.startswith("_")
        )
        contents[package] = (f"imitbench.{package}", modules)
    return contents


def _page(title: str, modules: list[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {module}" for module in modules)]) + "\n"
