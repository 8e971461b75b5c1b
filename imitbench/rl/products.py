"""Products of matrices on one thread, by whichever library is the faster for their size.

Torch multiplies with the MKL, which does not use all that some processors can do, and with
oneDNN, which does but takes longer to get going. The choice depends on sizes alone, so that a
program gives the same numbers each time.
"""

from __future__ import annotations

import torch as th

# Multiplications from which oneDNN is worth its start.
_LARGE = 2**22


def _find_onednn() -> bool:
    """Whether this build of torch has oneDNN's linear layer, and computes with it."""
    try:
        one = th.ones(1, 1)
        return bool(th.ops.mkldnn._linear_pointwise(one, one, one[0], "none", [], "") == 2.0)
    except (AttributeError, RuntimeError):
        return False


_HAS_ONEDNN = _find_onednn()


def _by_onednn(rows: int, columns: int, depth: int) -> bool:
    return _HAS_ONEDNN and rows * columns * depth >= _LARGE


def affine(x: th.Tensor, weight: th.Tensor, bias: th.Tensor) -> th.Tensor:
    """A linear layer.

    Args:
        x: Shape (batch, inputs).
        weight: Shape (outputs, inputs).
        bias: Shape (outputs,).

    Returns:
        Shape (batch, outputs).
    """
    if _by_onednn(x.shape[0], *weight.shape):
        result: th.Tensor = th.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return result
    return th.addmm(bias, x, weight.t())


def product(a: th.Tensor, b: th.Tensor) -> th.Tensor:
    """The product of two matrices, shapes (rows, depth) and (depth, columns)."""
    if _by_onednn(a.shape[0], *b.shape):
        result: th.Tensor = th.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return th.mm(a, b)
