"""Updates measured values and commits in a suite card."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean
from imitbench.util.files import atomic_write_text


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
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    try:
        atomic_write_text(path, text)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); copy it, and pass the copy as --card"
        ) from error
