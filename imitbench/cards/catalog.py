"""Finds the bundled cards; `imitbench.cards.plugins` also finds those of plug-ins."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.origin import Origin
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean


def _root(kind: str) -> Path:
    return Path(str(resources.files(f"imitbench.cards.{kind}")))


def _names(kind: str, file: str) -> list[str]:
    return sorted(path.parent.name for path in _root(kind).glob(f"*/{file}"))


def algorithm_names() -> list[str]:
    """Names of all bundled algorithms, sorted."""
    return _names("algorithms", "card.yaml")


def suite_names() -> list[str]:
    """Names of all bundled suites, sorted."""
    return _names("suites", "suite.yaml")


def suite_directory(name: str) -> Path:
    """Returns the folder of a bundled suite: its card, experts and demonstrations.

    Raises:
        InputError: The suite does not exist.
    """
    if name not in suite_names():
        raise InputError(f"suite {name}: no such suite; {did_you_mean(name, suite_names())}")
    return _root("suites") / name


def algorithm_directory(name: str) -> Path:
    """Returns the folder of a bundled algorithm, with its card.

    Raises:
        InputError: The algorithm does not exist.
    """
    if name not in algorithm_names():
        raise InputError(
            f"algorithm {name}: no such algorithm; {did_you_mean(name, algorithm_names())}"
        )
    return _root("algorithms") / name


def load_algorithm(name: str) -> AlgorithmCard:
    """Loads a bundled algorithm's card.

    Raises:
        InputError: The algorithm does not exist, or its card is malformed.
    """
    path = algorithm_directory(name) / "card.yaml"
    card = read_yaml_model(path, AlgorithmCard)
    if card.name != name:
        raise InputError(f"{path}: name: must be the folder's name '{name}', not '{card.name}'")
    return card.found_at(Origin(path.parent, name))


def load_suite(name: str) -> SuiteCard:
    """Loads a bundled suite's card.

    Raises:
        InputError: The suite does not exist, or its card is malformed.
    """
    path = suite_directory(name) / "suite.yaml"
    card = read_yaml_model(path, SuiteCard)
    if card.name != name:
        raise InputError(f"{path}: name: must be the folder's name '{name}', not '{card.name}'")
    return card.found_at(Origin(path.parent, name))


def select_environments(suite: SuiteCard, pattern: str | None) -> dict[str, EnvironmentCard]:
    """Returns the environments of a suite whose ids match a shell-style pattern.

    Args:
        suite: Card of the suite.
        pattern: Glob such as `seals/*`; `None` selects all.

    Raises:
        InputError: No id matches.
    """
    if pattern is None:
        return dict(suite.environments)
    chosen = {name: card for name, card in suite.environments.items() if fnmatchcase(name, pattern)}
    if not chosen:
        raise InputError(
            f"--env '{pattern}': matches no environment of suite {suite.name}; "
            f"{did_you_mean(pattern, suite.environments)}"
        )
    return chosen
