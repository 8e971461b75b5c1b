"""Finds environments and bundled experts by the names that people type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from imitbench.bench.spec import environment_spec
from imitbench.cards.catalog import load_suite, suite_names
from imitbench.cards.plugin import find_suite
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.errors import InputError, did_you_mean
from imitbench.store.records import EnvironmentSpec


def suites_of(suite: str | None) -> Iterator[SuiteCard]:
    """The suite that the user named, by its name or folder, or else all bundled ones.

    Raises:
        InputError: There is no such suite.
    """
    if suite is not None:
        yield find_suite(suite)
    else:
        yield from map(load_suite, suite_names())


@dataclass(frozen=True)
class Listed:
    """An environment, and the suite whose card has it."""

    suite: SuiteCard
    card: EnvironmentCard

    @property
    def expert(self) -> Path:
        """Folder of the suite's own expert there."""
        return self.suite.origin.folder / "experts" / self.card.expert.repo

    @property
    def demos(self) -> Path:
        """Folder of the suite's own demonstrations there."""
        return self.suite.origin.folder / "demos" / self.card.demos.repo


def find_listed(env_id: str, suite: str | None) -> Listed | None:
    """An environment as the first suite has it that does; `None` where none does.

    Args:
        env_id: Id of the environment.
        suite: The suite that it must be of, or the suite's folder; `None` for any, or none.

    Raises:
        InputError: The named suite does not exist or lacks the environment.
    """
    for found in suites_of(suite):
        card = found.environments.get(env_id)
        if card is not None:
            return Listed(found, card)
        if suite is not None:
            hint = did_you_mean(env_id, found.environments)
            raise InputError(f"--env {env_id}: not in suite {found.name}; {hint}")
    return None


def find_environment(env_id: str, suite: str | None = None) -> EnvironmentSpec:
    """The environment of that id: as a suite's card has it, or else as Gymnasium does.

    An environment of no suite is taken to have a variable horizon, which is always safe.
    Arguments and errors are those of `find_listed`.
    """
    listed = find_listed(env_id, suite)
    if listed is not None:
        return environment_spec(env_id, listed.card)
    module = "seals" if env_id.startswith("seals/") else None
    return EnvironmentSpec(id=env_id, module=module, horizon="variable")


def find_environment_if_named(env_id: str | None, suite: str | None) -> EnvironmentSpec | None:
    """As `find_environment`, for where the environment may be left out.

    Raises:
        InputError: As `find_listed`; or a suite is named and no environment.
    """
    if env_id is None and suite is not None:
        raise InputError(f"--suite {suite}: says where --env is found; name that, too")
    return None if env_id is None else find_environment(env_id, suite)


def find_expert(name: str) -> Path:
    """An expert, given as a folder or as the name of a bundled one.

    Raises:
        InputError: Neither.
    """
    return _find(name, "experts", lambda listed: listed.expert)


def find_demos(name: str) -> Path:
    """A set of demonstrations, given as a folder, a parquet file or the name of a bundled one.

    Raises:
        InputError: None of these.
    """
    return _find(name, "demos", lambda listed: listed.demos)


def _find(name: str, kind: str, folder_of: Callable[[Listed], Path]) -> Path:
    if Path(name).exists():
        return Path(name)
    folders = [
        folder_of(Listed(suite, card))
        for suite in suites_of(None)
        for card in suite.environments.values()
    ]
    bundled = {folder.name: folder for folder in folders}
    if name not in bundled:
        raise InputError(
            f"{name}: neither a path nor one of the bundled {kind}; {did_you_mean(name, bundled)}"
        )
    return bundled[name]
