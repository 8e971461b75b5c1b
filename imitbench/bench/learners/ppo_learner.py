"""PPO in the harness, on a given reward function or on the environment's reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.adversarial.generator import Experience, make_generator
from imitbench.bench.curve import pop_learned_return, silent_logger
from imitbench.bench.learner import Task
from imitbench.bench.learners.reward_learner import RewardLearner
from imitbench.rewards.reward_function import RewardFn
from imitbench.rl.ppo import PPO

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


class _PPOTrainer:
    """PPO, optionally with a reward function that replaces the environment's reward."""

    def __init__(self, ppo: PPO, venv: VecEnv, reward_fn: RewardFn | None) -> None:
        self.ppo = ppo
        ppo.set_logger(silent_logger())
        self.generator = make_generator(ppo, venv, reward_fn)

    def train(self, steps: int) -> None:
        """Trains for `steps` environment steps."""
        self.generator.learn(steps, log_interval=None)

    def end_round(self, experience: Experience) -> None:
        """Does nothing: the reward is fixed, and episodes may differ in length."""

    @property
    def policy(self) -> BasePolicy:
        """PPO's policy."""
        return self.ppo.policy

    def state_dict(self) -> dict[str, Any]:
        """State of PPO and of the reward's generator."""
        return self.generator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.generator.load_state_dict(state)


class PPOLearner(RewardLearner[_PPOTrainer]):
    """PPO; a subclass may create the reward from the demonstrations.

    Args:
        reward_fn: Reward function; `None` for the environment's reward.
    """

    def __init__(self, reward_fn: RewardFn | None = None) -> None:
        self._reward_fn = reward_fn

    def make_reward(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> RewardFn | None:
        """Returns the reward, which is fixed while the policy is trained.

        Args:
            task: Environment and hyper-parameters.
            demos: Expert episodes, whose rewards must not be used.
            rng: Source of all randomness.

        Returns:
            A function of transitions, or `None` for the environment's reward.
        """
        del task, demos, rng
        return self._reward_fn

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> _PPOTrainer:
        """Creates PPO on the reward, or on the learned one that the task gives."""
        reward_fn = task.reward or self.make_reward(task, demos, rng)
        return _PPOTrainer(self.ppo, self.episodes, reward_fn)

    def train_round(self, steps: int) -> dict[str, float]:
        """Trains for one rollout."""
        self.trainer.train(steps)
        return self.latest_metrics()

    def latest_metrics(self) -> dict[str, float]:
        """Returns metrics of the latest rollout for the curve."""
        metrics = super().latest_metrics()
        if self.task.reward is None:
            return metrics
        return metrics | pop_learned_return(self.trainer.generator.learned_returns)
