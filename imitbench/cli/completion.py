"""Completes option values in the shell, without importing slow libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from imitbench.cards.suite import EnvironmentCard

DEVICES = ("auto", "cpu", "cuda", "hybrid")
LOG_FORMATS = ("tensorboard", "csv", "json", "log", "stdout", "wandb")
SOURCES = ("bundled", "hub", "path:", "minari", "minari:")


def algorithms(incomplete: str) -> list[str]:
    """Returns names of algorithms."""
    from imitbench.cards.catalog import algorithm_names

    return _beginning(incomplete, algorithm_names())


def algorithms_or_all(incomplete: str) -> list[str]:
    """Returns names of algorithms, and `all`."""
    return [*algorithms(incomplete), *_beginning(incomplete, ["all"])]


def suites(incomplete: str) -> list[str]:
    """Returns names of suites."""
    from imitbench.cards.catalog import suite_names

    return _beginning(incomplete, suite_names())


def environments(context: typer.Context, incomplete: str) -> list[str]:
    """Returns ids of environments of the suites in the command or its default, else of all."""
    suites = context.params.get("suite") or [None]
    named = suites if isinstance(suites, list | tuple) else [suites]
    return _beginning(incomplete, dict(card for suite in named for card in _environments(suite)))


def experts(incomplete: str) -> list[str]:
    """Returns bundled experts; the shell itself adds files."""
    return _beginning(
        incomplete, {card.expert.repo: None for _, card in _environments(None) if card.expert}
    )


def demos(incomplete: str) -> list[str]:
    """Returns bundled sets of demonstrations; the shell itself adds files."""
    return _beginning(incomplete, {card.demos.repo: None for _, card in _environments(None)})


def budgets(incomplete: str) -> list[str]:
    """Returns names of budgets."""
    from imitbench.cards.budgets import BUDGET_NAMES

    return _beginning(incomplete, BUDGET_NAMES)


def executors(incomplete: str) -> list[str]:
    """Returns names of executors."""
    from imitbench.executors.registry import executor_names

    return _beginning(incomplete, executor_names())


def devices(incomplete: str) -> list[str]:
    """Returns names of devices."""
    return _beginning(incomplete, DEVICES)


def sources(incomplete: str) -> list[str]:
    """Returns the sources of experts and demonstrations that have fixed names."""
    return _beginning(incomplete, SOURCES)


def log_formats(incomplete: str) -> list[str]:
    """Returns outputs of the logger, appended to those that are typed already."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, LOG_FORMATS)]


def results_locations(incomplete: str) -> list[str]:
    """Returns folders, and the name of the results that ship with this package."""
    from pathlib import Path

    above, slash, start = incomplete.rpartition("/")
    folder = Path(f"{above}/" if slash else ".")
    inside = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [f"{above}{slash}{name}" for name in _beginning(start, inside) if name[0] != "."]
    folders = [name for name in names if Path(name).is_dir()]
    return [*folders, *_beginning(incomplete, ["published"])]


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Returns ids of the runs in the results folder of the command, or in the default one."""
    from pathlib import Path

    from imitbench.api import DEFAULT_OUT
    from imitbench.store.scan import run_directories

    out = context.params.get("out") or DEFAULT_OUT
    return _beginning(incomplete, (Path(path).name for path in run_directories(Path(out))))


def policies(context: typer.Context, incomplete: str) -> list[str]:
    """Returns ids of runs and bundled experts; the shell itself adds files."""
    return [*runs(context, incomplete), *experts(incomplete)]


def _environments(suite: str | None) -> Iterator[tuple[str, EnvironmentCard]]:
    from imitbench.cards.catalog import load_suite, suite_names

    known = suite_names()
    for name in [suite] if suite in known else known:
        yield from load_suite(str(name)).environments.items()


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
