"""Controls: PPO on a reward that tells it nothing.

A method that scores well may owe that to the environment. Where episodes end early, a positive
reward teaches to survive and a negative one to leave, whatever is done meanwhile; and optimization
alone, without any reward, moves a policy away from chance. What these learners score is what an
environment gives away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.adversarial.generator import make_generator
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Task
from imitbench.bench.learners.reward_learner import RewardLearner

if TYPE_CHECKING:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecEnv

    from imitbench.data.types import TrajectoryWithRew

Array = npt.NDArray[Any]


class ConstantReward:
    """PPO on the same reward for every step.

    Args:
        ppo: The algorithm; its environment is replaced.
        venv: Where it acts; its own rewards are not seen.
        reward: The reward.
    """

    def __init__(self, ppo: PPO, venv: VecEnv, reward: float) -> None:
        self._ppo = ppo
        self._reward = reward
        ppo.set_logger(silent_logger())
        self._generator = make_generator(ppo, venv, self)

    def __call__(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Rewards of transitions, shape (n,), float32."""
        return np.full(len(state), self._reward, dtype=np.float32)

    def train(self, steps: int) -> None:
        """Trains for so many environment steps."""
        self._generator.learn(steps, log_interval=None)

    @property
    def policy(self) -> BasePolicy:
        """PPO's policy."""
        return self._ppo.policy

    def state_dict(self) -> dict[str, Any]:
        """State of PPO, and of the rewards' bookkeeping."""
        return self._generator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._generator.load_state_dict(state)


class _Control(RewardLearner[ConstantReward]):
    """Learns from neither demonstrations nor an expert nor the environment's reward."""

    constant: float

    def _make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> ConstantReward:
        return ConstantReward(self._ppo, self._episodes, self.constant)

    def _train_round(self, steps: int) -> dict[str, float]:
        self._trainer.train(steps)
        return self._episodes.pop()


class ZeroRewardLearner(_Control):
    """Reward 0 for every step."""

    constant = 0.0


class ConstantPlusLearner(_Control):
    """Reward +1 for every step: to survive is all that is taught."""

    constant = 1.0


class ConstantMinusLearner(_Control):
    """Reward -1 for every step: to end the episode is all that is taught."""

    constant = -1.0
