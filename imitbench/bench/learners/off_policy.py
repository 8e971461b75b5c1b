"""The learners for methods that learn from a replay buffer and demonstrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.bco import BCO
from imitbench.algorithms.off_policy.csil import CSIL
from imitbench.algorithms.off_policy.dac import DAC, DACfO
from imitbench.algorithms.off_policy.explicit_reward import ExplicitRewardTrainer
from imitbench.algorithms.off_policy.f_irl import FIRL
from imitbench.algorithms.off_policy.hype import HyPE
from imitbench.algorithms.off_policy.iq_learn import IQLearn
from imitbench.algorithms.off_policy.ls_iq import LSIQ, LSIQObs
from imitbench.algorithms.off_policy.ml_irl import MLIRL
from imitbench.algorithms.off_policy.opolo import OPOLO
from imitbench.algorithms.off_policy.pwil import PWIL, PWILState
from imitbench.algorithms.off_policy.rewarded import ConstantRewardTrainer, TrueRewardTrainer
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions, OffPolicyTrainer
from imitbench.algorithms.off_policy.value_dice import ValueDICE
from imitbench.bench.curve import EpisodeLog, pop_learned_return, silent_logger
from imitbench.bench.environments import make_packed_environments
from imitbench.bench.learner import (
    Callback,
    Checkpoint,
    Learner,
    LearnerWrapper,
    PackedLearner,
    Task,
    no_checkpoint,
)
from imitbench.bench.learners.algorithm_learner import (
    CURVE_POINTS,
    LearnedRewardLearner,
    check_updates,
)
from imitbench.bench.learners.reward_agreement import held_out_trajectories, return_correlation
from imitbench.bench.seeding import derive_seed
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.records.runs import Budget
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


class OffPolicyImitationLearner(PackedLearner):
    """Trains one off-policy method; the budget is in environment steps.

    Attributes:
        method: The method.
        arguments: Its arguments that are hyper-parameters with the same name.
        options: Every hyper-parameter by name.
        trainer: The method's instance.
    """

    method: ClassVar[type[OffPolicyTrainer]]
    arguments: ClassVar[tuple[str, ...]]
    options: Mapping[str, Any]
    trainer: OffPolicyTrainer

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method.

        Args:
            task: Environment and hyper-parameters.
            **shared: Other arguments of the method.
        """
        del task
        return self.method(**{name: self.options[name] for name in self.arguments}, **shared)

    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds environments and method."""
        task = tasks[0]
        self.options = dict(task.hyperparameters)
        environment = task.environment
        self._environments = make_packed_environments(
            environment, self.options["n_envs"], [task.seed for task in tasks]
        )
        self._episodes = EpisodeLog(self._environments, len(tasks))
        self.curves: list[list[Mapping[str, float]]] = [[] for _ in tasks[1:]]
        self.trainer = self.make_trainer(
            task,
            venv=self._episodes,
            demonstrations=None,
            options=shared_options(self.options),
            seeds=[int(rng.integers(2**32)) for rng in rngs],
            device=device,
            custom_logger=silent_logger(),
            allow_variable_horizon=environment.horizon == "variable",
        )
        if self.method.uses_demonstrations:
            self.trainer.set_demonstrations_of_seeds(demos)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for the budget, in whole steps of all environments.

        Raises:
            ValueError: The budget ends before the first update.
        """
        trainer, n_envs = self.trainer, int(self.options["n_envs"])
        total = budget.amount // n_envs * n_envs
        check_updates(budget, total < trainer.options.learning_starts)
        part = max(1, total // CURVE_POINTS // n_envs) * n_envs
        while trainer.num_timesteps < total:
            logged = trainer.train_seeds(min(part, total - trainer.num_timesteps))
            step = trainer.num_timesteps
            first, *others = (
                {**self.pop_episodes(seed), **metrics} for seed, metrics in enumerate(logged)
            )
            for curve, metrics in zip(self.curves, others, strict=True):
                curve.append({"step": step, **metrics})
            callback(step, first)
            checkpoint()
        return trainer.num_timesteps

    def pop_episodes(self, seed: int) -> dict[str, float]:
        """Returns metrics of a seed's episodes since the last call."""
        return self._episodes.pop(seed)

    def policies(self) -> Sequence[BasePolicy]:
        """The agent's policy of each seed."""
        return self.trainer.policies

    def of_seeds(self) -> Sequence[Learner]:
        """The policy, the reward and the measures of each seed."""
        if not self.curves:
            return [self]
        return [SeedOfOffPolicy(self, seed) for seed in range(1 + len(self.curves))]

    def reward(self) -> RewardNet | None:
        """The reward of the first seed."""
        return self.reward_of(0)

    def measures(self) -> dict[str, float]:
        """Other measures of the first seed."""
        return self.measures_of(0)

    def reward_of(self, seed: int) -> RewardNet | None:
        """The reward of a seed, counted from 0; `None` if it is none of single transitions."""
        nets = self.trainer.reward_nets
        return nets[seed] if nets else None

    def measures_of(self, seed: int) -> dict[str, float]:
        """Other measures of the result of a seed, counted from 0, by name."""
        del seed
        return {}

    def state_dict(self) -> dict[str, Any]:
        """State of method and environments, between two steps."""
        return {
            "trainer": self.trainer.state_dict(),
            "environments": episode_states(self._environments),
            "curves": [[dict(point) for point in curve] for curve in self.curves],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        restore_episodes(self._environments, state["environments"])
        self.curves = [list(curve) for curve in state["curves"]]
        self.trainer.load_state_dict(state["trainer"])


class SeedOfOffPolicy(LearnerWrapper):
    """One seed of a pack, after training.

    Args:
        learner: The learner of all seeds.
        seed: Number of the seed, from 0.
    """

    learner: OffPolicyImitationLearner

    def __init__(self, learner: OffPolicyImitationLearner, seed: int) -> None:
        super().__init__(learner)
        self.seed = seed

    def policy(self) -> BasePolicy:
        """The agent's policy."""
        return self.learner.policies()[self.seed]

    def reward(self) -> RewardNet | None:
        """The reward; `None` if it is none of single transitions."""
        return self.learner.reward_of(self.seed)

    def measures(self) -> dict[str, float]:
        """Other measures of the result by name."""
        return self.learner.measures_of(self.seed)


_AGENT_SETTINGS = (
    "actor_learning_rate",
    "critic_learning_rate",
    "gamma",
    "tau",
    "policy_tau",
    "temperature",
    "learn_temperature",
    "n_critics",
    "action_clip",
)
_TRAINER_SETTINGS = (
    "batch_size",
    "buffer_size",
    "learning_starts",
    "steps_per_update",
    "updates",
    "absorbing_states",
    "standardize",
)


def shared_options(options: Mapping[str, Any]) -> OffPolicyOptions:
    """Returns the settings that all off-policy methods share from a card's hyper-parameters.

    A card leaves out those without meaning for its method.
    """

    def given(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: options[name] for name in names if name in options}

    hidden_sizes = (options["hidden_size"],) * options["hidden_layers"]
    agent = AgentOptions(hidden_sizes=hidden_sizes, **given(_AGENT_SETTINGS))
    return OffPolicyOptions(agent=agent, **given(_TRAINER_SETTINGS))


class AdversarialLearner(OffPolicyImitationLearner):
    """A method with a discriminator, which does not see hidden positions."""

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        sizes = (self.options["disc_hidden_size"],) * self.options["disc_hidden_layers"]
        hidden = task.environment.hidden_positions or ()
        return super().make_trainer(task, disc_hidden_sizes=sizes, hidden_entries=hidden, **shared)


class DACLearner(AdversarialLearner):
    """Discriminator-actor-critic."""

    method = DAC
    arguments = ("disc_learning_rate", "gradient_penalty")


class DACfOLearner(DACLearner):
    """Discriminator-actor-critic from observations."""

    method = DACfO


class HyPELearner(AdversarialLearner):
    """Hybrid policy emulation."""

    method = HyPE
    arguments = ("disc_learning_rate", "gradient_penalty", "reward_interval", "objective")


class ExplicitRewardLearner(OffPolicyImitationLearner):
    """A method whose reward is a network of its own, which does not see hidden positions.

    Attributes:
        tasks: Task of each seed.
    """

    trainer: ExplicitRewardTrainer

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        sizes = (self.options["reward_hidden_size"],) * self.options["reward_hidden_layers"]
        hidden = task.environment.hidden_positions or ()
        shared |= {"reward_hidden_sizes": sizes, "hidden_entries": hidden}
        return super().make_trainer(task, use_actions=self.options["reward_use_action"], **shared)

    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds environments and method."""
        self.tasks = tasks
        super().setup_pack(tasks, demos, rngs, device)

    def measures_of(self, seed: int) -> dict[str, float]:
        """Agreement of the learned and the true reward on held-out episodes."""
        task = self.tasks[seed]
        chosen = derive_seed(task.seed, "held-out trajectories")
        episodes = held_out_trajectories(self.policies()[seed], task.environment, chosen)
        return return_correlation(self.trainer.reward_nets[seed], episodes)


_REWARD_ARGUMENTS = (
    "reward_learning_rate",
    "reward_decay",
    "reward_interval",
    "trajectories",
    "scale_rewards",
)


class FIRLLearner(ExplicitRewardLearner):
    """f-IRL."""

    method = FIRL
    arguments = (
        *_REWARD_ARGUMENTS,
        "divergence",
        "disc_updates",
        "disc_learning_rate",
        "gradient_penalty",
    )

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        sizes = (self.options["disc_hidden_size"],) * self.options["disc_hidden_layers"]
        return super().make_trainer(task, disc_hidden_sizes=sizes, **shared)


class MLIRLLearner(ExplicitRewardLearner):
    """Maximum-likelihood inverse reinforcement learning."""

    method = MLIRL
    arguments = (*_REWARD_ARGUMENTS, "reward_discount")


class ConstantRewardLearner(OffPolicyImitationLearner):
    """A control: the agent on a constant reward, without demonstrations."""

    method = ConstantRewardTrainer
    arguments = ("reward",)


class AdRILLearner(OffPolicyImitationLearner):
    """Adversarial reward-moment imitation learning."""

    method = AdRIL
    arguments = ("round_steps", "reward_scale")


class PWILLearner(OffPolicyImitationLearner):
    """Primal Wasserstein imitation learning."""

    method = PWIL
    arguments: ClassVar[tuple[str, ...]] = ("alpha", "beta", "subsampling", "prefill")

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates PWIL."""
        hidden = task.environment.hidden_positions or ()
        horizon = self.options["horizon"] or None
        return super().make_trainer(task, horizon=horizon, hidden_entries=hidden, **shared)


class PWILStateLearner(PWILLearner):
    """Primal Wasserstein imitation learning on states alone."""

    method = PWILState
    arguments = ("alpha", "beta", "subsampling")


class ImplicitRewardLearner(OffPolicyImitationLearner):
    """A method whose values define the reward; its agent does not see hidden positions either."""

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        hidden = tuple(task.environment.hidden_positions or ())
        shared["options"] = replace(shared["options"], hidden_entries=hidden)
        return super().make_trainer(task, **shared)


class IQLearnLearner(ImplicitRewardLearner):
    """Inverse soft-Q learning."""

    method = IQLearn
    arguments = ("value_loss", "regularization", "alpha", "use_targets")


class LSIQLearner(ImplicitRewardLearner):
    """Least-squares inverse Q-learning."""

    method = LSIQ
    arguments = (
        "regularization",
        "expert_targets",
        "policy_loss",
        "clip_targets",
        "absorbing_values",
    )


class CSILLearner(OffPolicyImitationLearner):
    """Coherent soft imitation learning."""

    method = CSIL
    arguments = (
        "reward_scale",
        "least_std",
        "bc_updates",
        "bc_learning_rate",
        "prior_weight",
        "critic_updates",
        "action_gradient_weight",
        "reward_learning_rate",
    )


class InverseDynamicsLearner(OffPolicyImitationLearner):
    """A method with an inverse dynamics model, which does not see hidden positions."""

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the method."""
        sizes = (self.options["model_hidden_size"],) * self.options["model_hidden_layers"]
        hidden = task.environment.hidden_positions or ()
        shared |= {"model_hidden_sizes": sizes, "model_hidden_entries": hidden}
        return super().make_trainer(task, **shared)


class BCOLearner(InverseDynamicsLearner):
    """Behavioral cloning from observation."""

    method = BCO
    arguments = ("alpha", "model_learning_rate", "model_updates", "bc_updates")

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates BCO; its only learning rate of the agent is that of cloning."""
        rate = self.options["bc_learning_rate"]
        agent = replace(
            shared["options"].agent, actor_learning_rate=rate, critic_learning_rate=rate
        )
        shared["options"] = replace(shared["options"], agent=agent)
        return super().make_trainer(task, **shared)


_MODEL_ARGUMENTS = ("model_learning_rate", "model_pretraining", "model_interval")


class LSIQObsLearner(InverseDynamicsLearner, ImplicitRewardLearner):
    """Least-squares inverse Q-learning from observations."""

    method = LSIQObs
    arguments = (*LSIQLearner.arguments, *_MODEL_ARGUMENTS)


class OPOLOLearner(InverseDynamicsLearner, AdversarialLearner):
    """Off-policy imitation learning from observations."""

    method = OPOLO
    arguments = (*DACLearner.arguments, *_MODEL_ARGUMENTS, "initial_weight", "inverse_weight")


class ValueDICELearner(OffPolicyImitationLearner):
    """ValueDICE."""

    method = ValueDICE
    arguments = ("replay_weight", "gradient_penalty", "orthogonality")


class TrueRewardLearner(LearnedRewardLearner, OffPolicyImitationLearner):
    """The agent that all these methods share, on the environment's reward."""

    method = TrueRewardTrainer
    arguments = ()

    def make_trainer(self, task: Task, **shared: Any) -> OffPolicyTrainer:
        """Creates the agent; nothing has to be learned of a state whose reward is known to be 0."""
        shared["options"] = replace(shared["options"], absorbing_states=False)
        if task.reward is not None:
            shared["venv"] = self.rewarded = RewardVecEnvWrapper(shared["venv"], task.reward)
        return super().make_trainer(task, **shared)

    def pop_episodes(self, seed: int) -> dict[str, float]:
        """Returns metrics of a seed's episodes, with returns by the learned reward if there is one.

        Policies that share a learned reward are not trained in packs.
        """
        found = super().pop_episodes(seed)
        if self.rewarded is None:
            return found
        return found | pop_learned_return(self.rewarded.episode_rewards)
