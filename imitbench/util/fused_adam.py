"""Optimizer steps without the work that is the same in every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch as th

_OPTIONS = ("amsgrad", "capturable", "differentiable")
_KERNELS: dict[type[th.optim.Optimizer], str] = {
    th.optim.Adam: "_fused_adam_",
    th.optim.AdamW: "_fused_adamw_",
}


def with_fused(
    optimizer_cls: type[th.optim.Optimizer], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Asks Adam for its fused step, which is the same update in one call.

    Args:
        optimizer_cls: Class of the optimizer.
        kwargs: Its arguments; a choice that they make already stands.
    """
    if optimizer_cls in (th.optim.Adam, th.optim.AdamW) and not {"fused", "foreach"} & set(kwargs):
        return {"fused": True, **kwargs}
    return dict(kwargs)


def direct_step(optimizer: th.optim.Optimizer) -> Callable[[], object]:
    """The shortest way to take steps with an optimizer.

    For plain fused Adam and AdamW on the CPU that is the fused kernel itself: gathering
    parameters and their state takes several times as long as the update of a small network. The
    optimizer's state is updated in place as always. Any other optimizer takes its own step.

    Args:
        optimizer: The optimizer. While the result is in use, its groups stay as they are, except
            for the learning rate, and every parameter has its gradient in the same tensor.

    Returns:
        A function without arguments that takes one step.
    """
    kernel = getattr(th, _KERNELS.get(type(optimizer), ""), None)
    if kernel is None or len(optimizer.param_groups) != 1:
        return optimizer.step
    group = optimizer.param_groups[0]
    parameters = group["params"]
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if (
        hooked
        or not group.get("fused")
        or any(group.get(name) for name in _OPTIONS)
        # Adam may be told to decay weights as AdamW does.
        or bool(group.get("decoupled_weight_decay")) != (type(optimizer) is th.optim.AdamW)
        or any(each.device.type != "cpu" or each.grad is None for each in parameters)
    ):
        return optimizer.step
    beta1, beta2 = group["betas"]
    fixed = {
        "beta1": float(beta1),
        "beta2": float(beta2),
        "weight_decay": group["weight_decay"],
        "eps": group["eps"],
        "amsgrad": False,
        "maximize": group["maximize"],
    }
    lists: list[list[th.Tensor]] = []

    def step() -> None:
        if not lists:  # the first step makes the state
            optimizer.step()
            states = [optimizer.state[each] for each in parameters]
            gradients = [each.grad for each in parameters]
            moments = [[state[key] for state in states] for key in ("exp_avg", "exp_avg_sq")]
            # In the same memory, but nothing that autograd would have to be kept away from.
            values = [each.detach() for each in parameters]
            lists.extend((values, gradients, *moments, [], [s["step"] for s in states]))
            return
        th._foreach_add_(lists[-1], 1)
        kernel(*lists, lr=float(group["lr"]), **fixed)

    return step
