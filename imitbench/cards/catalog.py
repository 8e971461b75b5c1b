"""Finds the bundled cards; `imitbench.cards.plugins` also finds those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from imitbench.cards.algorithm import AlgorithmCard, Origin
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean, nearest
from imitbench.util.files import atomic_write_text
from imitbench.util.name_lists import Names, matches_id, split_names

CardKind = TypeVar("CardKind", AlgorithmCard, SuiteCard)


def _root(kind: str) -> Path:
    return Path(str(resources.files(f"imitbench.cards.{kind}")))


def _names(kind: str, file: str) -> list[str]:
    return sorted(path.parent.name for path in _root(kind).glob(f"*/{file}"))


def algorithm_names() -> list[str]:
    """Returns the names of all bundled algorithms, sorted."""
    return _names("algorithms", "card.yaml")


def suite_names() -> list[str]:
    """Returns the names of all bundled suites, sorted."""
    return _names("suites", "suite.yaml")


def suite_directory(name: str) -> Path:
    """Returns the folder of a bundled suite: its card, experts and demonstrations.

    Raises:
        InputError: The suite does not exist.
    """
    return _directory("suite", name, suite_names())


def algorithm_directory(name: str) -> Path:
    """Returns the folder of a bundled algorithm, with its card.

    Raises:
        InputError: The algorithm does not exist.
    """
    return _directory("algorithm", name, algorithm_names())


def _directory(kind: str, name: str, known: list[str]) -> Path:
    if name not in known:
        raise InputError(f"{kind} {name}: no such {kind}; {did_you_mean(name, known)}")
    return _root(f"{kind}s") / name


def load_algorithm(name: str) -> AlgorithmCard:
    """Loads a bundled algorithm's card.

    Raises:
        InputError: The algorithm does not exist, or its card is malformed.
    """
    return _load(algorithm_directory(name) / "card.yaml", AlgorithmCard)


def load_suite(name: str) -> SuiteCard:
    """Loads a bundled suite's card.

    Raises:
        InputError: The suite does not exist, or its card is malformed.
    """
    return _load(suite_directory(name) / "suite.yaml", SuiteCard)


def _load(path: Path, kind: type[CardKind]) -> CardKind:
    card, name = _parsed(path, kind), path.parent.name
    if card.name != name:
        raise InputError(f"{path}: name: must be the folder's name '{name}', not '{card.name}'")
    return card.found_at(Origin(path.parent, name))


_PARSED: dict[tuple[Path, bytes], Any] = {}
"""Bundled cards that this process has parsed, which takes much longer than to copy one."""


def _parsed(path: Path, kind: type[CardKind]) -> CardKind:
    """Returns a card that no other caller has; parses a file again only if it has changed."""
    try:
        key = path, path.read_bytes()
    except OSError:
        return read_yaml_model(path, kind)  # says what is wrong
    if key not in _PARSED:
        _PARSED[key] = read_yaml_model(path, kind)
    card: CardKind = _PARSED[key].model_copy(deep=True)
    return card


def select_environments(
    suite: SuiteCard, patterns: Names, *, ordinary: bool = False
) -> dict[str, EnvironmentCard]:
    """Returns the environments of a suite whose ids match shell-style patterns.

    Args:
        suite: Card of the suite.
        patterns: Globs such as `seals/*`, each a text or several with commas; none selects all.
        ordinary: Whether environments that only test learned rewards are left out, unless a
            pattern is the name of one.

    Raises:
        InputError: A pattern matches no id, or only environments that are left out.
    """
    globs = split_names("--env", patterns)
    for pattern in globs:
        if not any(matches_id(name, [pattern]) for name in suite.environments):
            others = [name for name in suite_names() if name != suite.name and _has(name, pattern)]
            hint = did_you_mean(pattern, suite.environments)
            if not others and not hint.startswith("did"):
                hint = _elsewhere(pattern, suite.name) or hint
            if others:
                hint = f"use --suite {' or --suite '.join(others)}, which has it"
            raise InputError(
                f"--env '{pattern}': matches no environment of suite {suite.name}; {hint}"
            )
        if ordinary and not _matching(suite, [pattern], ordinary=True):
            tests = ", ".join(_matching(suite, [pattern]))
            raise InputError(
                f"--env '{pattern}': only learned rewards are tested in {tests}; to train a method "
                "there, give the whole id"
            )
    return _matching(suite, globs, ordinary=ordinary)


def _matching(
    suite: SuiteCard, globs: Sequence[str], *, ordinary: bool = False
) -> dict[str, EnvironmentCard]:
    return {
        name: card
        for name, card in suite.environments.items()
        if (not globs or matches_id(name, globs))
        and not (ordinary and card.transfer and not {name, name.rpartition("/")[2]} & {*globs})
    }


def _elsewhere(pattern: str, suite: str) -> str | None:
    """Names another version of an environment, in another bundled suite."""
    homes = {
        env_id: name
        for name in suite_names()
        if name != suite
        for env_id in load_suite(name).environments
    }
    found = nearest(pattern, homes)
    return f"did you mean '{found}' of --suite {homes[found]}?" if found else None


def _has(suite: str, pattern: str) -> bool:
    return any(matches_id(name, [pattern]) for name in load_suite(suite).environments)


def select_trained(
    suite: SuiteCard, patterns: Names = None, part: Literal["expert", "demos"] = "expert"
) -> dict[str, EnvironmentCard]:
    """Returns the environments of a suite that match globs and have an expert.

    Args:
        suite: Card of the suite.
        patterns: See `select_environments`.
        part: What is to be made of them: variants that take it over are left out, and so are
            environments that have it from another suite.

    Raises:
        InputError: A pattern matches no id, or none of the environments has an expert, or one of
            its own.
    """
    matching = select_environments(suite, patterns)
    chosen = {name: card for name, card in matching.items() if not suite.takes_over(name, part)}
    what = "expert" if part == "expert" else "demonstrations"
    if not chosen:
        name, card = next(iter(matching.items()))
        raise InputError(
            f"--env {name}: a variant with the {what} of {card.variant_of}; name that, or give the "
            f"variant `{part}` of its own"
        )
    elsewhere = {name: home for name in chosen if (home := _home_of(chosen[name], part))}
    chosen = {name: card for name, card in chosen.items() if name not in elsewhere}
    if not chosen:
        name, home = next(iter(elsewhere.items()))
        raise InputError(f"--env {name}: has the {what} of suite {home}; name that by --suite")
    trained = {env_id: card for env_id, card in chosen.items() if card.expert is not None}
    if not trained:
        raise InputError(
            f"suite {suite.name}: the card names no expert of {', '.join(chosen)}, as there are "
            "only demonstrations; give the environment an `expert` to train one"
        )
    return trained


def _home_of(card: EnvironmentCard, part: Literal["expert", "demos"]) -> str | None:
    recipe = card.expert if part == "expert" else card.demos
    return recipe.home if recipe else None


def read_card_of_suite(path: Path, name: str | None, env_ids: Iterable[str] = ()) -> SuiteCard:
    """Reads a suite card before an update, and checks that it is the right one.

    Args:
        path: File of the suite card.
        name: Required name of the suite; `None` for any.
        env_ids: Required environments.

    Raises:
        InputError: The card is malformed, of another suite, or lacks an environment.
    """
    card = read_yaml_model(path, SuiteCard)
    if name not in (None, card.name):
        raise InputError(f"{path}: card of suite {card.name}, not of {name}")
    for env_id in env_ids:
        if env_id not in card.environments:
            raise InputError(
                f"{path}: has no environment '{env_id}'; {did_you_mean(env_id, card.environments)}"
            )
    return card


def rewrite_suite_card(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes some values of a suite card.

    The file is rewritten from its content, which drops comments; put prose under `description`.

    Args:
        path: File of the suite card.
        change: Changes the document in place.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """
    read_yaml_model(path, SuiteCard)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(document)
    # Lines end with the word that exceeds the width; those of cards have at most 100 characters.
    text = yaml.safe_dump(document, sort_keys=False, width=72, allow_unicode=True)
    try:
        atomic_write_text(path, text)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); copy it, and pass the copy as --card"
        ) from error
