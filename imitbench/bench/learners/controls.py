"""Controls: PPO on a constant reward.

A high score may be due to the environment, not the method. Where episodes end early, any positive
reward teaches survival and any negative one early termination; and optimization alone, without any
reward, changes a policy. The scores of these learners show how much an environment gives without
information from the expert.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.bench.learners.ppo_learner import PPOLearner

Array = npt.NDArray[Any]


class _ConstantRewardLearner(PPOLearner):
    """Uses neither demonstrations, nor an expert, nor the environment's reward."""

    constant: float

    def __init__(self) -> None:
        super().__init__(self._rewards)

    def _rewards(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Rewards of transitions, shape (n,), float32."""
        return np.full(len(state), self.constant, dtype=np.float32)


class ZeroRewardLearner(_ConstantRewardLearner):
    """Reward 0 for every step."""

    constant = 0.0


class ConstantPlusLearner(_ConstantRewardLearner):
    """Reward +1 for every step: only survival is rewarded."""

    constant = 1.0


class ConstantMinusLearner(_ConstantRewardLearner):
    """Reward -1 for every step: only early termination is rewarded."""

    constant = -1.0
