"""The learners for GAIL, GAIfO and AIRL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.algorithms.adversarial.discriminator import Regularization
from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gaifo import GAIfO
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.algorithms.adversarial.packed import AdversarialPack, TrainerPack
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Task
from imitbench.bench.learners.reward_agreement import held_out_trajectories, return_correlation
from imitbench.bench.learners.reward_learner import (
    RewardLearner,
    scaled_by_running_statistics,
    value_for,
)
from imitbench.bench.seeding import derive_seed
from imitbench.data.rollout import flatten_trajectories
from imitbench.rewards.reward_nets import (
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    RewardNet,
)
from imitbench.rl.packed_ppo import OwnGenerators
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

    from imitbench.data.types import TrajectoryWithRew

_CURVE = {
    "disc_acc": "discriminator/accuracy",
    "disc_acc_expert": "discriminator/accuracy_expert",
    "disc_acc_gen": "discriminator/accuracy_generator",
    "disc_loss": "discriminator/loss",
    "disc_entropy": "discriminator/entropy",
}


class AdversarialLearner(RewardLearner[AdversarialTrainer]):
    """Trains a discriminator and a PPO generator alternately."""

    algorithm: type[AdversarialTrainer]

    @abstractmethod
    def make_reward_net(self, task: Task) -> RewardNet:
        """Creates the network of the discriminator and the reward."""

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> AdversarialTrainer:
        """Creates GAIL or AIRL."""
        options = self.options
        transitions = flatten_trajectories(demos)
        return self.algorithm(
            demonstrations=transitions,
            # A few demonstrations make smaller batches, not an error.
            demo_batch_size=min(options["demo_batch_size"], len(transitions)),
            n_disc_updates_per_round=options["n_disc_updates_per_round"],
            disc_opt_kwargs={"lr": options["disc_learning_rate"]},
            venv=self.episodes,
            gen_algo=self.ppo,
            gen_replay_buffer_capacity=options["replay_rounds"]
            * options["n_envs"]
            * options["n_steps"],
            reward_net=self.make_reward_net(task),
            allow_variable_horizon=task.environment.horizon == "variable",
            custom_logger=silent_logger(),
            rng=rng,
            regularization=Regularization(
                gradient_penalty=options["gradient_penalty"],
                label_smoothing=options["disc_label_smoothing"],
            ),
            start=_start(options),
            **self._own_options(),
        )

    def _own_options(self) -> dict[str, Any]:
        """Returns arguments that only one of the algorithms has."""
        return {}

    def train_round(self, steps: int) -> dict[str, float]:
        """Trains the generator for one rollout, then the discriminator."""
        trainer = self.trainer
        trainer.train_gen(steps)
        updates = [trainer.train_disc() for _ in range(trainer.n_disc_updates_per_round)]
        trainer.logger.dump(self.rounds)
        return {**self.latest_metrics(), **_mean_of(updates)}

    def make_pack(
        self, venv: VecEnv, randomness: Sequence[OwnGenerators], device: str
    ) -> AdversarialPack:
        """Creates what trains GAIL or AIRL of all seeds; arguments as of `AdversarialPack`."""
        trainers = [member.trainer for member in self.of_seeds()]
        return AdversarialPack(trainers, venv, randomness, device)

    def train_pack(
        self, pack: TrainerPack[AdversarialTrainer], steps: int
    ) -> list[dict[str, float]]:
        """Trains the generators of all seeds for one rollout, then the discriminators."""
        assert isinstance(pack, AdversarialPack), "from make_pack"
        updates = pack.train_round(steps)
        return [
            {**member.latest_metrics(), **_mean_of(own)}
            for member, own in zip(self.of_seeds(), updates, strict=True)
        ]

    def reward(self) -> RewardNet:
        """Returns the reward to train other policies on; without shaping for AIRL."""
        return self.trainer.reward_test


class GAILLearner(AdversarialLearner):
    """Generative adversarial imitation learning."""

    algorithm: type[AdversarialTrainer] = GAIL

    def make_reward_net(self, task: Task) -> RewardNet:
        """Creates the network of the discriminator's logit."""
        options, pairs_of_states = self.options, not self.algorithm.reads_actions
        return BasicRewardNet(
            task.observation_space,
            task.action_space,
            hid_sizes=[options["reward_hidden_size"]] * options["reward_hidden_layers"],
            use_action=not pairs_of_states,
            use_next_state=pairs_of_states,
            **_layers(task),
        )

    def _own_options(self) -> dict[str, Any]:
        standardized = scaled_by_running_statistics(self.options)
        return {
            "reward_form": self.options["reward_form"],
            "normalize_reward": RunningNorm if standardized else None,
        }


class GAIfOLearner(GAILLearner):
    """Generative adversarial imitation from observation."""

    algorithm = GAIfO


class AIRLLearner(AdversarialLearner):
    """Adversarial inverse reinforcement learning with a shaped reward."""

    algorithm = AIRL

    def measures(self) -> dict[str, float]:
        """Agreement of the learned reward, without shaping, and the true one."""
        seed = derive_seed(self.task.seed, "held-out trajectories")
        episodes = held_out_trajectories(self.policy(), self.task.environment, seed)
        return return_correlation(self.reward(), episodes)

    def _own_options(self) -> dict[str, Any]:
        return {
            "uniform_share": self.options["disc_uniform_share"],
            "gen_history_share": self.options["disc_history_share"],
            "reward_entropy": self.options["reward_entropy"],
            # `None` for spaces without bounds, such as discrete ones.
            "bounded_density": None if self.options["disc_density"] == "bounded" else False,
        }

    def make_reward_net(self, task: Task) -> RewardNet:
        """Creates a network with potential-based shaping."""
        options = self.options
        sizes = [options["reward_hidden_size"]] * options["reward_hidden_layers"]
        net: RewardNet = BasicShapedRewardNet(
            task.observation_space,
            task.action_space,
            reward_hid_sizes=sizes,
            potential_hid_sizes=sizes,
            use_action=options["reward_use_action"],
            discount_factor=options["gamma"],
            **_layers(task),
        )
        if scaled_by_running_statistics(options):
            net = NormalizedRewardNet(net, RunningNorm)
        return net


def _layers(task: Task) -> dict[str, Any]:
    """Options of a discriminator's layers from the hyper-parameters."""
    options = task.hyperparameters
    norm: dict[str, Any] = {}
    if options["disc_spectral_norm"]:
        slope = value_for("disc_lipschitz", options, task.action_space)
        norm = {"spectral_norm": True, "lipschitz": slope}
    hidden = task.environment.hidden_positions or ()
    return {"normalize_input_layer": RunningNorm, "hidden_entries": hidden, **norm}


def _start(options: Mapping[str, Any]) -> ExpertInitialization:
    """Initialization of the policy from demonstrations; ignores options that do not apply."""
    warm = options.get("warm_start_batches", 0)
    return ExpertInitialization(
        normalizer_source=options["normalizer_source"]
        if options["normalize_observations"]
        else "agent",
        log_std=options.get("log_std_source") == "expert",
        batches=warm,
        critic_steps=options["warm_start_critic_steps"] if warm else 0,
    )


def _mean_of(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over a round's updates, by the curve's names."""
    return {
        name: float(np.mean([update[key] for update in updates]))
        for key, name in _CURVE.items()
        if updates
    }
