"""The learner for density-based reward modeling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from imitbench.algorithms.density import DensityAlgorithm, DensityType
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Task
from imitbench.bench.learners.reward_learner import RewardLearner

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

_TYPES = {
    "state": DensityType.STATE_DENSITY,
    "state_action": DensityType.STATE_ACTION_DENSITY,
    "state_state": DensityType.STATE_STATE_DENSITY,
}


class DensityLearner(RewardLearner[DensityAlgorithm]):
    """Fits a density to the demonstrations, then trains PPO on its logarithm."""

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> DensityAlgorithm:
        """Creates the algorithm and fits its density."""
        options = self.options
        density = DensityAlgorithm(
            demonstrations=demos,
            venv=self.episodes,
            rng=rng,
            density_type=_TYPES[options["density_type"]],
            kernel=options["kernel"],
            kernel_bandwidth=options["kernel_bandwidth"],
            is_stationary=options["is_stationary"],
            standardise_inputs=options["standardise_inputs"],
            rl_algo=self.ppo,
            allow_variable_horizon=task.environment.horizon == "variable",
            custom_logger=silent_logger(),
        )
        density.train()
        return density

    def reward(self) -> RewardNet | None:
        """The logarithm of the density; `None` if each time step has its own."""
        return self.trainer.reward_net() if self.options["is_stationary"] else None

    def train_round(self, steps: int) -> dict[str, float]:
        """Trains PPO for one rollout."""
        # Without a log interval nothing is dumped, so the latest values stay readable.
        self.trainer.train_policy(steps, log_interval=None)
        return self.latest_metrics()

    def latest_metrics(self) -> dict[str, float]:
        """Returns metrics of the latest rollout, with the mean logarithm of the density."""
        episodes = self.episodes.pop()
        if episodes:
            logged = self.trainer.logger.default_logger.name_to_value
            episodes["rollout/log_density_mean"] = float(logged["rollout/ep_rew_wrapped_mean"])
        return episodes
