"""EnsembleDAgger: the expert acts where an ensemble is in doubt or far from the expert.

Source: Menda, Driggs-Campbell and Kochenderfer 2019, "EnsembleDAgger: A Bayesian Approach to Safe
Imitation Learning", arXiv:1807.08364.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from imitbench.algorithms.gated_dagger import Floats, GatedDAgger, Mask


class EnsembleDAgger(GatedDAgger):
    """The expert acts unless the ensemble agrees with itself, and with the expert.

    Without `discrepancy_threshold` the expert is only asked in doubt, and its answers there are all
    that is learned from. With it, the expert must be asked at every step, as in the paper.

    Args:
        doubt_threshold: The expert acts where the disagreement of the ensemble, a standard
            deviation of scaled actions, exceeds this (the paper's doubt rule).
        discrepancy_threshold: The expert also acts where the ensemble's action is further than
            this from the expert's, as a root mean square over scaled entries (the paper's
            discrepancy rule); `None` for the doubt rule alone.
        **kwargs: As for `GatedDAgger`.

    Raises:
        TypeError: As `GatedDAgger`.
        ValueError: As `GatedDAgger`, or a threshold is negative.
    """

    def __init__(
        self,
        *,
        doubt_threshold: float = 0.05,
        discrepancy_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        for name, value in (
            ("doubt_threshold", doubt_threshold),
            ("discrepancy_threshold", discrepancy_threshold),
        ):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, but is {value}")
        super().__init__(**kwargs)
        self.doubt_threshold = doubt_threshold
        self.discrepancy_threshold = discrepancy_threshold

    def asks(self, disagreement: Floats, expert_acted: Mask) -> Mask:
        """In doubt, or always if there is a discrepancy rule."""
        del expert_acted
        if self.discrepancy_threshold is not None:
            return np.ones(len(disagreement), dtype=bool)
        return disagreement > self.doubt_threshold

    def hands_over(self, disagreement: Floats, discrepancy: Floats, expert_acted: Mask) -> Mask:
        """The decision rule: doubt or discrepancy exceeds its threshold."""
        del expert_acted
        doubt = disagreement > self.doubt_threshold
        if self.discrepancy_threshold is None:
            return doubt
        return doubt | (discrepancy > self.discrepancy_threshold)
