"""Tuned hyper-parameters: values for single environments, beside the defaults on the card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from imitbench.cards.algorithm import AlgorithmCard, Card, Scalar
from imitbench.cards.catalog import algorithm_directory
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean

TUNED_FILE = "tuned.yaml"


class HeldOutRuns(Card):
    """What one setting reached in the contest on held-out seeds.

    Attributes:
        mean: Mean of the objective.
        runs: The objective of each run.
    """

    mean: float
    runs: list[float] = Field(min_length=1)


class Tuning(Card):
    """How `imitbench tune` found values.

    Attributes:
        imitbench: Version of this program.
        suite: Name of the suite.
        per: What got values of its own: the environment, or the suite as a whole, whose runs the
            numbers below are of then.
        objective: What was maximized.
        uses_reward: Whether that is the true reward's doing.
        budget: Name of the budget of every run.
        n_demos: Demonstrations that were learned from; `null` for all.
        trials: Number of trials of the search.
        search_seeds: Seeds of their runs.
        held_out_seeds: Seeds of the contest with the default values.
        sampler_seed: Seed of the proposals.
        verdict: Whether these values beat the default ones in the contest.
        p_value: Of the test behind that, corrected for the number of candidates.
        default: What the default values reached.
        tuned: What these values reached.
    """

    imitbench: str
    suite: str
    per: Literal["environment", "suite"] = "environment"
    objective: str
    uses_reward: bool
    budget: str
    n_demos: int | None = None
    trials: int = Field(ge=1)
    search_seeds: list[int]
    held_out_seeds: list[int]
    sampler_seed: int
    verdict: Literal["better", "undecided", "not better"]
    p_value: float | None = None
    default: HeldOutRuns
    tuned: HeldOutRuns


class TunedValues(Card):
    """Hyper-parameters for one environment.

    Attributes:
        source: Where the values come from: a publication, or the command that found them.
        values: By name; what is not named keeps the card's default.
        tuning: How they were found, where this program did.
    """

    source: str = Field(min_length=1)
    values: dict[str, Scalar]
    tuning: Tuning | None = None


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
    tuned = read_tuned(path)
    if tuned.algorithm != card.name:
        raise InputError(f"{path}: algorithm: must be the card's name, '{card.name}'")
    return resolve_tuned(path, tuned, card)


def read_tuned(path: Path) -> TunedCard:
    """Reads a file of tuned values, whose values are not checked against a card yet.

    Raises:
        InputError: The file is missing or malformed.
    """
    return read_yaml_model(path, TunedCard)


def resolve_tuned(
    path: Path, tuned: TunedCard, card: AlgorithmCard
) -> Mapping[str, dict[str, Scalar]]:
    """Completes tuned values with the card's defaults.

    Args:
        path: The file that they are from, for messages.
        tuned: Its content.
        card: The algorithm's card.

    Returns:
        By environment id, every hyper-parameter.

    Raises:
        InputError: A value is none that the card accepts.
    """
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
