"""Where a card was read from: this package, or a folder that the user named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from imitbench.util.source_import import SourcePlace


@dataclass(frozen=True)
class Origin:
    """Where a card was read from.

    Attributes:
        folder: Folder with the card.
        reference: What the user can type for it in any working folder.
        place: Source of the card's module, if outside this package.
        digest: SHA-256 of that source.
    """

    folder: Path
    reference: str
    place: SourcePlace | None = None
    digest: str | None = None
