"""Off-policy algorithms in the harness: what SQIL and plain reinforcement learning share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.episode_log import EpisodeLog
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.rollout_report import RolloutReport
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.rl.algorithm_state import algorithm_state, load_algorithm_state
from imitbench.store.records import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

CURVE_POINTS = 40
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


class OffPolicyLearner(Learner):
    """A learner whose policy is an off-policy algorithm's; the budget is environment steps."""

    @abstractmethod
    def _make_algorithm(
        self, task: Task, demos: Sequence[TrajectoryWithRew], device: str
    ) -> OffPolicyAlgorithm:
        """The algorithm, with `self._episodes` as environment and `self._logger` to log to."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments and algorithm."""
        self._options: dict[str, Any] = dict(task.hyperparameters)
        self._n_envs: int = self._options["n_envs"]
        self._environments = make_training_environments(task.environment, self._n_envs, task.seed)
        self._episodes = EpisodeLog(self._environments)
        self._logger = silent_logger()
        self._algorithm = self._make_algorithm(task, demos, device)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` environment steps, less what does not fill a step of all."""
        amount = budget.amount // self._n_envs * self._n_envs
        algorithm = self._algorithm
        if algorithm.num_timesteps < amount:
            every = max(1, amount // CURVE_POINTS)
            report = RolloutReport(self._measure, every, callback, checkpoint)
            algorithm.learn(
                total_timesteps=amount - algorithm.num_timesteps,
                callback=report,
                reset_num_timesteps=False,
                log_interval=None,  # type: ignore[arg-type]  # keeps the newest losses
            )
            report.point()
        return algorithm.num_timesteps

    def _measure(self) -> dict[str, float]:
        """Episodes since the last point of the curve, and the newest losses."""
        logged = self._logger.default_logger.name_to_value
        losses = {name: float(logged[name]) for name in _LOSSES if name in logged}
        return {**self._episodes.pop(), **losses}

    def policy(self) -> BasePolicy:
        """The greedy policy of DQN, or SAC's."""
        return self._algorithm.policy

    def state_dict(self) -> dict[str, Any]:
        """State between two updates."""
        return {
            "algorithm": algorithm_state(self._algorithm),
            "environments": episode_states(self._environments),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        restore_episodes(self._environments, state["environments"])
        load_algorithm_state(self._algorithm, state["algorithm"])


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
