"""Writes measurements into a suite card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from imitbench.cards.suite import References, SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.util.files import atomic_write_text

_DIGITS = 3  # significant digits of a speed that no two machines share


def update_references(
    path: Path, references: Mapping[str, References], speeds: Mapping[str, float]
) -> None:
    """Replaces the references and speeds of some environments; the rest stays as it is.

    The file is written anew from its content, so prose belongs under `description`, not in
    comments.

    Args:
        path: The suite card.
        references: New references by environment id.
        speeds: Steps per second with random actions, by environment id.

    Raises:
        InputError: The card is malformed.
    """
    read_yaml_model(path, SuiteCard)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for env_id, measured in references.items():
        environment = document["environments"][env_id]
        environment["steps_per_second"] = float(f"{speeds[env_id]:.{_DIGITS}g}")
        environment["references"] = measured.model_dump(mode="json")
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    atomic_write_text(path, text)
