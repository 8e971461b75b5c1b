"""Finds environments and bundled experts by the names that people type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from imitbench.bench.spec import environment_spec
from imitbench.cards.catalog import load_suite, suite_directory, suite_names
from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError, did_you_mean
from imitbench.store.records import EnvironmentSpec


def find_environment(env_id: str) -> EnvironmentSpec:
    """The environment of that id: as a suite's card has it, or else as Gymnasium does.

    An environment of no suite is taken to have a variable horizon, which is always safe.
    """
    for name in suite_names():
        card = load_suite(name).environments.get(env_id)
        if card is not None:
            return environment_spec(env_id, card)
    module = "seals" if env_id.startswith("seals/") else None
    return EnvironmentSpec(id=env_id, module=module, horizon="variable")


def find_expert(name: str) -> Path:
    """An expert, given as a folder or as the name of a bundled one.

    Raises:
        InputError: Neither.
    """
    return _find(name, "experts", lambda card: card.expert.repo)


def find_demos(name: str) -> Path:
    """A set of demonstrations, given as a folder, a parquet file or the name of a bundled one.

    Raises:
        InputError: None of these.
    """
    return _find(name, "demos", lambda card: card.demos.repo)


def _find(name: str, kind: str, repo_of: Callable[[EnvironmentCard], str]) -> Path:
    if Path(name).exists():
        return Path(name)
    bundled = {
        repo_of(card): suite_directory(suite) / kind / repo_of(card)
        for suite in suite_names()
        for card in load_suite(suite).environments.values()
    }
    if name not in bundled:
        raise InputError(
            f"{name}: neither a path nor one of the bundled {kind}; {did_you_mean(name, bundled)}"
        )
    return bundled[name]
