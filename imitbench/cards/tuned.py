"""Tuned hyper-parameters: values for single environments, next to the card's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from imitbench.cards.algorithm import AlgorithmCard, Card, Scalar
from imitbench.cards.catalog import algorithm_directory
from imitbench.cards.demonstrations import Mixture
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean

TUNED_FILE = "tuned.yaml"


class HeldOutRuns(Card):
    """Results of one setting in the held-out comparison.

    Attributes:
        mean: Mean of the objective.
        runs: The objective of each run, by seed.
    """

    mean: float
    runs: list[float] = Field(min_length=1)


class Tuning(Card):
    """Provenance of values from `imitbench tune`.

    Attributes:
        imitbench: Version of this program.
        suite: Name of the suite.
        per: Whether values are for one environment, or for the whole suite, whose runs are then
            listed below.
        environments: Environments of the search and the comparison, if these are not all to which
            the values of a suite belong.
        objective: What was maximized.
        uses_reward: Whether the objective uses the true reward.
        budget: Name of the budget of each run.
        n_demos: Number of demonstrations in training; `null` for all.
        demo_every: One step was kept out of so many of each; `null` for all steps.
        actions: Whether the actions of the demonstrations were hidden.
        mixture: Further trajectories in training, by the name of their set.
        trials: Number of trials of the search.
        search_share: Share of the budget that each trial trained; `null` for all of it.
        pack_seeds: Whether the seeds of a setting were trained as one network.
        env_steps: Environment steps of all completed runs of the search and of the held-out
            comparison; `null` in files of earlier versions.
        core_hours: Hours of these runs, on one core each; `null` in files of earlier versions.
        search_seeds: Seeds of the trials' runs.
        held_out_seeds: Seeds of the held-out comparison with the default values.
        sampler_seed: Seed of the sampler of trials.
        verdict: Result of the held-out comparison with the default values.
        p_value: P-value of that comparison, corrected for the number of candidates.
        default: Results of the default values.
        tuned: Results of these values.
    """

    imitbench: str
    suite: str
    per: Literal["environment", "suite"] = "environment"
    environments: list[str] | None = Field(default=None, min_length=1)
    objective: str
    uses_reward: bool
    budget: str
    n_demos: int | None = None
    demo_every: int | None = None
    actions: Literal["shown", "hidden"] = "shown"
    mixture: Mixture = Field(default_factory=dict)
    trials: int = Field(ge=1)
    search_share: float | None = Field(default=None, gt=0, le=1)
    pack_seeds: bool = False
    env_steps: int | None = Field(default=None, ge=0)
    core_hours: float | None = Field(default=None, ge=0)
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
        source: Origin of the values: a publication, or the command that found them.
        values: Values by name; others keep the card's default. None if nothing better than the
            defaults was found.
        tuning: Provenance, if from `imitbench tune`.
    """

    source: str = Field(min_length=1)
    values: dict[str, Scalar]
    tuning: Tuning | None = None

    def are_in(self, hyperparameters: Mapping[str, Scalar]) -> bool:
        """Whether hyper-parameters have all of these values."""
        return self.values.items() <= hyperparameters.items()


class TunedCard(Card):
    """`tuned.yaml`, next to an algorithm's card.

    Attributes:
        algorithm: Name of the algorithm.
        environments: Tuned values by environment id.
    """

    schema_version: Literal[1]
    algorithm: str
    environments: dict[str, TunedValues] = Field(min_length=1)


def load_tuned(card: AlgorithmCard) -> Mapping[str, dict[str, Scalar]] | None:
    """Loads the tuned hyper-parameters of an algorithm.

    Args:
        card: The algorithm's card, which checks the values.

    Returns:
        All hyper-parameters by environment id; `None` if the algorithm has no tuned values.

    Raises:
        InputError: The file is malformed, or the card rejects a value.
    """
    outside = card.origin.source is not None
    folder = card.origin.folder if outside else algorithm_directory(card.name)
    path = folder / TUNED_FILE
    if not path.is_file():
        return None
    tuned = read_tuned(path)
    if tuned.algorithm != card.name:
        raise InputError(f"{path}: algorithm: must be the card's name, '{card.name}'")
    return resolve_tuned(path, tuned, card)


def read_tuned(path: Path) -> TunedCard:
    """Reads a file of tuned values, without checking them against a card.

    Raises:
        InputError: The file is missing or malformed.
    """
    return read_yaml_model(path, TunedCard)


def resolve_tuned(
    path: Path, tuned: TunedCard, card: AlgorithmCard
) -> Mapping[str, dict[str, Scalar]]:
    """Completes tuned values with the card's defaults.

    Args:
        path: File of the values, for messages.
        tuned: Content of that file.
        card: The algorithm's card.

    Returns:
        By environment id, every hyper-parameter.

    Raises:
        InputError: The card rejects a value.
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
