"""Hand-written passes give torch's results and gradients."""

from itertools import pairwise

import pytest
import torch as th
from torch import nn

from imitbench.rl.mlp import FlatParameters, Mlp, affine, product, stack_of


def layers(activation, widths, activate_last):
    modules = []
    for before, after in pairwise(widths):
        modules += [nn.Linear(before, after), activation()]
    return nn.Sequential(*(modules if activate_last else modules[:-1]))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("widths", [(3, 2), (3, 8, 2), (5, 256, 256, 4)])
def test_results_and_gradients_are_torchs(activation, widths, activate_last):
    th.manual_seed(0)
    network = layers(activation, widths, activate_last)
    inputs = th.randn(256, widths[0], requires_grad=True)
    by_output = th.randn(256, widths[-1])
    expected = network(inputs)
    wanted = th.autograd.grad(expected, [inputs, *network.parameters()], by_output)
    parameters = FlatParameters(list(network.parameters()))
    mlp = Mlp(stack_of(list(network)), parameters)
    with th.no_grad():
        trace = mlp.trace(inputs)
        by_inputs = mlp.backward(trace, by_output.clone(), to_inputs=True)
    th.testing.assert_close(trace[-1], expected.detach(), rtol=1e-4, atol=1e-5)
    th.testing.assert_close(by_inputs, wanted[0], rtol=1e-4, atol=1e-4)
    for got, each in zip(parameters.split(parameters.gradient), wanted[1:], strict=True):
        th.testing.assert_close(got, each, rtol=1e-4, atol=1e-3)


def test_the_parameters_stay_the_networks_own():
    network = layers(nn.ReLU, (3, 4, 2), False)
    before = nn.utils.parameters_to_vector(network.parameters()).clone()
    parameters = FlatParameters(list(network.parameters()))
    assert th.equal(parameters.vector, before)
    parameters.vector += 1
    assert th.equal(nn.utils.parameters_to_vector(network.parameters()), before + 1)
    network.load_state_dict(network.state_dict())
    assert parameters.are_views()
    network[0].weight.data = network[0].weight.data.clone()
    assert not parameters.are_views()


@pytest.mark.parametrize(
    "modules",
    [
        [],
        [nn.ReLU()],
        [nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Tanh()],
        [nn.Linear(2, 2), nn.ELU(), nn.Linear(2, 2)],
        [nn.Linear(2, 2, bias=False)],
        [nn.Linear(2, 2), nn.ReLU(), nn.Dropout()],
    ],
)
def test_anything_else_is_no_stack(modules):
    assert stack_of(modules) is None


@pytest.mark.parametrize("size", [3, 200])
def test_products_of_any_size(size):
    th.manual_seed(0)
    a, b, bias = th.randn(size, size + 1), th.randn(size + 1, size + 2), th.randn(size + 2)
    expected = a.double() @ b.double()
    assert th.allclose(product(a, b).double(), expected, atol=1e-4)
    assert th.allclose(product(b.t(), a.t()).double(), expected.t(), atol=1e-4)
    assert th.allclose(affine(a, b.t(), bias).double(), expected + bias, atol=1e-4)
    assert th.allclose(affine(a, b.t().contiguous(), bias).double(), expected + bias, atol=1e-4)
