"""DemoDICE: matching the expert's distribution, close to that of the data.

Source: Kim, Seo, Lee, Jeon, Hwang, Yang and Kim 2022, "DemoDICE: Offline Imitation Learning with
Supplementary Imperfect Demonstrations". Where its text leaves details open they follow
KAIST-AILab/imitation-dice (Apache-2.0), which was read, not copied.
"""

from __future__ import annotations

from typing import Any

from imitbench.algorithms.offline.dual import DualCloning


class DemoDICE(DualCloning):
    """Minimizes KL(d || dE) + alpha KL(d || dU) over the distributions d of policies.

    Here dE is the expert's distribution of states and actions, and dU that of the union. Since
    KL(d || dE) = KL(d || dU) - E_d[r] with the reward r(s, a) = log dE / dU, this is the dual
    problem with the Kullback-Leibler divergence and the temperature 1 + alpha. Discriminator, nu
    and policy take a step in each batch.

    Args:
        alpha: Weight of staying close to the data, at least 0.
        **kwargs: As for `DualCloning`.

    Raises:
        ValueError: As `WeightedCloning`, or `alpha` is negative.
    """

    def __init__(self, *, alpha: float = 0.0, **kwargs: Any) -> None:
        if alpha < 0:
            raise ValueError(f"alpha must be at least 0, not {alpha}")
        super().__init__(divergence="kl", temperature=1.0 + alpha, **kwargs)
