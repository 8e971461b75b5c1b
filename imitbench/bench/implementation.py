"""Finds the learner class and the card of a run's specification."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cards.plugins import ALGORITHM_CARD, inner_module, read_algorithm_card
from imitbench.errors import InputError
from imitbench.util.source_import import import_source, location_of_source

if TYPE_CHECKING:
    from imitbench.bench.learner import Learner
    from imitbench.records.runs import RunSpec


def learner_class(implementation: str, digest: str | None, what: str) -> type[Learner]:
    """Returns the learner class that a card names.

    Args:
        implementation: Class as `module:Class`.
        digest: Digest of its source if that is outside this package; the source must be
            registered.
        what: Name of the method in messages.

    Raises:
        InputError: The source was not registered or has changed, the class does not exist, or it
            is not a complete subclass of `Learner`.
    """
    from imitbench.bench.learner import Learner

    module, _, name = implementation.partition(":")
    if digest is None or module.partition(".")[0] == "imitbench":
        if digest is not None:
            location_of_source(digest, what)
        found = importlib.import_module(module)
    else:
        location = location_of_source(digest, what)
        found = import_source(digest, inner_module(location.folder, module), what)
    made = getattr(found, name, None)
    if made is None:
        raise InputError(f"{what}: {found.__file__} has no class {name}")
    if not (isinstance(made, type) and issubclass(made, Learner)):
        raise InputError(
            f"{what}: {name} of {found.__file__} is not a Learner; make it a subclass of "
            "imitbench.bench.learner.Learner"
        )
    absent = sorted(getattr(made, "__abstractmethods__", ()))
    if absent:
        raise InputError(f"{what}: {name} of {found.__file__} lacks {', '.join(absent)}")
    return made


def make_learner(spec: RunSpec) -> Learner:
    """Creates the learner that a specification names; it is not set up yet.

    Raises:
        InputError: As `learner_class`.
    """
    what = f"algorithm {spec.algo}"
    return learner_class(spec.implementation, spec.implementation_digest, what)()


def folder_of(spec: RunSpec) -> Path | None:
    """Returns the folder of the method's card; `None` for a method of this package.

    Raises:
        InputError: The source was not registered or has changed.
    """
    if spec.implementation_digest is None:
        return None
    return location_of_source(spec.implementation_digest, f"algorithm {spec.algo}").folder


def card_of(spec: RunSpec) -> AlgorithmCard | None:
    """Returns the card of a run's method; `None` for a learner that was passed as an object.

    Raises:
        InputError: As `folder_of`, or the card there is malformed.
    """
    folder = folder_of(spec)
    if folder is not None:
        return read_algorithm_card(folder / ALGORITHM_CARD)
    return load_algorithm(spec.algo) if spec.algo in algorithm_names() else None
