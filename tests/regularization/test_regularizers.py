"""Regularizers add the penalty they name, and log their strength."""

import pytest
import torch as th

from imitbench.regularization.regularizers import LpRegularizer, WeightDecayRegularizer
from imitbench.regularization.updaters import ConstantParamScaler, IntervalParamScaler
from imitbench.util import logger as imit_logger


@pytest.fixture
def log():
    return imit_logger.configure(format_strs=[])


@pytest.fixture
def weights():
    return [th.nn.Parameter(th.tensor([1.0, -2.0])), th.nn.Parameter(th.tensor([[3.0]]))]


def loss_of(weights):
    return sum((weight * 2).sum() for weight in weights)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_lp_penalty_and_its_gradient_equal_the_closed_forms(weights, log, p):
    optimizer = th.optim.SGD(weights, lr=0.1)
    make = LpRegularizer.create(initial_lambda=0.5, p=p)
    regularizer = make(optimizer=optimizer, logger=log)
    regularized = regularizer.regularize_and_backward(loss_of(weights))
    flat = th.tensor([1.0, -2.0, 3.0])
    th.testing.assert_close(regularized, 2 * flat.sum() + 0.5 * flat.abs().pow(p).sum())
    gradient = th.cat([weight.grad.flatten() for weight in weights])
    th.testing.assert_close(gradient, 2 + 0.5 * p * flat.abs().pow(p - 1) * flat.sign())
    assert log.default_logger.name_to_value["regularized_loss"] == pytest.approx(regularized.item())


def test_weight_decay_does_not_change_gradients(weights, log):
    before = [weight.detach().clone() for weight in weights]
    optimizer = th.optim.SGD(
        [{"params": weights[:1], "lr": 0.1}, {"params": weights[1:], "lr": 1.0}], lr=9.0
    )
    regularizer = WeightDecayRegularizer.create(0.5)(optimizer=optimizer, logger=log)
    regularizer.regularize_and_backward(loss_of(weights))
    th.testing.assert_close(weights[0].data, before[0] * (1 - 0.05))
    th.testing.assert_close(weights[1].data, before[1] * (1 - 0.5))
    assert all((weight.grad == 2).all() for weight in weights)


def test_the_strength_follows_its_updater_and_is_logged(weights, log):
    make = LpRegularizer.create(0.4, IntervalParamScaler(0.5, (0.5, 1.5)), val_split=0.1, p=2)
    regularizer = make(optimizer=th.optim.SGD(weights, lr=0.1), logger=log)
    assert log.default_logger.name_to_value["regularization_lambda"] == 0.4
    regularizer.update_params(1.0, 2.0)
    assert regularizer.lambda_ == pytest.approx(0.6)
    assert log.default_logger.name_to_value["regularization_lambda"] == pytest.approx(0.6)


def test_without_an_updater_the_strength_is_constant(weights, log):
    regularizer = WeightDecayRegularizer.create(0.4)(
        optimizer=th.optim.SGD(weights, lr=0.1), logger=log
    )
    regularizer.update_params(1.0, 2.0)
    assert regularizer.lambda_ == 0.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_lambda": 0.0}, "no effect"),
        ({"initial_lambda": -1.0}, "negative"),
        ({"initial_lambda": 1.0, "val_split": 0.1}, "requires a lambda_updater"),
        ({"initial_lambda": 1.0, "lambda_updater": ConstantParamScaler()}, "needs val_split"),
        (
            {"initial_lambda": 1.0, "lambda_updater": ConstantParamScaler(), "val_split": 1.0},
            "val_split must lie",
        ),
        (
            {"initial_lambda": 1.0, "lambda_updater": ConstantParamScaler(), "val_split": 1e-100},
            "val_split must lie",
        ),
        (
            {"initial_lambda": 1.0, "lambda_updater": ConstantParamScaler(), "val_split": "0.1"},
            r"val_split must lie in \(0, 1\), not '0\.1'",
        ),
    ],
)
def test_bad_configurations_are_refused_before_there_is_an_optimizer(options, message):
    with pytest.raises(ValueError, match=message):
        WeightDecayRegularizer.create(**options)


@pytest.mark.parametrize("p", [0, 1.5])
def test_the_order_of_the_norm_is_a_positive_integer(weights, log, p):
    with pytest.raises(ValueError, match="p must be"):
        LpRegularizer.create(0.4, p=p)(optimizer=th.optim.SGD(weights, lr=0.1), logger=log)
