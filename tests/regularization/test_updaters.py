"""The strength follows the ratio of validation to training loss."""

import pytest
import torch as th

from imitbench.regularization.updaters import ConstantParamScaler, IntervalParamScaler


@pytest.mark.parametrize(
    ("train", "val", "expected"),
    [(1.0, 1.0, 0.4), (1.0, 1.6, 0.44), (1.0, 0.4, 0.36), (0.0, 1.0, 0.44), (0.0, 0.0, 0.4)],
)
def test_the_interval_scaler_changes_the_strength_outside_the_interval(train, val, expected):
    scaler = IntervalParamScaler(0.1, (0.5, 1.5))
    assert scaler(0.4, train, val) == pytest.approx(expected)
    assert scaler(0.4, th.tensor(train), th.tensor(val)) == pytest.approx(expected)


def test_the_constant_scaler_keeps_the_strength():
    assert ConstantParamScaler()(0.4, 1.0, 100.0) == 0.4


@pytest.mark.parametrize(
    ("factor", "interval"),
    [(0.0, (0, 1)), (1.0, (0, 1)), (0.5, (1, 1)), (0.5, (2, 1)), (0.5, (-1, 1)), (0.5, (0, 1, 2))],
)
def test_bad_arguments_are_refused(factor, interval):
    with pytest.raises(ValueError, match=r"scaling_factor|tolerable_interval"):
        IntervalParamScaler(factor, interval)


@pytest.mark.parametrize("losses", [(-1.0, 1.0), (1.0, float("nan")), (float("inf"), 1.0)])
def test_bad_losses_are_refused(losses):
    with pytest.raises(ValueError, match="losses"):
        IntervalParamScaler(0.1, (0.5, 1.5))(0.4, *losses)


def test_a_strength_of_zero_cannot_be_scaled():
    with pytest.raises(ValueError, match="lambda_"):
        IntervalParamScaler(0.1, (0.5, 1.5))(0.0, 1.0, 1.0)
