"""How the strength of a regularizer follows training and validation loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch as th

Loss = th.Tensor | float


class LambdaUpdater(Protocol):
    """A function without side effects from strength and losses to a new strength."""

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns the new strength.

        Args:
            lambda_: Strength so far.
            train_loss: Loss on training data.
            val_loss: Loss on validation data.
        """


class ConstantParamScaler:
    """Leaves the strength as it is."""

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns `lambda_`."""
        return lambda_


@dataclass(frozen=True)
class IntervalParamScaler:
    """Scales the strength when validation and training loss drift apart, or too close.

    Attributes:
        scaling_factor: Part of the strength that is added or taken away, in (0, 1).
        tolerable_interval: Ratios of validation to training loss, from and to, within which
            nothing changes. Above, the network overfits and the strength grows; below, it
            shrinks.

    Raises:
        ValueError: A value is out of range.
    """

    scaling_factor: float
    tolerable_interval: tuple[float, float]

    def __post_init__(self) -> None:
        if not 0 < self.scaling_factor < 1:
            raise ValueError(f"scaling_factor must lie in (0, 1), not {self.scaling_factor}")
        if len(self.tolerable_interval) != 2:
            raise ValueError("tolerable_interval must have two ends")
        low, high = self.tolerable_interval
        if not 0 <= low < high:
            raise ValueError(
                f"tolerable_interval must rise from 0 or more, not {self.tolerable_interval}"
            )

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns the new strength.

        Raises:
            ValueError: A loss is negative or not finite, or the strength is 0, which no factor
                could ever change.
        """
        train, val = float(train_loss), float(val_loss)
        if not (math.isfinite(train) and math.isfinite(val) and train >= 0 and val >= 0):
            raise ValueError(f"losses must be finite and not negative: {train} and {val}")
        if lambda_ <= 0:
            raise ValueError(f"lambda_ must be positive to be scaled, not {lambda_}")
        low, high = self.tolerable_interval
        # As products, because the training loss may be 0.
        if val > high * train:
            return lambda_ * (1 + self.scaling_factor)
        if val < low * train:
            return lambda_ * (1 - self.scaling_factor)
        return lambda_
