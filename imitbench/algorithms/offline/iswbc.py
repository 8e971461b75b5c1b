"""ISW-BC: behavioral cloning with importance weights.

Source: Li, Xu, Qin, Yu and Luo 2023, "Imitation Learning from Imperfection: Theoretical
Justifications and Algorithms". Where its text leaves details open they follow liziniu/ISWBC, which
was read, not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch as th

from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.algorithms.offline.weighted_cloning import DiscriminatorOptions, WeightedCloning


class ISWBC(WeightedCloning):
    """Clones the union of expert and supplement as if the expert had made all of it.

    The weight of a transition is the ratio w(s, a) of the expert's density to that of the union, so
    that the weighted mean over the union is the mean over the expert's distribution, also where
    only the supplement has samples of it. A discriminator c of both gives w = c / (1 - c).

    Args:
        threshold: Transitions with a smaller weight are left out.
        discriminator: Settings of the discriminator.
        **kwargs: As for `WeightedCloning`.

    Attributes:
        discriminator: The discriminator.

    Raises:
        ValueError: As `WeightedCloning`, or `threshold` is negative.
    """

    def __init__(
        self,
        *,
        threshold: float = 0.0,
        discriminator: DiscriminatorOptions | None = None,
        **kwargs: Any,
    ) -> None:
        if threshold < 0:
            raise ValueError(f"threshold must be at least 0, not {threshold}")
        super().__init__(**kwargs)
        self._threshold = threshold
        self.discriminator = self.make_discriminator(discriminator or DiscriminatorOptions())

    def weigh(self, batch: Batch, log_probs: th.Tensor) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Takes a step of the discriminator, and returns the importance weights."""
        del log_probs
        logged = self.discriminator.update(batch, self.draw_expert())
        weights = self.importance_weights(batch)
        return weights, {name: value.mean() for name, value in logged.items()}

    def importance_weights(self, batch: Batch) -> th.Tensor:
        """The ratio of densities, 0 below the threshold; shape (batch,), without derivatives."""
        ratio = self.log_ratio(self.discriminator, batch).exp()
        return ratio * (ratio >= self._threshold)

    def extra_state(self) -> dict[str, Any]:
        """State of the discriminator."""
        return self.discriminator.state_dict()

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.discriminator.load_state_dict(state)
