"""The learners for methods that learn from a replay buffer and demonstrations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.dac import DAC
from imitbench.algorithms.off_policy.iq_learn import IQLearn
from imitbench.algorithms.off_policy.ls_iq import LSIQ
from imitbench.algorithms.off_policy.hype import HyPE
from imitbench.algorithms.off_policy.pwil import PWIL
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions, OffPolicyTrainer
from imitbench.bench.curve import EpisodeLog, silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.algorithm_learner import CURVE_POINTS
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


class OffPolicyImitationLearner(Learner):
    """Trains one off-policy method; the budget is in environment steps.

    Attributes:
        options: Every hyper-parameter by name.
        trainer: The method.
    """

    options: Mapping[str, Any]
    trainer: OffPolicyTrainer

    @abstractmethod
    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method.

        Args:
            task: Environment and hyper-parameters.
            **shared: The arguments of `OffPolicyTrainer`.
        """

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments and method."""
        self.options = dict(task.hyperparameters)
        environment = task.environment
        self._environments = make_training_environments(
            environment, self.options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        self.trainer = self.make_trainer(
            task,
            venv=self._episodes,
            demonstrations=demos,
            options=shared_options(self.options),
            seeds=(int(rng.integers(2**32)),),
            device=device,
            custom_logger=silent_logger(),
            allow_variable_horizon=environment.horizon == "variable",
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for the budget, in whole steps of all environments."""
        trainer, n_envs = self.trainer, int(self.options["n_envs"])
        total = budget.amount // n_envs * n_envs
        part = max(1, total // CURVE_POINTS // n_envs) * n_envs
        while trainer.num_timesteps < total:
            logged = trainer.train(min(part, total - trainer.num_timesteps))
            callback(trainer.num_timesteps, {**self._episodes.pop(), **logged})
            checkpoint()
        return trainer.num_timesteps

    def policy(self) -> BasePolicy:
        """The agent's policy."""
        return self.trainer.policy

    def state_dict(self) -> dict[str, Any]:
        """State of method and environments, between two steps."""
        return {
            "trainer": self.trainer.state_dict(),
            "environments": episode_states(self._environments),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        restore_episodes(self._environments, state["environments"])
        self.trainer.load_state_dict(state["trainer"])


def shared_options(options: Mapping[str, Any]) -> OffPolicyOptions:
    """Returns the settings that all off-policy methods share from a card's hyper-parameters."""
    agent = AgentOptions(
        hidden_sizes=(options["hidden_size"],) * options["hidden_layers"],
        actor_learning_rate=options["actor_learning_rate"],
        critic_learning_rate=options["critic_learning_rate"],
        gamma=options["gamma"],
        tau=options["tau"],
        temperature=options["temperature"],
        learn_temperature=options["learn_temperature"],
        n_critics=options.get("n_critics", 2),
    )
    return OffPolicyOptions(
        agent=agent,
        batch_size=options["batch_size"],
        buffer_size=options["buffer_size"],
        learning_starts=options["learning_starts"],
        steps_per_update=options["steps_per_update"],
        updates=options["updates"],
        absorbing_states=options["absorbing_states"],
        standardize=options["standardize"],
    )


class DACLearner(OffPolicyImitationLearner):
    """Discriminator-actor-critic."""

    def make_trainer(self, task: Task, **shared: Any) -> DAC:
        """Creates DAC."""
        options = self.options
        return DAC(
            disc_hidden_sizes=(options["disc_hidden_size"],) * options["disc_hidden_layers"],
            disc_learning_rate=options["disc_learning_rate"],
            gradient_penalty=options["gradient_penalty"],
            hidden_entries=task.environment.hidden_positions or (),
            **shared,
        )


class ImplicitRewardLearner(OffPolicyImitationLearner):
    """A method whose values stand for the reward; the agent does not see hidden positions either.

    Attributes:
        method: The method.
        names: Its arguments that are hyper-parameters of the same name.
    """

    method: type[OffPolicyTrainer]
    names: tuple[str, ...]

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        hidden = tuple(task.environment.hidden_positions or ())
        shared["options"] = replace(shared["options"], hidden_entries=hidden)
        return self.method(**{name: self.options[name] for name in self.names}, **shared)


class IQLearnLearner(ImplicitRewardLearner):
    """Inverse soft-Q learning."""

    method = IQLearn
    names = ("value_loss", "regularization", "alpha", "use_targets")


class LSIQLearner(ImplicitRewardLearner):
    """Least-squares inverse Q-learning."""

    method = LSIQ
    names = (
        "regularization",
        "expert_targets",
        "policy_loss",
        "clip_targets",
        "absorbing_values",
    )
class HyPELearner(OffPolicyImitationLearner):
    """Hybrid policy emulation."""

    def make_trainer(self, task: Task, **shared: Any) -> HyPE:
        """Creates HyPE."""
        options = self.options
        return HyPE(
            reward_interval=options["reward_interval"],
            objective=options["objective"],
            disc_hidden_sizes=(options["disc_hidden_size"],) * options["disc_hidden_layers"],
            disc_learning_rate=options["disc_learning_rate"],
            gradient_penalty=options["gradient_penalty"],
            hidden_entries=task.environment.hidden_positions or (),
            **shared,
        )


class AdRILLearner(OffPolicyImitationLearner):
    """Adversarial reward-moment imitation learning."""

    def make_trainer(self, task: Task, **shared: Any) -> AdRIL:
        """Creates AdRIL."""
        del task
        options = self.options
        return AdRIL(
            round_steps=options["round_steps"], reward_scale=options["reward_scale"], **shared
        )


class PWILLearner(OffPolicyImitationLearner):
    """Primal Wasserstein imitation learning."""

    def make_trainer(self, task: Task, **shared: Any) -> PWIL:
        """Creates PWIL."""
        options = self.options
        return PWIL(
            alpha=options["alpha"],
            beta=options["beta"],
            subsampling=options["subsampling"],
            prefill=options["prefill"],
            horizon=options["horizon"] or None,
            hidden_entries=task.environment.hidden_positions or (),
            **shared,
        )
