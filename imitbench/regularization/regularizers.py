"""Regularizers of the loss and of the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, Generic, Protocol, TypeVar

import torch as th
from torch import optim

from imitbench.regularization.updaters import LambdaUpdater, Loss
from imitbench.util.logger import HierarchicalLogger

# Below this, no data set has a validation part.
_LEAST_SPLIT = 1e-8

R = TypeVar("R")
Scalar = Loss
RegularizerT_co = TypeVar("RegularizerT_co", covariant=True)
Self = TypeVar("Self", bound="Regularizer[Any]")


class RegularizerFactory(Protocol[RegularizerT_co]):
    """Creates a regularizer from optimizer and logger; other arguments are bound already."""

    def __call__(
        self, *, optimizer: optim.Optimizer, logger: HierarchicalLogger
    ) -> RegularizerT_co:
        """Creates the regularizer."""


class Regularizer(ABC, Generic[R]):
    """Base of regularizers.

    Args:
        optimizer: Optimizer of the parameters to regularize.
        initial_lambda: Initial strength.
        lambda_updater: Adapts the strength to the losses; `None` keeps it constant.
        logger: Logs the strength as `regularization_lambda`.
        val_split: Fraction of the data for the validation loss, in (0, 1); given if and only if
            there is an updater.

    Raises:
        ValueError: `val_split` is out of range; only one of `lambda_updater` and `val_split` is
            given; the strength is negative; or it is constantly 0.
    """

    def __init__(
        self,
        optimizer: optim.Optimizer,
        initial_lambda: float,
        lambda_updater: LambdaUpdater | None,
        logger: HierarchicalLogger,
        val_split: float | None = None,
    ) -> None:
        _check(initial_lambda, lambda_updater, val_split)
        self.optimizer = optimizer
        self.lambda_ = initial_lambda
        self.lambda_updater = lambda_updater
        self.logger = logger
        self.val_split = val_split
        self.logger.record("regularization_lambda", self.lambda_)

    @classmethod
    def create(
        cls: type[Self],
        initial_lambda: float,
        lambda_updater: LambdaUpdater | None = None,
        val_split: float | None = None,
        **kwargs: Any,
    ) -> RegularizerFactory[Self]:
        """Binds all arguments except optimizer and logger.

        Args:
            initial_lambda: Initial strength.
            lambda_updater: Adapts the strength to the losses; `None` keeps it constant.
            val_split: Fraction of the data for the validation loss.
            **kwargs: Further arguments of the class.

        Raises:
            ValueError: See the constructor; raised before training starts.
        """
        _check(initial_lambda, lambda_updater, val_split)

        def factory(*, optimizer: optim.Optimizer, logger: HierarchicalLogger) -> Self:
            return cls(
                initial_lambda=initial_lambda,
                optimizer=optimizer,
                lambda_updater=lambda_updater,
                logger=logger,
                val_split=val_split,
                **kwargs,
            )

        return factory

    @abstractmethod
    def regularize_and_backward(self, loss: th.Tensor) -> R:
        """Regularizes and computes gradients; replaces `loss.backward()`.

        Args:
            loss: Scalar loss.
        """

    def update_params(self, train_loss: Scalar, val_loss: Scalar) -> None:
        """Updates the strength and logs it.

        Args:
            train_loss: Loss on training data.
            val_loss: Loss on validation data.
        """
        if self.lambda_updater is not None:
            self.lambda_ = self.lambda_updater(self.lambda_, train_loss, val_loss)
            self.logger.record("regularization_lambda", self.lambda_)


class LossRegularizer(Regularizer[th.Tensor]):
    """Base of regularizers that add a penalty to the loss."""

    @abstractmethod
    def _loss_penalty(self, loss: th.Tensor) -> th.Tensor:
        """Returns the penalty, a scalar with gradient."""

    def regularize_and_backward(self, loss: th.Tensor) -> th.Tensor:
        """Adds the penalty and computes gradients.

        Args:
            loss: Scalar loss.

        Returns:
            The loss with its penalty.
        """
        regularized = loss + self._loss_penalty(loss)
        regularized.backward()  # type: ignore[no-untyped-call]
        self.logger.record("regularized_loss", regularized.item())
        return regularized


class WeightRegularizer(Regularizer[None]):
    """Base of regularizers that change the weights directly."""

    @abstractmethod
    def _weight_penalty(self, weight: th.Tensor, group: dict[str, Any]) -> Scalar:
        """Returns the change to add to a weight.

        Args:
            weight: A parameter of the optimizer.
            group: The optimizer's parameter group of the weight.
        """

    def regularize_and_backward(self, loss: th.Tensor) -> None:
        """Computes gradients of the unchanged loss, then changes the weights.

        Args:
            loss: Scalar loss.
        """
        loss.backward()  # type: ignore[no-untyped-call]
        with th.no_grad():
            for group in self.optimizer.param_groups:
                for weight in group["params"]:
                    weight += self._weight_penalty(weight, group)


class LpRegularizer(LossRegularizer):
    """Adds `lambda * sum |w|^p` over all parameters to the loss.

    Args:
        optimizer: Optimizer of the parameters to regularize.
        initial_lambda: Initial strength.
        lambda_updater: Adapts the strength to the losses; `None` keeps it constant.
        logger: Logs the strength and the regularized loss.
        p: Order of the norm, a positive integer.
        val_split: Fraction of the data for the validation loss.

    Raises:
        ValueError: `p` is not a positive integer; or see the base class.
    """

    def __init__(
        self,
        optimizer: optim.Optimizer,
        initial_lambda: float,
        lambda_updater: LambdaUpdater | None,
        logger: HierarchicalLogger,
        p: int,
        val_split: float | None = None,
    ) -> None:
        super().__init__(optimizer, initial_lambda, lambda_updater, logger, val_split)
        if not isinstance(p, int) or p < 1:
            raise ValueError(f"p must be a positive integer, not {p!r}")
        self.p = p

    def _loss_penalty(self, loss: th.Tensor) -> th.Tensor:
        powers = [
            weight.abs().pow(self.p).sum()
            for group in self.optimizer.param_groups
            for weight in group["params"]
        ]
        return self.lambda_ * th.stack(powers).sum()


class WeightDecayRegularizer(WeightRegularizer):
    """Multiplies each weight by `1 - lambda * learning_rate` at each step.

    Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """

    def _weight_penalty(self, weight: th.Tensor, group: dict[str, Any]) -> th.Tensor:
        learning_rate: float = group["lr"]
        return -self.lambda_ * learning_rate * weight


def _check(
    initial_lambda: float, lambda_updater: LambdaUpdater | None, val_split: float | None
) -> None:
    if initial_lambda < 0:
        raise ValueError(f"initial_lambda must not be negative, but is {initial_lambda}")
    if lambda_updater is None and initial_lambda == 0:
        raise ValueError("initial_lambda is 0 and there is no lambda_updater: it has no effect")
    if val_split is not None and not (isinstance(val_split, Real) and _LEAST_SPLIT < val_split < 1):
        raise ValueError(f"val_split must lie in (0, 1), not {val_split!r}")
    if lambda_updater is not None and val_split is None:
        raise ValueError("lambda_updater needs val_split, to measure the validation loss")
    if lambda_updater is None and val_split is not None:
        raise ValueError("val_split requires a lambda_updater")
