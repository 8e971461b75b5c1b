"""The learner for soft Q imitation learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import stable_baselines3 as sb3
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from imitbench.algorithms.sqil import SQIL
from imitbench.bench.learner import Task
from imitbench.bench.learners.algorithm_learner import OffPolicyLearner, algorithm_arguments

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


class SQILLearner(OffPolicyLearner):
    """SQIL with DQN for discrete actions, else with SAC."""

    def make_algorithm(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> OffPolicyAlgorithm:
        """Creates SQIL's algorithm, with the demonstrations in its replay buffer."""
        discrete = isinstance(task.action_space, spaces.Discrete)
        sqil = SQIL(
            venv=self.episodes,
            demonstrations=demos,
            policy="MlpPolicy",
            rl_algo_class=sb3.DQN if discrete else sb3.SAC,
            rl_kwargs=algorithm_arguments(self.options, task.seed, device, discrete=discrete),
            custom_logger=self.logger,
            lean=self.options["lean"],
        )
        return sqil.rl_algo
