"""From a run's specification to the class that carries it out."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cards.plugins import ALGORITHM_CARD, inner_module
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError
from imitbench.util.source_import import import_source, place_of_source

if TYPE_CHECKING:
    from imitbench.bench.learner import Learner
    from imitbench.records.runs import RunSpec


def learner_class(implementation: str, digest: str | None, what: str) -> type[Learner]:
    """The class that a card names.

    Args:
        implementation: Class as `module:Class`.
        digest: Digest of its source, if that lies outside this package; the source was registered.
        what: What to call it in messages.

    Raises:
        InputError: The source was not named or has changed, or what it names is no learner.
    """
    from imitbench.bench.learner import Learner

    module, _, name = implementation.partition(":")
    if digest is None or module.partition(".")[0] == "imitbench":
        if digest is not None:
            place_of_source(digest, what)
        found = importlib.import_module(module)
    else:
        place = place_of_source(digest, what)
        found = import_source(digest, inner_module(place.folder, module), what)
    made = getattr(found, name, None)
    if made is None:
        raise InputError(f"{what}: {found.__file__} has no class {name}")
    if not (isinstance(made, type) and issubclass(made, Learner)):
        raise InputError(
            f"{what}: {name} of {found.__file__} is no Learner; make it a subclass of "
            "imitbench.bench.learner.Learner"
        )
    absent = sorted(getattr(made, "__abstractmethods__", ()))
    if absent:
        raise InputError(f"{what}: {name} of {found.__file__} lacks {', '.join(absent)}")
    return made


def make_learner(spec: RunSpec) -> Learner:
    """The learner that a specification names, not set up yet.

    Raises:
        InputError: As `learner_class`.
    """
    what = f"algorithm {spec.algo}"
    return learner_class(spec.implementation, spec.implementation_digest, what)()


def folder_of(spec: RunSpec) -> Path | None:
    """Folder of the card of a run's method, if it lies outside this package.

    Raises:
        InputError: It was not named, or the source there has changed.
    """
    if spec.implementation_digest is None:
        return None
    return place_of_source(spec.implementation_digest, f"algorithm {spec.algo}").folder


def hyperparameters_of(spec: RunSpec) -> dict[str, Scalar]:
    """Every hyper-parameter of a run, those included that its record leaves out.

    Raises:
        InputError: As `folder_of`, or the card there is malformed.
    """
    folder = folder_of(spec)
    if folder is not None:
        card = read_yaml_model(folder / ALGORITHM_CARD, AlgorithmCard)
    elif spec.algo in algorithm_names():
        card = load_algorithm(spec.algo)
    else:  # a learner that was handed over, without a card
        return dict(spec.hyperparameters)
    return card.completed(spec.hyperparameters)
