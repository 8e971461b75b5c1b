"""Adam: torch's optimizer, and faster implementations of its step.

Settings and state are always those of a `torch.optim.Adam`, so that checkpoints do not depend on
the implementation. For small networks, torch spends more time on collecting parameters and state
than on the update:

- `with_fused` selects torch's fused kernel, which updates all parameters in one call.
- `direct_step` calls that kernel with lists that are collected once.
- `FlatAdam` updates parameters stored in one vector, with that kernel or in NumPy.
- `StackedAdam` takes the steps of several of them together.

Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch as th

_NOT_PLAIN = ("amsgrad", "maximize", "capturable", "differentiable", "weight_decay")
_NOT_DIRECT = ("amsgrad", "capturable", "differentiable")
_KERNELS: dict[type[th.optim.Optimizer], Callable[..., object]] = {
    th.optim.Adam: th._fused_adam_,
    th.optim.AdamW: th._fused_adamw_,
}


def with_fused(
    optimizer_cls: type[th.optim.Optimizer], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds `fused=True` to the arguments of Adam: the same update in one call.

    Args:
        optimizer_cls: Class of the optimizer.
        kwargs: Arguments of the optimizer; a choice of implementation in them is kept.
    """
    if optimizer_cls in _KERNELS and not {"fused", "foreach"} & set(kwargs):
        return {"fused": True, **kwargs}
    return dict(kwargs)


def load_optimizer_state(optimizer: th.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Restores an optimizer from copies of the tensors in a state.

    Args:
        optimizer: Any optimizer, with the same parameters in the same groups.
        state: Result of its `state_dict`.

    Raises:
        ValueError: Groups or numbers of parameters differ.
    """
    # `load_state_dict` does not copy tensors; without a copy, steps would modify `state`.
    optimizer.load_state_dict(copy.deepcopy(dict(state)))


def direct_step(optimizer: th.optim.Optimizer) -> Callable[[], object]:
    """Returns the fastest function that takes steps with an optimizer.

    For plain fused Adam and AdamW on one device, it calls the fused kernel directly and updates the
    optimizer's state in place. For any other optimizer, it is `optimizer.step`.

    Args:
        optimizer: While the result is in use, only the learning rate in its groups may change, and
            every parameter must keep its gradient in the same tensor.

    Returns:
        A function without arguments that takes one step.
    """
    kernel = _KERNELS.get(type(optimizer))
    if kernel is None or len(optimizer.param_groups) != 1:
        return optimizer.step
    group = optimizer.param_groups[0]
    parameters = group["params"]
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if (
        hooked
        or not group.get("fused")
        or any(group.get(name) for name in _NOT_DIRECT)
        # Adam has an option to decay weights as AdamW does.
        or bool(group.get("decoupled_weight_decay")) != (type(optimizer) is th.optim.AdamW)
        or any(parameter.grad is None for parameter in parameters)
        or len({parameter.device for parameter in parameters}) > 1
    ):
        return optimizer.step
    settings = _settings(group)
    lists: list[list[th.Tensor]] = []

    def step() -> None:
        if not lists:  # the first step creates the state
            optimizer.step()
            states = [optimizer.state[parameter] for parameter in parameters]
            gradients = [parameter.grad for parameter in parameters]
            moments = [[state[key] for state in states] for key in ("exp_avg", "exp_avg_sq")]
            # `detach` shares the memory; without autograd, no `no_grad` is needed.
            values = [parameter.detach() for parameter in parameters]
            lists.extend((values, gradients, *moments, [], [s["step"] for s in states]))
            return
        th._foreach_add_(lists[-1], 1)
        kernel(*lists, lr=float(group["lr"]), **settings)

    return step


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of a fused kernel except the learning rate, which may change."""
    beta1, beta2 = group["betas"]
    return {
        "beta1": float(beta1),
        "beta2": float(beta2),
        "weight_decay": group["weight_decay"],
        "eps": group["eps"],
        "amsgrad": False,
        "maximize": group["maximize"],
    }


def why_not_plain(
    optimizer: th.optim.Optimizer, parameters: Sequence[th.nn.Parameter]
) -> str | None:
    """Returns why `FlatAdam` cannot replace an optimizer's step; `None` if it can."""
    if type(optimizer) is not th.optim.Adam:
        return f"its optimizer is {type(optimizer).__name__}, not torch.optim.Adam"
    if len(optimizer.param_groups) != 1:
        return "its optimizer has several parameter groups"
    group = optimizer.param_groups[0]
    if any(group.get(name) for name in _NOT_PLAIN):
        return "its optimizer has options of Adam other than lr, betas and eps"
    if set(map(id, group["params"])) != set(map(id, parameters)):
        return "its optimizer has other parameters than the policy"
    steps = {float(state["step"]) for state in optimizer.state.values()}
    if len(steps) > 1 or len(optimizer.state) not in (0, len(parameters)):
        return "its optimizer has taken different numbers of steps for different parameters"
    return None


class Flat(Protocol):
    """Parameters in one vector, with their gradient in another."""

    @property
    def parameters(self) -> Sequence[th.nn.Parameter]:
        """The parameters, which may or may not be views of `vector`."""

    @property
    def vector(self) -> th.Tensor:
        """Their values, shape (size,), on the CPU."""

    @property
    def gradient(self) -> th.Tensor:
        """Their gradient, shape (size,)."""

    def split(self, vector: th.Tensor) -> Sequence[th.Tensor]:
        """Returns views of a vector of shape (size,), one with the shape of each parameter."""


class FlatAdam:
    """Takes the steps of a `torch.optim.Adam` on parameters stored in one vector.

    Learning rate, betas and eps are read from the optimizer at each step.

    The two kinds of steps are equally fast and equal up to rounding. Neither may change, because
    published runs must be reproducible: runs with PPO took `shortened_step`, runs with DQN and SAC
    took `step`.

    Args:
        flat: Parameters whose optimizer `why_not_plain` accepts.
    """

    def __init__(self, flat: Flat) -> None:
        self._parameters = list(flat.parameters)
        self._vector, self._gradient = flat.vector, flat.gradient
        self._first, self._second = th.zeros_like(flat.vector), th.zeros_like(flat.vector)
        self._count = th.zeros(())
        self._counts = th.zeros(len(self._parameters))  # torch counts for each parameter
        self._states: list[dict[str, th.Tensor]] = [
            {"step": step, "exp_avg": first, "exp_avg_sq": second}
            for step, first, second in zip(
                self._counts.unbind(),
                flat.split(self._first),
                flat.split(self._second),
                strict=True,
            )
        ]
        self._group: Mapping[str, Any] = {}

    @property
    def state(self) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """First and second moments, shape (size,), and the number of steps, a scalar; no copies."""
        return self._first, self._second, self._count

    def load(self, optimizer: th.optim.Optimizer) -> None:
        """Copies the settings and the state of an optimizer."""
        self._group = optimizer.param_groups[0]
        for parameter, own in zip(self._parameters, self._states, strict=True):
            state = optimizer.state.get(parameter)
            for name, view in own.items():
                if state:
                    view.copy_(state[name])
                else:
                    view.zero_()
        self._count.copy_(self._counts[0])

    def store(self, optimizer: th.optim.Optimizer) -> None:
        """Copies the state back into new tensors of the optimizer."""
        if self._count == 0:
            return
        self._counts.copy_(self._count)
        for parameter, own in zip(self._parameters, self._states, strict=True):
            state = optimizer.state[parameter]
            for name, view in own.items():
                if name not in state:
                    state[name] = th.empty_like(view if name == "step" else parameter)
                state[name].copy_(view)

    def step(self, optimizer: th.optim.Optimizer) -> None:
        """Takes a step with torch's fused kernel.

        The optimizer's state becomes views of the state of this object, so that it is current after
        each step. It may be replaced between steps, as `load_state_dict` does.
        """
        current = optimizer.state.get(self._parameters[0], {})
        if current.get("step") is not self._states[0]["step"]:
            self.load(optimizer)
            optimizer.state.update(zip(self._parameters, self._states, strict=True))
        group = optimizer.param_groups[0]
        self._count += 1
        tensors = [self._vector], [self._gradient], [self._first], [self._second]
        th._fused_adam_(*tensors, [], [self._count], lr=float(group["lr"]), **_settings(group))
        self._counts.copy_(self._count)

    def shortened_step(self, max_norm: float) -> None:
        """Clips the gradient and takes a step in NumPy; overwrites the gradient.

        Args:
            max_norm: Largest norm of the gradient, as in `clip_grad_norm_`.

        Raises:
            ValueError: The gradient is not finite; parameters and state are unchanged.
        """
        norm = float(th.linalg.vector_norm(self._gradient))
        if not math.isfinite(norm):
            raise ValueError("the gradient is not finite: training diverged")
        scale = min(1.0, max_norm / (norm + 1e-6))
        vector, gradient = self._vector.numpy(), self._gradient.numpy()
        first, second = self._first.numpy(), self._second.numpy()
        beta1, beta2 = self._group["betas"]
        self._count += 1
        steps = int(self._count)
        root = math.sqrt(1 - beta2**steps)
        np.multiply(gradient, scale * (1 - beta1), out=gradient)
        np.multiply(first, beta1, out=first)
        np.add(first, gradient, out=first)
        np.multiply(gradient, gradient, out=gradient)
        np.multiply(gradient, (1 - beta2) / (1 - beta1) ** 2, out=gradient)
        np.multiply(second, beta2, out=second)
        np.add(second, gradient, out=second)
        # m / (sqrt(v) / root + eps), both multiplied by root
        change = gradient
        np.sqrt(second, out=change)
        np.add(change, self._group["eps"] * root, out=change)
        np.divide(first, change, out=change)
        np.multiply(change, float(self._group["lr"]) * root / (1 - beta1**steps), out=change)
        np.subtract(vector, change, out=vector)


class StackedAdam:
    """Takes the steps of several `FlatAdam` together, with that kernel.

    Steps are `FlatAdam.shortened_step` up to rounding. Learning rate, betas and eps are those of
    the first optimizer.

    Args:
        members: Each keeps the state of one row between `store` and `load`.
        parameters: Shape (members, size), on any device.
        gradient: Same shape.

    Attributes:
        largest: Largest norm of each row's gradient before clipping since `load`, shape
            (members, 1); not finite if one was not.
    """

    def __init__(
        self, members: Sequence[FlatAdam], parameters: th.Tensor, gradient: th.Tensor
    ) -> None:
        self._members = members
        self._gradient = gradient
        self._first, self._second = th.zeros_like(parameters), th.zeros_like(parameters)
        self._counts = th.zeros(len(members), device=parameters.device)
        self.largest = th.zeros_like(parameters[:, :1])
        matrices = parameters, gradient, self._first, self._second, self._counts
        self._all = list(zip(*(matrix.unbind() for matrix in matrices), strict=True))
        self._active = dict(enumerate(self._all))
        self._group: Mapping[str, Any] = {}

    def load(self, optimizers: Sequence[th.optim.Optimizer]) -> None:
        """Copies the settings of the first optimizer, and the state of each."""
        self.largest.zero_()
        self._active = dict(enumerate(self._all))
        self._group = optimizers[0].param_groups[0]
        for row, (member, optimizer) in enumerate(zip(self._members, optimizers, strict=True)):
            member.load(optimizer)
            for own, theirs in zip(self._of(row), member.state, strict=True):
                own.copy_(theirs)

    def store(self, optimizers: Sequence[th.optim.Optimizer]) -> None:
        """Copies the state back to each optimizer."""
        for row, (member, optimizer) in enumerate(zip(self._members, optimizers, strict=True)):
            for own, theirs in zip(self._of(row), member.state, strict=True):
                theirs.copy_(own)
            member.store(optimizer)

    def _of(self, row: int) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        return self._first[row], self._second[row], self._counts[row]

    def stop(self, row: int) -> None:
        """Takes no further steps with a row until `load`."""
        del self._active[row]

    def shortened_step(self, max_norm: float) -> None:
        """Clips the gradient of each row and takes a step; overwrites the gradient.

        Args:
            max_norm: Largest norm of a row's gradient, as in `clip_grad_norm_`.
        """
        norm = th.linalg.vector_norm(self._gradient, dim=1, keepdim=True)
        th.maximum(self.largest, norm, out=self.largest)
        self._gradient *= norm.add_(1e-6).reciprocal_().mul_(max_norm).clamp_(max=1.0)
        rows = [list(column) for column in zip(*self._active.values(), strict=True)]
        values, gradients, first, second, counts = rows
        th._foreach_add_(counts, 1)
        rate, settings = float(self._group["lr"]), _settings(self._group)
        th._fused_adam_(values, gradients, first, second, [], counts, lr=rate, **settings)
