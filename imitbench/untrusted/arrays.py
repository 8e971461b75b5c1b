"""Checks the shapes that files declare, before any array is allocated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from imitbench.untrusted.limits import beyond, limits

_LARGEST_AXIS = 2**40


def check_shape(shape: Iterable[Any], *, rows: bool = False) -> tuple[int, ...]:
    """Checks a shape from a file.

    Args:
        shape: Sizes of the axes.
        rows: Whether the first axis counts rows, which then have at least one number each. Rows
            without numbers take no bytes, so that a file may declare any number of them.

    Returns:
        The shape.

    Raises:
        ValueError: There are too many axes, or a size is not a whole number from 0 to 2**40.
    """
    sizes = tuple(shape)
    if len(sizes) > limits().dimensions:
        raise ValueError(beyond("dimensions", f"{len(sizes):,} axes"))
    for size in sizes:
        if type(size) is not int or not 0 <= size <= _LARGEST_AXIS:
            raise ValueError(
                "declares an axis whose size is not a whole number that an array can have"
            )
    if rows and 0 in sizes[1:]:
        raise ValueError("declares rows without numbers")
    return sizes
