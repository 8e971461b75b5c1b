"""The PPO that methods with a learnt reward train their policy by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import VecEnv

from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.rl.ppo import PPO
from imitbench.util.networks import RunningNorm

_ARGUMENTS = (
    "n_steps",
    "batch_size",
    "n_epochs",
    "learning_rate",
    "gamma",
    "gae_lambda",
    "clip_range",
    "ent_coef",
    "vf_coef",
)


def make_ppo(venv: VecEnv, options: Mapping[str, Any], seed: int, device: str) -> SB3PPO:
    """Builds PPO from a card's hyper-parameters.

    Args:
        venv: Where it acts.
        options: Those that it takes by the same name; `hidden_size`, `hidden_layers` and
            `normalize_observations` of the policy; and `lean_ppo`.
        seed: Its seed.
        device: `cpu` or `cuda`.
    """
    algorithm: type[SB3PPO] = PPO if options["lean_ppo"] else SB3PPO
    policy_kwargs: dict[str, Any] = {
        "net_arch": [options["hidden_size"]] * options["hidden_layers"]
    }
    if options["normalize_observations"]:
        policy_kwargs |= {
            "features_extractor_class": NormalizeFeaturesExtractor,
            "features_extractor_kwargs": {"normalize_class": RunningNorm},
        }
    return algorithm(
        "MlpPolicy",
        venv,
        seed=seed,
        device=device,
        policy_kwargs=policy_kwargs,
        **{name: options[name] for name in _ARGUMENTS},
    )


def set_learning_rate(algorithm: SB3PPO, options: Mapping[str, Any], spent: float) -> None:
    """Sets PPO's step size for a round.

    PPO itself knows of one round only, so its own schedules do not reach over a whole budget.

    Args:
        algorithm: The algorithm.
        options: `learning_rate` and `learning_rate_decay` are used.
        spent: Share of the budget before the round.
    """
    rate: float = options["learning_rate"]
    if options["learning_rate_decay"] == "linear":
        rate *= 1.0 - spent
    algorithm.lr_schedule = FloatSchedule(rate)


def count_rounds(amount: int, steps: int) -> int:
    """How many rounds of so many environment steps fit into a budget.

    Raises:
        ValueError: Not one does.
    """
    if amount < steps:
        raise ValueError(
            f"a budget of {amount} environment steps is less than a single round of {steps}; "
            "lower n_envs or n_steps"
        )
    return amount // steps
