"""Finds environments, and bundled experts and demonstrations, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from imitbench.bench.spec import environment_spec
from imitbench.cards.catalog import load_suite, suite_names
from imitbench.cards.plugins import find_suite
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.errors import InputError, did_you_mean
from imitbench.records.runs import EnvironmentSpec


def suites_of(suite: str | None) -> Iterator[SuiteCard]:
    """Yields the suite of that name or folder, or all bundled suites when `None`.

    Raises:
        InputError: The suite does not exist.
    """
    if suite is not None:
        yield find_suite(suite)
    else:
        yield from map(load_suite, suite_names())


@dataclass(frozen=True)
class ListedEnvironment:
    """An environment and its suite."""

    suite: SuiteCard
    card: EnvironmentCard

    @property
    def expert(self) -> Path:
        """Folder of the suite's expert for the environment."""
        return self.suite.origin.folder / "experts" / self.card.expert.repo

    @property
    def demos(self) -> Path:
        """Folder of the suite's demonstrations for the environment."""
        return self.suite.origin.folder / "demos" / self.card.demos.repo


def find_listed_environment(env_id: str, suite: str | None) -> ListedEnvironment | None:
    """Returns the environment of the first suite that has it; `None` if none has.

    Args:
        env_id: Id of the environment.
        suite: Name or folder of the only suite to search; `None` for all bundled ones.

    Raises:
        InputError: The named suite does not exist or lacks the environment.
    """
    for found in suites_of(suite):
        card = found.environments.get(env_id)
        if card is not None:
            return ListedEnvironment(found, card)
        if suite is not None:
            hint = did_you_mean(env_id, found.environments)
            raise InputError(f"--env {env_id}: not in suite {found.name}; {hint}")
    return None


def find_environment(env_id: str, suite: str | None = None) -> EnvironmentSpec:
    """Returns an environment as on a suite's card or, without a suite, as in Gymnasium.

    Outside suites the horizon is set to variable, which is always valid. Arguments and errors as
    in `find_listed_environment`.
    """
    listed = find_listed_environment(env_id, suite)
    if listed is not None:
        return environment_spec(env_id, listed.card)
    module = "seals" if env_id.startswith("seals/") else None
    return EnvironmentSpec(id=env_id, module=module, horizon="variable")


def find_environment_if_named(env_id: str | None, suite: str | None) -> EnvironmentSpec | None:
    """Same as `find_environment`, but returns `None` without an environment.

    Raises:
        InputError: As in `find_listed_environment`; or a suite is given without an environment.
    """
    if env_id is None and suite is not None:
        raise InputError(f"--suite {suite}: needs --env, too")
    return None if env_id is None else find_environment(env_id, suite)


def find_expert(name: str) -> Path:
    """Returns an expert, given as a path or as the name of a bundled one.

    Raises:
        InputError: `name` is neither.
    """
    return _find(name, "experts", lambda listed: listed.expert)


def find_demos(name: str) -> Path:
    """Returns demonstrations, given as a path or as the name of a bundled set.

    Raises:
        InputError: `name` is neither.
    """
    return _find(name, "demos", lambda listed: listed.demos)


def _find(name: str, kind: str, folder_of: Callable[[ListedEnvironment], Path]) -> Path:
    if Path(name).exists():
        return Path(name)
    folders = [
        folder_of(ListedEnvironment(suite, card))
        for suite in suites_of(None)
        for card in suite.environments.values()
    ]
    bundled = {folder.name: folder for folder in folders}
    if name not in bundled:
        raise InputError(
            f"{name}: neither a path nor one of the bundled {kind}; {did_you_mean(name, bundled)}"
        )
    return bundled[name]
