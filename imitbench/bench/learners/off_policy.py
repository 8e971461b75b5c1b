"""Off-policy algorithms in the harness: what SQIL and reinforcement learning share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imitbench.bench.learners.algorithm_learner import AlgorithmLearner

_ARGUMENTS = (
    "learning_rate",
    "buffer_size",
    "learning_starts",
    "batch_size",
    "gamma",
    "train_freq",
    "gradient_steps",
)
_LOSSES = ("train/loss", "train/actor_loss", "train/critic_loss", "train/ent_coef")
DQN_ARGUMENTS = ("target_update_interval", "exploration_fraction", "exploration_final_eps")
"""Arguments that SAC does not have."""


class OffPolicyLearner(AlgorithmLearner):
    """A learner with an off-policy algorithm; its curve has the latest losses."""

    def _measure(self) -> dict[str, float]:
        logged = self.logger.default_logger.name_to_value
        losses = {name: float(logged[name]) for name in _LOSSES if name in logged}
        return {**super()._measure(), **losses}


def algorithm_arguments(
    options: Mapping[str, Any], seed: int, device: str, *, discrete: bool
) -> dict[str, Any]:
    """Returns arguments of DQN or SAC from a card's hyper-parameters.

    Args:
        options: Hyper-parameters named as the arguments, `hidden_size` and `hidden_layers`.
        seed: Seed of the algorithm.
        device: `cpu` or `cuda`.
        discrete: Whether to return those of DQN.
    """
    names = _ARGUMENTS + (DQN_ARGUMENTS if discrete else ())
    return {
        **{name: options[name] for name in names},
        "seed": seed,
        "device": device,
        "policy_kwargs": {"net_arch": [options["hidden_size"]] * options["hidden_layers"]},
    }
