"""Any algorithm of Stable-Baselines3, or of a compatible package, on a learned reward.

A method is a subclass with `make_reward`, and a card with the hyper-parameter `rl_algorithm` and
those of the algorithm, prefixed by `rl_`:

    implementation: learner:MyReward
    hyperparameters:
      rl_algorithm: {type: str, default: SAC, help: Of stable_baselines3, or module:Class.}
      rl_learning_rate: {type: float, default: 3.0e-4, help: Step size.}
      rl_learning_starts: {type: int, default: 500, help: Random steps at first.}
      n_envs: {type: int, default: 4, min: 1, help: Environments stepped together.}
"""

from __future__ import annotations

import copy
import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm

from imitbench.bench.learner import Task
from imitbench.bench.learners.algorithm_learner import AlgorithmLearner
from imitbench.errors import InputError
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

PREFIX = "rl_"


class SB3Learner(AlgorithmLearner):
    """Trains a policy by reinforcement learning on a reward that a subclass makes.

    `rl_algorithm` names the algorithm; other hyper-parameters with the prefix `rl_` are its
    arguments. `n_envs` environments are stepped in parallel; networks have two layers of
    `hidden_size` (default 64) units. The state includes the algorithm, its replay buffer, the
    environments and the reward network. An interruption loses other state of algorithms from other
    packages, which `imitbench check-algo` reports.
    """

    _rollout_options = "n_envs or rl_n_steps"

    @abstractmethod
    def make_reward(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> RewardNet:
        """Creates and trains the reward, which is fixed while the policy is trained.

        Args:
            task: Environment and hyper-parameters.
            demos: Whole expert episodes, whose rewards must not be used.
            rng: Source of all randomness.
        """

    def make_algorithm(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> BaseAlgorithm:
        """Creates the algorithm that the hyper-parameters name, on the reward."""
        self._reward = self.make_reward(task, demos, rng).to(device)
        self._rewarded = RewardVecEnvWrapper(self.episodes, self._reward.predict_processed)
        own = {
            name.removeprefix(PREFIX): value
            for name, value in self.options.items()
            if name.startswith(PREFIX) and name != f"{PREFIX}algorithm"
        }
        algorithm = find_rl_algorithm(str(self.options[f"{PREFIX}algorithm"]))
        layers = [self.options.get("hidden_size", 64)] * 2
        try:
            return algorithm(
                "MlpPolicy",
                self._rewarded,
                seed=task.seed,
                device=device,
                policy_kwargs={"net_arch": layers},
                **own,
            )
        except TypeError as error:
            raise InputError(
                f"{algorithm.__name__}: {error}; see hyper-parameters {PREFIX}…"
            ) from error

    def reward(self) -> RewardNet:
        """The learned reward."""
        return self._reward

    def state_dict(self) -> dict[str, Any]:
        """State of algorithm, environments and reward, between two rollouts."""
        return {
            **super().state_dict(),
            "rewarded": self._rewarded.state_dict(),
            "reward": copy.deepcopy(self._reward.state_dict()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._reward.load_state_dict(state["reward"])
        self._rewarded.load_state_dict(state["rewarded"])
        super().load_state_dict(state)


def find_rl_algorithm(name: str) -> type[BaseAlgorithm]:
    """Finds a class of Stable-Baselines3 by name, or any class as `module:Class`.

    Raises:
        InputError: The class does not exist or is not an algorithm.
    """
    module, colon, cls = name.rpartition(":")
    try:
        home = importlib.import_module(module) if colon else stable_baselines3
    except ImportError as error:
        raise InputError(
            f"rl_algorithm {name}: {error}; install the package that has it"
        ) from error
    found = getattr(home, cls, None)
    if not (isinstance(found, type) and issubclass(found, BaseAlgorithm)):
        raise InputError(
            f"rl_algorithm {name}: no such algorithm; use PPO, A2C, DQN, SAC, TD3, DDPG, or "
            "module:Class of another package"
        )
    return found
