"""Values that searches found for the table of methods; they ship with the published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from imitbench.cards.tuned import TunedValues, read_tuned
from imitbench.records.bundled_cards import bundled_algorithm
from imitbench.records.runs import RunSpec


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


def is_of_second_row(spec: RunSpec) -> bool:
    """Whether a run has the values of a further search for the table, and not of the first one."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    if card is None or not spec.tuned:
        return False
    own = card.completed(spec.hyperparameters)
    found = [tuned.get(spec.environment.id) for tuned in table_values(spec.algo)]
    fits = [each is not None and each.are_in(own) for each in found]
    return any(fits) and not fits[0]
