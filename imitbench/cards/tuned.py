"""Tuned hyper-parameters: values for single environments, beside the defaults on the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from imitbench.cards.algorithm import AlgorithmCard, Card, Scalar
from imitbench.cards.catalog import algorithm_directory
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean

TUNED_FILE = "tuned.yaml"


class TunedValues(Card):
    """Hyper-parameters for one environment.

    Attributes:
        source: Where the values come from: a publication, or the command that found them.
        values: By name; what is not named keeps the card's default.
    """

    source: str = Field(min_length=1)
    values: dict[str, Scalar]


class TunedCard(Card):
    """`tuned.yaml` beside an algorithm's card.

    Attributes:
        algorithm: Name of the algorithm.
        environments: By environment id.
    """

    schema_version: Literal[1]
    algorithm: str
    environments: dict[str, TunedValues] = Field(min_length=1)


def load_tuned(card: AlgorithmCard) -> Mapping[str, dict[str, Scalar]] | None:
    """Tuned hyper-parameters of an algorithm.

    Args:
        card: The algorithm's card, against which the values are checked.

    Returns:
        By environment id, every hyper-parameter; `None` if the algorithm has no tuned values.

    Raises:
        InputError: The file is malformed, or a value is none that the card accepts.
    """
    outside = card.origin.place is not None
    folder = card.origin.folder if outside else algorithm_directory(card.name)
    path = folder / TUNED_FILE
    if not path.is_file():
        return None
    tuned = read_yaml_model(path, TunedCard)
    if tuned.algorithm != card.name:
        raise InputError(f"{path}: algorithm: must be the card's name, '{card.name}'")
    defaults = card.resolve({})
    found = {}
    for env_id, given in tuned.environments.items():
        checked = {}
        for name, value in given.values.items():
            where = f"{path}: environments.{env_id}.values.{name}"
            if name not in card.hyperparameters:
                raise InputError(f"{where}: {did_you_mean(name, card.hyperparameters)}")
            try:
                checked[name] = card.hyperparameters[name].check(value)
            except ValueError as error:
                raise InputError(f"{where}: {error}") from None
        found[env_id] = {**defaults, **checked}
    return found
