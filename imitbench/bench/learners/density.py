"""Density-based reward modelling in the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.density import DensityAlgorithm, DensityType
from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.episode_log import EpisodeLog
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.ppo_policy import count_rounds, make_ppo, set_learning_rate
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.store.records import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

_TYPES = {
    "state": DensityType.STATE_DENSITY,
    "state_action": DensityType.STATE_ACTION_DENSITY,
    "state_state": DensityType.STATE_STATE_DENSITY,
}


class DensityLearner(Learner):
    """Fits a density to the demonstrations, then trains PPO on its logarithm."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, PPO and the density."""
        self._options: dict[str, Any] = dict(task.hyperparameters)
        options = self._options
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        self._rounds = 0
        self._logger = silent_logger()
        self._ppo = make_ppo(self._episodes, options, task.seed, device)
        self._density = DensityAlgorithm(
            demonstrations=demos,
            venv=self._episodes,
            rng=rng,
            density_type=_TYPES[options["density_type"]],
            kernel=options["kernel"],
            kernel_bandwidth=options["kernel_bandwidth"],
            is_stationary=options["is_stationary"],
            standardise_inputs=options["standardise_inputs"],
            rl_algo=self._ppo,
            allow_variable_horizon=task.environment.horizon == "variable",
            custom_logger=self._logger,
        )
        self._density.train()

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for as many rollouts as fit into `budget.amount` environment steps.

        Raises:
            ValueError: Not one does.
        """
        steps = self._ppo.n_steps * self._ppo.n_envs
        rounds = count_rounds(budget.amount, steps)
        while self._rounds < rounds:
            set_learning_rate(self._ppo, self._options, self._rounds / rounds)
            # Without an interval nothing is dumped, so that the newest values can be read.
            self._density.train_policy(steps, log_interval=None)
            self._rounds += 1
            callback(self._rounds * steps, self._measure())
            checkpoint()
        return self._rounds * steps

    def _measure(self) -> dict[str, float]:
        """Episodes since the last point of the curve: their true returns, and the learnt ones."""
        episodes = self._episodes.pop()
        if episodes:
            learnt = self._logger.default_logger.name_to_value["rollout/ep_rew_wrapped_mean"]
            episodes["rollout/log_density_mean"] = float(learnt)
        return episodes

    def policy(self) -> BasePolicy:
        """PPO's policy."""
        return self._density.policy

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a rollout."""
        return {
            "density": self._density.state_dict(),
            "environments": episode_states(self._environments),
            "rounds": self._rounds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._density.load_state_dict(state["density"])
        restore_episodes(self._environments, state["environments"])
        self._rounds = state["rounds"]
