"""Separates trajectories from other demonstrations without consuming an iterator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from imitbench.algorithms import base
from imitbench.data import types
from imitbench.util.util import get_first_iter_element


def split_kinds(
    demonstrations: base.AnyTransitions,
) -> tuple[
    list[types.Trajectory] | None, types.TransitionsMinimal | Iterable[types.TransitionMapping]
]:
    """Separates trajectories from transitions.

    Args:
        demonstrations: Trajectories, transitions, or an iterable of batches of transitions.

    Returns:
        The trajectories, or `None`; and all transitions or batches, with trajectories flattened.

    Raises:
        TypeError: Demonstrations of another type.
        ValueError: `demonstrations` is empty.
    """
    if isinstance(demonstrations, types.TransitionsMinimal) or not isinstance(
        demonstrations, Iterable
    ):
        return None, base.as_transitions(demonstrations)
    entries: Any = demonstrations
    try:
        first, entries = get_first_iter_element(cast(Iterable[Any], demonstrations))
    except ValueError:
        raise ValueError("demonstrations are empty") from None
    if isinstance(first, types.Trajectory):
        trajectories = cast(list[types.Trajectory], list(entries))
        return trajectories, base.as_transitions(trajectories)
    return None, base.as_transitions(entries)
