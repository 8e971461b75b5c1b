"""Converts the search space on an algorithm's card to Optuna's distributions."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.search import SearchSpace
from imitbench.errors import InputError
from imitbench.tune.objectives import Objective

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def tuned_hyperparameters(
    card: AlgorithmCard, objective: Objective, overrides: Collection[str] = ()
) -> dict[str, SearchSpace]:
    """Returns the search spaces of the hyper-parameters to vary.

    Args:
        card: Card of the algorithm.
        objective: The objective; it fixes some hyper-parameters.
        overrides: Names of hyper-parameters that are set with `--set`.

    Raises:
        InputError: There is no hyper-parameter to vary.
    """
    space = card.search_space
    if not space:
        raise InputError(
            f"--algo {card.name}: its card has no search space; give hyper-parameters in "
            "card.yaml a `search`, such as {low: 1.0e-4, high: 0.01, log: true}"
        )
    left = {
        name: each
        for name, each in space.items()
        if name not in overrides and not objective.fixes(name)
    }
    if not left:
        raise InputError(
            f"--algo {card.name}: nothing to search, because --set and --objective "
            f"{objective.name} fix every value; set fewer"
        )
    return left


def distributions(
    card: AlgorithmCard, space: dict[str, SearchSpace]
) -> dict[str, BaseDistribution]:
    """Returns Optuna's distribution of each hyper-parameter."""
    return {name: _distribution(card.hyperparameters[name].type, each)
            for name, each in space.items()}  # fmt: skip


def _distribution(kind: str, search: SearchSpace) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if search.choices is not None:
        return CategoricalDistribution(search.choices)
    assert search.low is not None
    assert search.high is not None
    if kind == "int":
        return IntDistribution(
            int(search.low), int(search.high), log=search.log, step=search.step or 1
        )
    return FloatDistribution(float(search.low), float(search.high), log=search.log)
