"""Controls: PPO on a constant or a random reward.

A high score may be due to the environment, not the method. Where episodes end early, any positive
reward teaches survival and any negative one early termination; and optimization alone, without any
reward, changes a policy. The scores of these learners show how much an environment gives without
information from the expert. Their rewards are stored, so that measures of learned rewards can be
compared with what a reward has that was not learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.bench.learner import Task
from imitbench.bench.learners.ppo_learner import PPOLearner
from imitbench.bench.seeding import derive_seed
from imitbench.rewards.networks import BasicRewardNet, ConstantRewardNet
from imitbench.rewards.reward_function import RewardFn

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

Array = npt.NDArray[Any]


class _ConstantRewardLearner(PPOLearner):
    """Uses neither demonstrations, nor an expert, nor the environment's reward."""

    constant: float

    def __init__(self) -> None:
        super().__init__(self._rewards)

    def _rewards(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Rewards of transitions, shape (n,), float32."""
        return np.full(len(state), self.constant, dtype=np.float32)

    def reward(self) -> RewardNet:
        """The constant reward."""
        task = self.task
        return ConstantRewardNet(task.observation_space, task.action_space, self.constant)


class ZeroRewardLearner(_ConstantRewardLearner):
    """Reward 0 for every step."""

    constant = 0.0


class ConstantPlusLearner(_ConstantRewardLearner):
    """Reward +1 for every step: only survival is rewarded."""

    constant = 1.0


class ConstantMinusLearner(_ConstantRewardLearner):
    """Reward -1 for every step: only early termination is rewarded."""

    constant = -1.0


class RandomRewardLearner(PPOLearner):
    """A perceptron with its initial weights as the reward, drawn by the seed of the run."""

    net: RewardNet

    def make_reward(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> RewardFn:
        """Draws the network; demonstrations are not used."""
        del demos, rng
        options: dict[str, Any] = dict(task.hyperparameters)
        with th.random.fork_rng(devices=[]):
            th.manual_seed(derive_seed(task.seed, "random reward"))
            self.net = BasicRewardNet(
                task.observation_space,
                task.action_space,
                hid_sizes=[options["reward_hidden_size"]] * options["reward_hidden_layers"],
                hidden_entries=task.environment.hidden_positions or (),
            )
        return self.net.predict

    def reward(self) -> RewardNet:
        """The random reward."""
        return self.net
