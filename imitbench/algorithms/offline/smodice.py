"""SMODICE: matching the expert's distribution of states, close to that of the data.

Source: Ma, Shen, Jayaraman and Bastani 2022, "Versatile Offline Imitation from Observations and
Examples via Regularized State-Occupancy Matching", arXiv:2202.02433. Where its text leaves details
open they follow JasonMa2016/SMODICE, which was read, not copied.
"""

from __future__ import annotations

from typing import Any

from imitbench.algorithms.offline.dual import Divergence, DualCloning


class SMODICE(DualCloning):
    """Minimizes a bound of KL(d(s) || dE(s)) over the distributions d of policies.

    The bound adds a divergence of d(s, a) from dU(s, a) of the data, so that the reward
    r(s) = log dE(s) / dU(s) depends on states only: the dual problem, in which the expert's actions
    are needed nowhere. The discriminator is trained first, and then kept.

    With `use_actions` and `clone_expert` off, nothing depends on the expert's actions: the
    discriminator sees states, and only the supplement is cloned. With both on, the method is as
    DemoDICE without its alpha.

    Args:
        divergence: That from the data; see `DualCloning`.
        reward_scale: Weight of the reward, relative to the divergence.
        use_actions: Whether the discriminator sees actions.
        clone_expert: Whether the data contain the expert's demonstrations.
        disc_batches: Batches in which only the discriminator is trained.
        **kwargs: As for `DualCloning`.

    Raises:
        ValueError: As `WeightedCloning`, or a value is out of range.
    """

    def __init__(
        self,
        *,
        divergence: Divergence = "chi2",
        reward_scale: float = 1.0,
        use_actions: bool = False,
        clone_expert: bool = True,
        disc_batches: int = 1000,
        **kwargs: Any,
    ) -> None:
        if not reward_scale > 0:
            raise ValueError(f"reward_scale must be positive, not {reward_scale}")
        if disc_batches < 0:
            raise ValueError(f"disc_batches must be at least 0, not {disc_batches}")
        super().__init__(
            divergence=divergence,
            temperature=1 / reward_scale,
            use_actions=use_actions,
            clone_expert=clone_expert,
            disc_batches=disc_batches,
            **kwargs,
        )
