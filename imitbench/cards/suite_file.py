"""Writes what was measured or looked up into a suite card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_text


def rewrite_suite_card(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes some values of a card; the rest stays as it is.

    The file is written anew from its content, so prose belongs under `description`, not in
    comments.

    Args:
        path: The suite card.
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
            f"{path}: cannot be written ({error.strerror}); copy it, and name the copy by --card"
        ) from error
