"""Adam on one vector, exchanging its state with `torch.optim.Adam`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch as th

from imitbench.rl.network import Network, Parameters

_PLAIN = ("amsgrad", "maximize", "capturable", "differentiable", "weight_decay")


def why_not_plain(optimizer: th.optim.Optimizer, parameters: list[th.nn.Parameter]) -> str | None:
    """Why `VectorAdam` cannot stand in for an optimizer; `None` if it can."""
    if type(optimizer) is not th.optim.Adam:
        return f"its optimizer is {type(optimizer).__name__}, not torch.optim.Adam"
    if len(optimizer.param_groups) != 1:
        return "its optimizer has several parameter groups"
    group = optimizer.param_groups[0]
    if any(group.get(name) for name in _PLAIN):
        return "its optimizer has options of Adam other than lr, betas and eps"
    if {id(each) for each in group["params"]} != {id(each) for each in parameters}:
        return "its optimizer has other parameters than the policy"
    steps = {float(state["step"]) for state in optimizer.state.values()}
    if len(steps) > 1 or len(optimizer.state) not in (0, len(parameters)):
        return "its optimizer has taken different numbers of steps for different parameters"
    return None


class VectorAdam:
    """Adam for the parameters of a network.

    Args:
        network: The network.

    Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization"; `eps` is added to
    the corrected root, as torch does.
    """

    def __init__(self, network: Network) -> None:
        self._parameters = network.parameters.vector
        self._gradient = network.gradient.vector
        self._gradient_tensor = th.from_numpy(self._gradient)
        size = len(self._parameters)
        self._first = Parameters(network.architecture, np.zeros(size, network.dtype))
        self._second = Parameters(network.architecture, np.zeros(size, network.dtype))
        self._scratch = np.empty(size, network.dtype)
        self._steps = 0
        self._lr, self._betas, self._eps = 0.0, (0.9, 0.999), 1e-8

    def load(self, optimizer: th.optim.Optimizer, named: Mapping[str, th.nn.Parameter]) -> None:
        """Takes over the settings and the state of an optimizer of the named parameters."""
        group = optimizer.param_groups[0]
        self._lr, self._betas, self._eps = float(group["lr"]), group["betas"], group["eps"]
        state = optimizer.state
        if not state:
            self._steps = 0
            self._first.vector.fill(0)
            self._second.vector.fill(0)
            return
        for moment, key in ((self._first, "exp_avg"), (self._second, "exp_avg_sq")):
            moment.load({name: state[named[name]][key].numpy() for name in moment.named})
        self._steps = int(next(iter(state.values()))["step"])

    def store(self, optimizer: th.optim.Optimizer, named: Mapping[str, th.nn.Parameter]) -> None:
        """Hands the state back."""
        if self._steps == 0:
            return
        for name in self._first.named:
            parameter = named[name]
            state = optimizer.state[parameter]
            if not state:
                state["step"] = th.tensor(0.0)
                state["exp_avg"] = th.zeros_like(parameter, memory_format=th.preserve_format)
                state["exp_avg_sq"] = th.zeros_like(parameter, memory_format=th.preserve_format)
            state["step"].fill_(self._steps)
        for moment, key in ((self._first, "exp_avg"), (self._second, "exp_avg_sq")):
            moment.store({name: optimizer.state[named[name]][key].numpy() for name in moment.named})

    def step(self, max_norm: float) -> None:
        """Takes a step along the network's gradient, which it overwrites.

        Args:
            max_norm: The gradient is shortened to this length.

        Raises:
            ValueError: The gradient is not finite; nothing was changed.
        """
        gradient, scratch = self._gradient, self._scratch
        first, second = self._first.vector, self._second.vector
        norm = float(th.linalg.vector_norm(self._gradient_tensor))
        if not math.isfinite(norm):
            raise ValueError("the gradient is not finite: training diverged")
        scale = min(1.0, max_norm / (norm + 1e-6))
        self._steps += 1
        beta1, beta2 = self._betas
        root = math.sqrt(1 - beta2**self._steps)
        np.multiply(gradient, scale * (1 - beta1), out=gradient)
        np.multiply(first, beta1, out=first)
        np.add(first, gradient, out=first)
        np.multiply(gradient, gradient, out=gradient)
        np.multiply(gradient, (1 - beta2) / (1 - beta1) ** 2, out=gradient)
        np.multiply(second, beta2, out=second)
        np.add(second, gradient, out=second)
        # m / (sqrt(v) / root + eps), both multiplied by root
        np.sqrt(second, out=scratch)
        np.add(scratch, self._eps * root, out=scratch)
        np.divide(first, scratch, out=scratch)
        np.multiply(scratch, self._lr * root / (1 - beta1**self._steps), out=scratch)
        np.subtract(self._parameters, scratch, out=self._parameters)
