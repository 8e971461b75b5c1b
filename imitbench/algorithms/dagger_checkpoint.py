"""What a checkpoint of DAgger says about the trainer, so that it can be built again."""

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
"""What every checkpoint starts with."""

_SCHEDULES: dict[str, type[BetaSchedule]] = {
    "LinearBetaSchedule": LinearBetaSchedule,
    "ExponentialBetaSchedule": ExponentialBetaSchedule,
}


def describe_bc(trainer: BC) -> dict[str, Any]:
    """What `rebuild_bc` needs to know beside the policy and the state.

    Raises:
        ValueError: The optimizer's class is none of torch's own.
    """
    name = type(trainer.optimizer).__name__
    if getattr(th.optim, name, None) is not type(trainer.optimizer):
        raise ValueError(f"bc_trainer: its optimizer {name} is none of torch.optim")
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
    """Builds a trainer as it was described; its state is restored afterwards.

    Raises:
        InputError: The description is none of `describe_bc`.
    """
    options = dict(description)
    name = options.pop("optimizer", None)
    optimizer = getattr(th.optim, name, None) if isinstance(name, str) else None
    if not (isinstance(optimizer, type) and issubclass(optimizer, th.optim.Optimizer)):
        raise InputError(f"checkpoint: {name!r} is no optimizer of torch.optim")
    # The learning rate is part of the optimizer's state; some classes insist on being given one.
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
    """A schedule of this library as plain values; `None` for any other."""
    name = type(schedule).__name__
    if _SCHEDULES.get(name) is not type(schedule):
        return None
    return {"class": name, "arguments": dict(vars(schedule))}


def rebuild_schedule(description: Mapping[str, Any] | None) -> BetaSchedule:
    """Undoes `describe_schedule`.

    Raises:
        ValueError: There is no description, because the schedule was none of this library.
        InputError: The description is malformed.
    """
    if description is None:
        raise ValueError("beta_schedule: the trainer had one of its own; give it again")
    try:
        return _SCHEDULES[description["class"]](**description["arguments"])
    except (KeyError, TypeError) as error:
        raise InputError(f"checkpoint: no schedule: {description!r}") from error
