"""Where a card was read from: this package, or a folder that the user named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from imitbench.util.source_import import SourcePlace


@dataclass(frozen=True)
class Origin:
    """Where a card was read from.

    Attributes:
        folder: The folder that holds it.
        reference: How the user can name it again, from any folder.
        place: Its source, if it lies outside this package and has any.
        digest: What pins that source.
    """

    folder: Path
    reference: str
    place: SourcePlace | None = None
    digest: str | None = None
