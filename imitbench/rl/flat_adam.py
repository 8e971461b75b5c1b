"""Adam's step on all parameters at once, on the state of a policy's own optimizer."""

from __future__ import annotations

from typing import Any

import torch as th
from torch.optim.adam import adam

from imitbench.rl.mlp import FlatParameters

_MOMENTS = ("exp_avg", "exp_avg_sq")


class FlatAdam:
    """Stands in for a `torch.optim.Adam`, whose state becomes views of its own.

    Learning rate, betas and eps are read from the optimizer at each step. Its state is current
    at any time, and may be replaced in between, as `load_state_dict` does.

    Args:
        optimizer: Optimizer of exactly these parameters, in one group and without options of
            Adam other than those three; see `imitbench.rl.adam.why_not_plain`.
        parameters: The parameters.
    """

    def __init__(self, optimizer: th.optim.Optimizer, parameters: FlatParameters) -> None:
        self._optimizer = optimizer
        self._parameters = parameters
        self._steps = th.zeros(len(parameters.parameters))
        self._step = th.zeros(())
        self._moments = {name: th.zeros_like(parameters.vector) for name in _MOMENTS}
        self._views: list[dict[str, th.Tensor]] = [
            {"step": step, **dict(zip(_MOMENTS, moments, strict=True))}
            for step, *moments in zip(
                self._steps.unbind(),
                *(parameters.split(self._moments[name]) for name in _MOMENTS),
                strict=True,
            )
        ]

    def step(self) -> None:
        """Takes a step along the gradient."""
        self._follow()
        group = self._optimizer.param_groups[0]
        beta1, beta2 = group["betas"]
        adam(
            [self._parameters.vector],
            [self._parameters.gradient],
            [self._moments["exp_avg"]],
            [self._moments["exp_avg_sq"]],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=0.0,
            eps=group["eps"],
            maximize=False,
        )
        self._steps.copy_(self._step)

    def _follow(self) -> None:
        """Takes over the optimizer's state where it is not ours already."""
        state: Any = self._optimizer.state
        first = self._parameters.parameters[0]
        if first in state and state[first].get("step") is self._views[0]["step"]:
            return
        for parameter, views in zip(self._parameters.parameters, self._views, strict=True):
            for name, view in views.items():
                if parameter in state:
                    view.copy_(state[parameter][name])
                else:
                    view.zero_()
            state[parameter] = views
        self._step.copy_(self._steps[0])
