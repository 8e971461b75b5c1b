"""Checks whether an algorithm supports an environment."""

from __future__ import annotations

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import EnvironmentCard


def mismatch(algorithm: AlgorithmCard, environment: EnvironmentCard) -> str | None:
    """Returns why an algorithm cannot learn in an environment; `None` if it can."""
    spaces = algorithm.needs.action_spaces
    if algorithm.needs.tabular and not environment.tabular:
        return "plans with the model of a tabular environment; this one has none"
    if algorithm.needs.fixed_horizon and environment.horizon != "fixed":
        return "needs episodes of one length; those of this environment differ"
    if environment.action_space in spaces:
        return None
    return f"acts in {' and '.join(spaces)} spaces only; this one is {environment.action_space}"
