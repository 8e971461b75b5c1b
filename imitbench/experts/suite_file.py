"""Writes measurements to a suite card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imitbench.cards.suite import References
from imitbench.cards.suite_file import rewrite_suite_card

_DIGITS = 3  # significant digits of speeds, which differ between machines


def update_references(
    path: Path, references: Mapping[str, References], speeds: Mapping[str, float]
) -> None:
    """Replaces references and speeds of environments on a suite card.

    Args:
        path: File of the suite card.
        references: New references by environment id.
        speeds: Steps per second with random actions, by environment id.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """

    def change(document: dict[str, Any]) -> None:
        for env_id, measured in references.items():
            environment = document["environments"][env_id]
            environment["steps_per_second"] = float(f"{speeds[env_id]:.{_DIGITS}g}")
            environment["references"] = measured.model_dump(mode="json")

    rewrite_suite_card(path, change)
