"""Off-policy algorithms in the harness: what SQIL and plain reinforcement learning share."""

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
"""Those that SAC has not."""


class OffPolicyLearner(AlgorithmLearner):
    """A learner whose policy is an off-policy algorithm's; its curve has the newest losses."""

    def _measure(self) -> dict[str, float]:
        logged = self.logger.default_logger.name_to_value
        losses = {name: float(logged[name]) for name in _LOSSES if name in logged}
        return {**super()._measure(), **losses}


def algorithm_arguments(
    options: Mapping[str, Any], seed: int, device: str, *, discrete: bool
) -> dict[str, Any]:
    """Arguments of DQN, or of SAC, from a card's hyper-parameters.

    Args:
        options: Those that it takes by the same name; `hidden_size` and `hidden_layers`.
        seed: Its seed.
        device: `cpu` or `cuda`.
        discrete: Whether it is DQN.
    """
    names = _ARGUMENTS + (DQN_ARGUMENTS if discrete else ())
    return {
        **{name: options[name] for name in names},
        "seed": seed,
        "device": device,
        "policy_kwargs": {"net_arch": [options["hidden_size"]] * options["hidden_layers"]},
    }
