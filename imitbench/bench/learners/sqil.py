"""Soft Q imitation learning in the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3 as sb3
from gymnasium import spaces

from imitbench.algorithms.sqil import SQIL
from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.episode_log import EpisodeLog
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.rollout_report import RolloutReport
from imitbench.data.resumable_env import episode_states, restore_episodes
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
_DQN_ARGUMENTS = ("target_update_interval", "exploration_fraction", "exploration_final_eps")


class SQILLearner(Learner):
    """Off-policy learning with reward 1 for the expert's actions: DQN, or SAC for a box."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments and algorithm."""
        options: dict[str, Any] = dict(task.hyperparameters)
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        self._n_envs: int = options["n_envs"]
        self._logger = silent_logger()
        discrete = isinstance(task.action_space, spaces.Discrete)
        names = _ARGUMENTS + (_DQN_ARGUMENTS if discrete else ())
        self._sqil = SQIL(
            venv=self._episodes,
            demonstrations=demos,
            policy="MlpPolicy",
            rl_algo_class=sb3.DQN if discrete else sb3.SAC,
            rl_kwargs={
                **{name: options[name] for name in names},
                "seed": task.seed,
                "device": device,
                "policy_kwargs": {"net_arch": [options["hidden_size"]] * options["hidden_layers"]},
            },
            custom_logger=self._logger,
            lean=options["lean"],
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` environment steps, less what does not fill a step of all."""
        amount = budget.amount // self._n_envs * self._n_envs
        algorithm = self._sqil.rl_algo
        if algorithm.num_timesteps < amount:
            every = max(1, amount // CURVE_POINTS)
            report = RolloutReport(self._measure, every, callback, checkpoint)
            self._sqil.train(
                total_timesteps=amount - algorithm.num_timesteps,
                callback=report,
                reset_num_timesteps=False,
                log_interval=None,  # keeps the newest losses for the next point
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
        return self._sqil.policy

    def state_dict(self) -> dict[str, Any]:
        """State between two updates."""
        return {
            "sqil": self._sqil.state_dict(),
            "environments": episode_states(self._environments),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        restore_episodes(self._environments, state["environments"])
        self._sqil.load_state_dict(state["sqil"])
