"""Gradients that are handed to autograd reach the parameters to the same bits.

`test_library_patches.py` shows that they leave symbolic shapes unloaded.
"""

import pytest
import torch as th

from imitbench.util import gradients


@pytest.mark.parametrize("engine", ["as it is", "unknown"])
def test_parameters_get_what_backward_gives(monkeypatch, engine):
    if engine == "unknown":
        monkeypatch.setattr(gradients, "_run_backward", None)
    net = th.nn.Sequential(th.nn.Linear(3, 8), th.nn.Tanh(), th.nn.Linear(8, 2))
    inputs, gradient = th.randn(5, 3), th.randn(5, 2)
    net(inputs).backward(gradient)
    expected = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    gradients.backward_from(net(inputs), gradient)
    assert all(th.equal(a, p.grad) for a, p in zip(expected, net.parameters(), strict=True))
    gradients.backward_from(net(inputs), gradient)  # gradients add up
    assert all(th.equal(2 * a, p.grad) for a, p in zip(expected, net.parameters(), strict=True))
