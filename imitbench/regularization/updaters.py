"""Updates of a regularizer's strength from training and validation loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import torch as th

Loss = th.Tensor | float


class LambdaUpdater(Protocol):
    """A pure function from strength and losses to the new strength."""

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns the new strength.

        Args:
            lambda_: Current strength.
            train_loss: Loss on training data.
            val_loss: Loss on validation data.
        """


class ConstantParamScaler:
    """Keeps the strength constant."""

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns `lambda_`."""
        return lambda_


@dataclass(frozen=True)
class IntervalParamScaler:
    """Scales the strength if the ratio of validation to training loss leaves an interval.

    Attributes:
        scaling_factor: Relative change of the strength, in (0, 1).
        tolerable_interval: Lowest and highest ratio of validation to training loss without a
            change. Above, the network overfits and the strength grows; below, it shrinks.

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
                f"tolerable_interval must be 0 <= low < high, not {self.tolerable_interval}"
            )

    def __call__(self, lambda_: float, train_loss: Loss, val_loss: Loss) -> float:
        """Returns the new strength.

        Raises:
            ValueError: A loss is not a scalar, negative or not finite; or the strength is not a
                number, or 0, which scaling cannot change.
        """
        train, val = _scalar(train_loss, "train_loss"), _scalar(val_loss, "val_loss")
        if not (math.isfinite(train) and math.isfinite(val) and train >= 0 and val >= 0):
            raise ValueError(f"losses must be finite and not negative: {train} and {val}")
        if not isinstance(lambda_, Real) or lambda_ <= 0:
            raise ValueError(f"lambda_ must be a positive number to be scaled, not {lambda_}")
        low, high = self.tolerable_interval
        # Compares products instead of ratios, because the training loss may be 0.
        if val > high * train:
            return lambda_ * (1 + self.scaling_factor)
        if val < low * train:
            return lambda_ * (1 - self.scaling_factor)
        return lambda_


def _scalar(loss: Loss, name: str) -> float:
    try:
        return float(loss)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a scalar, not {loss!r}") from None
