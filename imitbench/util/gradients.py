"""Passes gradients in closed form to autograd."""

from __future__ import annotations

import torch as th

_run_backward = getattr(th.autograd.graph, "_engine_run_backward", None)


def backward_from(output: th.Tensor, gradient: th.Tensor) -> None:
    """Does what `output.backward(gradient)` does, without importing torch's symbolic shapes.

    Torch imports them to compare the two shapes, which takes about a second in each process. If a
    version of torch has no engine that can be called directly, `output.backward` is called.

    Args:
        output: Any shape, part of a graph.
        gradient: Derivative of the loss by the output, same shape and data type.
    """
    if _run_backward is None:
        output.backward(gradient)  # type: ignore[no-untyped-call]
        return
    _run_backward(
        (output,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
