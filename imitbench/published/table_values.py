"""Values that searches found for the table of methods; they ship with the published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from imitbench.cards.tuned import TunedValues, read_tuned


def _folder() -> Path:
    return Path(str(resources.files("imitbench.published.bundled"))) / "table-values"


@cache
def table_values(name: str) -> Sequence[Mapping[str, TunedValues]]:
    """Returns the values of an algorithm by environment id, of each search for the table.

    These are those of `<name>.yaml`, then of further searches such as `<name>-state-match.yaml`.
    """
    folder = _folder()
    paths = [folder / f"{name}.yaml", *sorted(folder.glob(f"{name}-*.yaml"))]
    return [read_tuned(path).environments for path in paths if path.is_file()]
