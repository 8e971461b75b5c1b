"""What a checkpoint of DAgger says about its BC trainer and its schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.bc import BC
from imitbench.algorithms.dagger_collect import (
    BetaSchedule,
    ExponentialBetaSchedule,
    LinearBetaSchedule,
)
from imitbench.errors import InputError
from imitbench.util.logger import HierarchicalLogger

CHECKPOINT = {"format": "imitbench-dagger", "version": 1}
"""Entries of every checkpoint."""

_SCHEDULES: dict[str, type[BetaSchedule]] = {
    "LinearBetaSchedule": LinearBetaSchedule,
    "ExponentialBetaSchedule": ExponentialBetaSchedule,
}


def describe_bc(trainer: BC) -> dict[str, Any]:
    """The settings that `rebuild_bc` needs in addition to policy and state.

    Raises:
        ValueError: The optimizer is not a class of `torch.optim`, or the policy has another head
            than those of `BC`.
    """
    if not isinstance(trainer.policy, ActorCriticPolicy):
        raise ValueError(
            f"bc_trainer: a {type(trainer.policy).__name__} cannot be saved with its trainer; "
            "save state_dict() and save_policy() instead"
        )
    name = type(trainer.optimizer).__name__
    if getattr(th.optim, name, None) is not type(trainer.optimizer):
        raise ValueError(f"bc_trainer: optimizer {name} is not of torch.optim; it cannot be saved")
    return {
        "batch_size": trainer.batch_size,
        "minibatch_size": trainer.minibatch_size,
        "ent_weight": trainer.loss_calculator.ent_weight,
        "l2_weight": trainer.loss_calculator.l2_weight,
        "optimizer": name,
    }


def rebuild_bc(
    description: Mapping[str, Any],
    policy: ActorCriticPolicy,
    rng: np.random.Generator,
    device: str | th.device,
    logger: HierarchicalLogger,
) -> BC:
    """Builds a trainer from its settings; the caller restores the state.

    Raises:
        InputError: The description is not from `describe_bc`.
    """
    options = dict(description)
    name = options.pop("optimizer", None)
    optimizer = getattr(th.optim, name, None) if isinstance(name, str) else None
    if not (isinstance(optimizer, type) and issubclass(optimizer, th.optim.Optimizer)):
        raise InputError(f"checkpoint: {name!r} is not an optimizer of torch.optim")
    # The optimizer's state holds the learning rate; some classes require one here.
    return BC(
        observation_space=policy.observation_space,
        action_space=policy.action_space,
        rng=rng,
        policy=policy,
        optimizer_cls=optimizer,
        optimizer_kwargs={"lr": 1e-3},
        device=device,
        custom_logger=logger,
        **options,
    )


def describe_schedule(schedule: Callable[[int], float]) -> dict[str, Any] | None:
    """A schedule of this package as JSON values; `None` for any other."""
    name = type(schedule).__name__
    if _SCHEDULES.get(name) is not type(schedule):
        return None
    return {"class": name, "arguments": dict(vars(schedule))}


def rebuild_schedule(description: Mapping[str, Any] | None) -> BetaSchedule:
    """Inverse of `describe_schedule`.

    Raises:
        ValueError: There is no description, because the schedule is not of this package.
        InputError: The description is malformed.
    """
    if description is None:
        raise ValueError("beta_schedule: the saved trainer had a custom one; pass it again")
    try:
        return _SCHEDULES[description["class"]](**description["arguments"])
    except (KeyError, TypeError) as error:
        raise InputError(f"checkpoint: not a beta schedule: {description!r}") from error
