"""A learner with one algorithm of Stable-Baselines3: its environments, training and state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFrequencyUnit

from imitbench.bench.curve import EpisodeLog, silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.records.runs import Budget
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.training import algorithm_state, continue_learning, load_algorithm_state

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


class RolloutReport(BaseCallback):
    """Records points of the curve, and offers checkpoints between rollouts.

    Args:
        measure: Returns metrics since the last point.
        every: Environment steps between two points.
        callback: Records a point.
        checkpoint: Offers a checkpoint.
    """

    def __init__(
        self,
        measure: Callable[[], dict[str, float]],
        every: int,
        callback: Callback,
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__()
        self._measure = measure
        self._every = every
        self._record = callback
        self._offer = checkpoint

    def _on_training_start(self) -> None:
        self._before = self.num_timesteps

    def _on_rollout_start(self) -> None:
        # Between an update and the next steps, the state is complete.
        if self.num_timesteps // self._every > self._before // self._every:
            self.point()
            self._before = self.num_timesteps
            self._offer()

    def _on_step(self) -> bool:
        return True

    def point(self) -> None:
        """Records metrics since the last point."""
        self._record(self.num_timesteps, self._measure())


CURVE_POINTS = 40


class AlgorithmLearner(Learner):
    """A learner whose policy is one algorithm's; the budget is in environment steps.

    Steps `n_envs` (default 1) environments in parallel.

    Attributes:
        options: Every hyper-parameter by name.
        episodes: The training environments, which keep the returns of their episodes.
        logger: Receives what the algorithm logs, and writes nothing.
    """

    _rollout_options = "n_envs or train_freq"
    """Hyper-parameters to lower if not one rollout fits into the budget."""

    @abstractmethod
    def make_algorithm(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> BaseAlgorithm:
        """Creates the algorithm, which acts in `self.episodes`; arguments as in `setup`."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments and algorithm."""
        self.options: dict[str, Any] = dict(task.hyperparameters)
        self._n_envs: int = self.options.get("n_envs", 1)
        self._environments = make_training_environments(task.environment, self._n_envs, task.seed)
        self.episodes = EpisodeLog(self._environments)
        self.logger = silent_logger()
        self._algorithm = self.make_algorithm(task, demos, rng, device)
        self._algorithm.set_logger(self.logger)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for as many whole rollouts as fit into the budget.

        Raises:
            ValueError: The budget is less than one rollout, or ends before the first update.
        """
        algorithm = self._algorithm
        unit = self._n_envs * _steps_of_rollout(algorithm)
        total = budget.amount // unit * unit
        if total == 0:
            raise ValueError(
                f"a budget of {budget.amount} environment steps is less than a single rollout of "
                f"{unit}; lower {self._rollout_options}"
            )
        check_updates(budget, total <= getattr(algorithm, "learning_starts", 0))
        if algorithm.num_timesteps < total:
            every = max(1, total // CURVE_POINTS)
            report = RolloutReport(self._measure, every, callback, checkpoint)
            # One call, because the algorithm's schedules cover the steps of a call. Without a log
            # interval nothing is written, and the latest losses stay in the logger.
            steps = total - algorithm.num_timesteps
            continue_learning(algorithm, steps, report, {"log_interval": None})
            report.point()
        return algorithm.num_timesteps

    def _measure(self) -> dict[str, float]:
        """Metrics for a point of the curve: of episodes since the last point."""
        return self.episodes.pop()

    def policy(self) -> BasePolicy:
        """The algorithm's policy."""
        policy: BasePolicy = self._algorithm.policy
        return policy

    def state_dict(self) -> dict[str, Any]:
        """State of algorithm and environments, between two rollouts."""
        return {
            "algorithm": algorithm_state(self._algorithm),
            "environments": episode_states(self._environments),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        restore_episodes(self._environments, state["environments"])
        load_algorithm_state(self._algorithm, state["algorithm"])


class LearnedRewardLearner(Learner):
    """Adds the state of an environment whose rewards are learned ones; the first base class.

    Attributes:
        rewarded: That environment; `None` if the rewards are the environment's own.
    """

    rewarded: RewardVecEnvWrapper | None = None

    def state_dict(self) -> dict[str, Any]:
        """State of the other base class, and of what replaces the rewards."""
        # What follows in the order of bases is a whole learner, which is what mypy cannot know.
        state = super().state_dict()  # type: ignore[safe-super]
        if self.rewarded is not None:
            state["rewarded"] = self.rewarded.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)  # type: ignore[safe-super]
        if self.rewarded is not None:
            self.rewarded.load_state_dict(state["rewarded"])


def _steps_of_rollout(algorithm: BaseAlgorithm) -> int:
    """Steps of each environment between two updates; 1 if updates are per episode."""
    if isinstance(algorithm, OnPolicyAlgorithm):
        return algorithm.n_steps
    frequency: Any = getattr(algorithm, "train_freq", 1)
    unit = getattr(frequency, "unit", None)
    if unit is not None:
        return int(frequency.frequency) if unit == TrainFrequencyUnit.STEP else 1
    return int(frequency)


_ARGUMENTS = (
    "learning_rate",
    "buffer_size",
    "learning_starts",
    "batch_size",
    "gamma",
    "train_freq",
    "gradient_steps",
)
_LOSSES = ("train/loss", "train/actor_loss", "train/critic_loss", "train/ent_coef")
DQN_ARGUMENTS = ("target_update_interval", "exploration_fraction", "exploration_final_eps")
"""Arguments that SAC does not have."""


class OffPolicyLearner(AlgorithmLearner):
    """A learner with an off-policy algorithm; its curve has the latest losses."""

    def _measure(self) -> dict[str, float]:
        logged = self.logger.default_logger.name_to_value
        losses = {name: float(logged[name]) for name in _LOSSES if name in logged}
        return {**super()._measure(), **losses}


def check_updates(budget: Budget, none: bool) -> None:
    """Refuses a budget in which a method would only act at random.

    Args:
        budget: In environment steps.
        none: Whether it ends before the first update.

    Raises:
        ValueError: It does.
    """
    if none:
        raise ValueError(
            f"a budget of {budget.amount} environment steps ends before the first update; lower "
            "learning_starts"
        )


def algorithm_arguments(
    options: Mapping[str, Any], seed: int, device: str, *, discrete: bool
) -> dict[str, Any]:
    """Returns arguments of DQN or SAC from a card's hyper-parameters.

    Args:
        options: Hyper-parameters named as the arguments, `hidden_size` and `hidden_layers`.
        seed: Seed of the algorithm.
        device: `cpu` or `cuda`.
        discrete: Whether to return those of DQN.
    """
    names = _ARGUMENTS + (DQN_ARGUMENTS if discrete else ())
    return {
        **{name: options[name] for name in names},
        "seed": seed,
        "device": device,
        "policy_kwargs": {"net_arch": [options["hidden_size"]] * options["hidden_layers"]},
    }
