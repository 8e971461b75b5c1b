"""Any algorithm of Stable-Baselines3, or of a package like it, on a learnt reward.

A method is a subclass with `make_reward`, and a card whose hyper-parameters hold `rl_algorithm`
and, prefixed by `rl_`, the algorithm's own:

    implementation: learner:MyReward
    hyperparameters:
      rl_algorithm: {type: str, default: SAC, help: Of stable_baselines3, or module:Class.}
      rl_learning_rate: {type: float, default: 3.0e-4, help: Step size.}
      rl_learning_starts: {type: int, default: 500, help: Random steps at first.}
      n_envs: {type: int, default: 4, min: 1, help: Environments stepped together.}
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFrequencyUnit

from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.episode_log import EpisodeLog
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.rollout_report import RolloutReport
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.errors import InputError
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.algorithm_state import algorithm_state, load_algorithm_state
from imitbench.rl.continued import continue_learning
from imitbench.store.records import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

PREFIX = "rl_"
CURVE_POINTS = 40


class SB3Learner(Learner):
    """Trains a policy by reinforcement learning on a reward that a subclass makes.

    Hyper-parameters with the prefix `rl_` go to the algorithm by their names without it;
    `rl_algorithm` names it, `n_envs` environments are stepped together, and `hidden_size` units
    (64) stand in each of two layers. The state is that of the algorithm, its replay buffer, the
    environments and the reward's network: whatever else an algorithm of another package keeps for
    itself is lost by an interruption, as `imitbench check-algo` will say.
    """

    @abstractmethod
    def make_reward(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> RewardNet:
        """The reward, trained; it stays as it is while the policy is trained.

        Args:
            task: What to solve.
            demos: Expert episodes.
            rng: The source of randomness.
        """

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Makes the reward, the environments and the algorithm."""
        options: dict[str, Any] = dict(task.hyperparameters)
        self._reward = self.make_reward(task, demos, rng).to(device)
        self._n_envs: int = options.get("n_envs", 1)
        self._environments = make_training_environments(task.environment, self._n_envs, task.seed)
        self._episodes = EpisodeLog(self._environments)
        self._rewarded = RewardVecEnvWrapper(self._episodes, self._reward.predict_processed)
        self._algorithm = self._make_algorithm(options, task.seed, device)
        self._algorithm.set_logger(silent_logger())

    def _make_algorithm(self, options: Mapping[str, Any], seed: int, device: str) -> BaseAlgorithm:
        own = {
            name.removeprefix(PREFIX): value
            for name, value in options.items()
            if name.startswith(PREFIX) and name != f"{PREFIX}algorithm"
        }
        algorithm = find_rl_algorithm(str(options[f"{PREFIX}algorithm"]))
        layers = [options.get("hidden_size", 64)] * 2
        try:
            return algorithm(
                "MlpPolicy",
                self._rewarded,
                seed=seed,
                device=device,
                policy_kwargs={"net_arch": layers},
                **own,
            )
        except TypeError as error:
            raise InputError(
                f"{algorithm.__name__}: {error}; see hyper-parameters {PREFIX}…"
            ) from error

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for as many environment steps as fit into the budget.

        Raises:
            ValueError: Not one rollout does.
        """
        algorithm = self._algorithm
        unit = self._n_envs * _steps_of_rollout(algorithm)
        total = budget.amount // unit * unit
        if total == 0:
            raise ValueError(
                f"a budget of {budget.amount} environment steps is less than a single rollout of "
                f"{unit}; lower n_envs or rl_n_steps"
            )
        if algorithm.num_timesteps < total:
            report = RolloutReport(
                self._episodes.pop, max(1, total // CURVE_POINTS), callback, checkpoint
            )
            # One call, because schedules of the algorithm reach over the steps of a call.
            steps = total - algorithm.num_timesteps
            continue_learning(algorithm, steps, report, {"log_interval": None})
            report.point()
        return algorithm.num_timesteps

    def policy(self) -> BasePolicy:
        """The algorithm's policy."""
        policy: BasePolicy = self._algorithm.policy
        return policy

    def reward(self) -> RewardNet:
        """The learnt reward."""
        return self._reward

    def state_dict(self) -> dict[str, Any]:
        """State of algorithm, environments and reward, between two stretches of training."""
        return {
            "algorithm": algorithm_state(self._algorithm),
            "environments": episode_states(self._environments),
            "rewarded": self._rewarded.state_dict(),
            "reward": self._reward.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._reward.load_state_dict(state["reward"])
        restore_episodes(self._environments, state["environments"])
        self._rewarded.load_state_dict(state["rewarded"])
        load_algorithm_state(self._algorithm, state["algorithm"])


def _steps_of_rollout(algorithm: BaseAlgorithm) -> int:
    """Steps of each environment between two updates; 1 for whole episodes, which have no number."""
    if isinstance(algorithm, OnPolicyAlgorithm):
        return algorithm.n_steps
    frequency: Any = getattr(algorithm, "train_freq", 1)
    unit = getattr(frequency, "unit", None)
    if unit is not None:
        return int(frequency.frequency) if unit == TrainFrequencyUnit.STEP else 1
    return int(frequency)


def find_rl_algorithm(name: str) -> type[BaseAlgorithm]:
    """A class of Stable-Baselines3 by its name, or another one as `module:Class`.

    Raises:
        InputError: There is no such class, or it is no algorithm.
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
