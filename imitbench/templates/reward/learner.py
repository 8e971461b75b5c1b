"""MyMethod: a reward from the demonstrations, and PPO on it.

Start here: replace `rewards` by your own idea. The environment's own reward is never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.adversarial.generator import make_generator
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Task
from imitbench.bench.learners.reward_learner import RewardLearner
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import TrajectoryWithRew

Array = npt.NDArray[Any]
_REFERENCES = 500
"""Expert states that others are compared with."""


class NearestExpert:
    """Rewards being where the expert has been: nearer is better.

    Args:
        states: What the expert saw, shape (n, …).
        width: Distance, in standard deviations of the expert's, at which the reward is a half.
        rng: Draws which states are kept.
    """

    def __init__(self, states: Array, width: float, rng: np.random.Generator) -> None:
        flat = states.reshape(len(states), -1).astype(np.float64)
        self._mean, self._scale = flat.mean(axis=0), flat.std(axis=0) + 1e-6
        count = min(_REFERENCES, len(flat))
        kept = flat[rng.choice(len(flat), size=count, replace=False)]
        self._kept = (kept - self._mean) / self._scale
        self._width = width

    def rewards(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        """Rewards of transitions, between 0 and 1, shape (n,): your idea goes here."""
        flat = (next_state.reshape(len(next_state), -1) - self._mean) / self._scale
        squared = (
            (flat**2).sum(axis=1)[:, None]
            - 2.0 * flat @ self._kept.T
            + (self._kept**2).sum(axis=1)[None]
        )
        nearest = np.maximum(squared.min(axis=1), 0.0)
        return np.asarray(1.0 / (1.0 + nearest / self._width**2), dtype=np.float32)


class Trainer:
    """PPO on rewards that come from a function.

    Args:
        learner: The learner, whose PPO and environments are used.
        reward: The reward.
    """

    def __init__(self, learner: MyMethod, reward: NearestExpert) -> None:
        learner._ppo.set_logger(silent_logger())
        self._generator = make_generator(learner._ppo, learner._episodes, reward.rewards)

    def train(self, steps: int) -> None:
        """Trains for so many environment steps."""
        self._generator.learn(steps, log_interval=None)

    @property
    def policy(self) -> BasePolicy:
        """PPO's policy."""
        policy: BasePolicy = self._generator.algorithm.policy
        return policy

    def state_dict(self) -> dict[str, Any]:
        """State of PPO. The reward follows from the demonstrations: it need not be kept."""
        return self._generator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._generator.load_state_dict(state)


class MyMethod(RewardLearner[Trainer]):
    """Trains PPO in rounds; environments, budget and checkpoints are the base class's."""

    def _make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> Trainer:
        states = np.asarray(flatten_trajectories(demos).next_obs)
        return Trainer(self, NearestExpert(states, self._options["width"], rng))

    def _train_round(self, steps: int) -> dict[str, float]:
        self._trainer.train(steps)
        return self._episodes.pop()
