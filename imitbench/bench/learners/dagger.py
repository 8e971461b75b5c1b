"""The learner for DAgger."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.bc import BC
from imitbench.algorithms.dagger import CollectedRound, LinearBetaSchedule, SimpleDAggerTrainer
from imitbench.algorithms.gated_dagger import GatedDAgger
from imitbench.algorithms.human_gated_dagger import HumanGatedDAgger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.bc import make_clone_policy
from imitbench.records.runs import Budget
from imitbench.util.logger import HierarchicalLogger

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

_LOG_INTERVAL = 50
_LOSSES = (
    "bc/loss",
    "bc/neglogp",
    "bc/entropy",
    "bc/prob_true_act",
    "bc/head_loss",
    "bc/action_error",
)


class DAggerLearner(Learner):
    """Queries the expert in the states that the learner visits, and clones its actions."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, policy and trainer.

        Raises:
            ValueError: The task has no expert.
        """
        self._options: dict[str, Any] = dict(task.hyperparameters)
        options = self._options
        venv = make_training_environments(task.environment, options["n_envs"], task.seed)
        self._losses = _LossMeans()
        self._env_steps: int = 0
        self._last_round = 0
        logger = HierarchicalLogger(
            Logger(folder=None, output_formats=[self._losses]), format_strs=[]
        )
        bc = {
            "rng": rng,
            "batch_size": options["batch_size"],
            "optimizer_kwargs": {"lr": options["learning_rate"]},
            "l2_weight": options["l2_weight"],
            "device": device,
            "custom_logger": logger,
        }
        self._dagger = self.make_trainer(
            task,
            bc,
            venv=venv,
            rng=rng,
            custom_logger=logger,
        )

    def make_trainer(
        self, task: Task, bc: Mapping[str, Any], **shared: Any
    ) -> SimpleDAggerTrainer | GatedDAgger | HumanGatedDAgger:
        """Creates the trainer with its policy and its expert.

        Args:
            task: Spaces and hyper-parameters.
            bc: Arguments of `BC` and of its subclasses.
            **shared: Arguments of every trainer.

        Raises:
            ValueError: The task has no expert.
        """
        options: dict[str, Any] = dict(task.hyperparameters)
        # The state includes demonstrations, so the working folder may end with the process.
        self._folder = tempfile.TemporaryDirectory(prefix="imitbench-dagger-")
        return SimpleDAggerTrainer(
            scratch_dir=self._folder.name,
            beta_schedule=LinearBetaSchedule(options["beta_rampdown_rounds"]),
            bc_trainer=make_cloner(task, bc),
            expert_policy=expert_of(task),
            **shared,
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Runs rounds within `budget.amount` environment steps.

        The first round always runs. Then training stops before a round that would exceed the budget
        if it took as many steps as the last one. With episodes of fixed length, only the first
        round can exceed the budget; with others, a later one can by less than a round.
        """
        while self._needs_round(budget):
            collected = self._dagger.train_round(
                rollout_round_min_episodes=self._options["rollout_round_min_episodes"],
                rollout_round_min_timesteps=self._round_timesteps(budget),
                bc_train_kwargs={
                    "n_epochs": self._options["bc_epochs"],
                    "log_interval": _LOG_INTERVAL,
                    "log_rollouts_venv": None,  # the budget does not count its steps
                    "progress_bar": False,
                },
                timesteps_before=self._env_steps,
            )
            if not collected.trajectories:  # a person wanted no further round
                break
            self._last_round = collected.env_steps
            self._env_steps += collected.env_steps
            callback(self._env_steps, {**self.describe(collected), **self._losses.pop()})
            checkpoint()
        return self._env_steps

    def _needs_round(self, budget: Budget) -> bool:
        return not self._env_steps or self._env_steps + self._last_round <= budget.amount

    def describe(self, collected: CollectedRound) -> dict[str, float]:
        """Returns what the curve has of a round, apart from losses."""
        episodes = collected.trajectories
        mean = float(np.mean([t.rews.sum() for t in episodes]))
        return {
            # True rewards are hidden from methods outside this package.
            **({} if math.isnan(mean) else {"rollout/return_mean": mean}),
            "rollout/length_mean": float(np.mean([len(t) for t in episodes])),
            **self._ends(episodes),
            "dagger/beta": collected.beta,
        }

    def _ends(self, episodes: Sequence[TrajectoryWithRew]) -> dict[str, float]:
        cut = [bool(t.infos is not None and t.infos[-1]["TimeLimit.truncated"]) for t in episodes]
        return {"rollout/termination_rate": 1.0 - float(np.mean(cut))}

    def _round_timesteps(self, budget: Budget) -> int:
        """Least steps of a round: limits the number of rounds, as each trains on all data."""
        rounds: int = self._options["max_rounds"]
        least: int = self._options["rollout_round_min_timesteps"]
        return max(math.ceil(budget.amount / rounds), least)

    def policy(self) -> BasePolicy:
        """The cloned policy."""
        return self._dagger.policy

    def measures(self) -> dict[str, float]:
        """What the training cost the expert, which is asked at every step."""
        return {"expert_queries": float(self._env_steps)}

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round; the next one seeds the environments."""
        return {
            "trainer": self._dagger.state_dict(),
            "env_steps": self._env_steps,
            "last_round": self._last_round,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._dagger.load_state_dict(state["trainer"])
        self._env_steps = state["env_steps"]
        self._last_round = state["last_round"]


class _LossMeans(KVWriter):
    """Means of the losses that were logged since the last `pop`."""

    def __init__(self) -> None:
        self._logged: dict[str, list[float]] = {}

    def write(
        self,
        key_values: dict[str, Any],
        key_excluded: dict[str, tuple[str, ...]],
        step: int = 0,
    ) -> None:
        """Stores one point of the log."""
        for key in _LOSSES:
            if key in key_values:
                self._logged.setdefault(key, []).append(float(key_values[key]))

    def close(self) -> None:
        """Nothing to close."""

    def pop(self) -> dict[str, float]:
        """Returns the means by name."""
        logged, self._logged = self._logged, {}
        return {key: float(np.mean(values)) for key, values in logged.items()}


class _SpaceAdapter(BasePolicy):
    """A policy with spaces that differ only in their bounds."""

    def __init__(self, policy: BasePolicy, task: Task) -> None:
        super().__init__(task.observation_space, task.action_space)
        self._policy = policy

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Actions of the policy."""
        return self._policy.predict(*args, **kwargs)

    def _predict(self, observation: Any, deterministic: bool = False) -> th.Tensor:
        return self._policy._predict(observation, deterministic)


def make_cloner(task: Task, bc: Mapping[str, Any]) -> BC:
    """Creates the trainer of DAgger's policy.

    Args:
        task: Spaces and hyper-parameters.
        bc: Further arguments of `BC`.
    """
    options: dict[str, Any] = dict(task.hyperparameters)
    return BC(
        observation_space=task.observation_space,
        action_space=task.action_space,
        policy=make_clone_policy(task),
        ent_weight=options["ent_weight"],
        **bc,
    )


def expert_of(task: Task) -> BasePolicy:
    """Returns the expert; accepts other bounds, which occur between versions of an environment.

    Raises:
        ValueError: The task has no expert.
    """
    expert = task.expert
    if expert is None:
        raise ValueError("task: DAgger needs an expert")
    same = (expert.observation_space, expert.action_space) == (
        task.observation_space,
        task.action_space,
    )
    return expert if same else _SpaceAdapter(expert, task)
