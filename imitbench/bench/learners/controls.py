"""Controls: PPO on a reward that tells it nothing.

A method that scores well may owe that to the environment. Where episodes end early, a positive
reward teaches to survive and a negative one to leave, whatever is done meanwhile; and optimization
alone, without any reward, moves a policy away from chance. What these learners score is what an
environment gives away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.bench.learners.ppo_learner import PPOLearner

Array = npt.NDArray[Any]


class _Control(PPOLearner):
    """Learns from neither demonstrations nor an expert nor the environment's reward."""

    constant: float

    def __init__(self) -> None:
        super().__init__(self._rewards)

    def _rewards(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Rewards of transitions, shape (n,), float32."""
        return np.full(len(state), self.constant, dtype=np.float32)


class ZeroRewardLearner(_Control):
    """Reward 0 for every step."""

    constant = 0.0


class ConstantPlusLearner(_Control):
    """Reward +1 for every step: to survive is all that is taught."""

    constant = 1.0


class ConstantMinusLearner(_Control):
    """Reward -1 for every step: to end the episode is all that is taught."""

    constant = -1.0
