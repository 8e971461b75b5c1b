"""Gradients in closed form, handed to autograd."""

from __future__ import annotations

import torch as th

_run_backward = getattr(th.autograd.graph, "_engine_run_backward", None)


def backward_from(output: th.Tensor, gradient: th.Tensor) -> None:
    """Does what `output.backward(gradient)` does, without loading the tools for symbolic shapes.

    Torch imports them to compare the two shapes, which takes every process a second. Where its
    engine cannot be called without that, it is left to do so.

    Args:
        output: Any shape, with a graph behind it.
        gradient: Derivative of the loss by the output, same shape and data type.
    """
    if _run_backward is None:
        output.backward(gradient)  # type: ignore[no-untyped-call]
        return
    _run_backward(
        (output,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
