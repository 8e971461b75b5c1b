"""Which algorithms and environments go together."""

from __future__ import annotations

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import EnvironmentCard


def mismatch(algorithm: AlgorithmCard, environment: EnvironmentCard) -> str | None:
    """Why an algorithm cannot learn on an environment; `None` if it can.

    Args:
        algorithm: Card of the algorithm.
        environment: Card of the environment.
    """
    spaces = algorithm.needs.action_spaces
    if algorithm.needs.tabular and not environment.tabular:
        return "plans with the model of a tabular environment; this one has none"
    if algorithm.needs.fixed_horizon and environment.horizon != "fixed":
        return "needs episodes of one length; those of this environment differ"
    if environment.action_space in spaces:
        return None
    return f"acts in {' and '.join(spaces)} spaces only; this one is {environment.action_space}"
