"""What policies that plan several actions have in common: a history, and plans that are used up."""

from __future__ import annotations

from collections.abc import Callable

import torch as th


def remember(past: th.Tensor, new: th.Tensor, at_start: th.Tensor) -> th.Tensor:
    """Adds an observation to each history; at the start of an episode it fills all of it.

    Args:
        past: Histories, the latest observation last, shape (n, history, …).
        new: Observations, shape (n, …).
        at_start: Whether an episode begins with this observation, shape (n,), bool.

    Returns:
        The histories with the new observations, shape (n, history, …).
    """
    latest = new.unsqueeze(1)
    later = th.cat([past[:, 1:], latest], dim=1)
    first = at_start.reshape(-1, *[1] * (later.ndim - 1))
    return th.where(first, latest.expand_as(later), later)


def next_actions(
    plans: th.Tensor, taken: th.Tensor, plan: Callable[[th.Tensor], th.Tensor]
) -> tuple[th.Tensor, th.Tensor]:
    """Takes the next action of each plan, and plans again where all were taken.

    Args:
        plans: Actions of the plans that are carried out, shape (n, executed, action size).
        taken: Steps since the first plan of the episode, shape (n,), int64.
        plan: Plans where an array of shape (n,), bool, says so: shape (count, executed, action
            size).

    Returns:
        The actions, shape (n, action size), and the plans.
    """
    used = taken % plans.shape[1]
    due = used == 0
    if due.any():
        plans = plans.clone()
        plans[due] = plan(due)
    return plans[th.arange(len(plans), device=plans.device), used], plans
