"""The learners for GAIL and AIRL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.algorithms.adversarial.discriminator import Regularization
from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.algorithms.adversarial.packed import AdversarialPack
from imitbench.bench.curve import EpisodeLog, SeedEpisodes, silent_logger
from imitbench.bench.environments import make_packed_environments
from imitbench.bench.learner import PackedLearner, Task
from imitbench.bench.learners.reward_agreement import held_out_trajectories, return_correlation
from imitbench.bench.learners.reward_learner import (
    RewardLearner,
    scaled_by_running_statistics,
    value_for,
)
from imitbench.bench.seeding import derive_seed
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.data.rollout import flatten_trajectories
from imitbench.errors import InputError
from imitbench.rewards.reward_nets import (
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    RewardNet,
)
from imitbench.rl.packed_ppo import OwnGenerators, why_not_packed
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

_CURVE = {
    "disc_acc": "discriminator/accuracy",
    "disc_acc_expert": "discriminator/accuracy_expert",
    "disc_acc_gen": "discriminator/accuracy_generator",
    "disc_loss": "discriminator/loss",
    "disc_entropy": "discriminator/entropy",
}


class AdversarialLearner(RewardLearner[AdversarialTrainer], PackedLearner):
    """Trains a discriminator and a PPO generator alternately.

    In a pack, this is the learner of the first seed, and it trains those of the others, too.
    """

    algorithm: type[AdversarialTrainer]
    curves: Sequence[list[Mapping[str, float]]] = ()
    _others: Sequence[AdversarialLearner] = ()
    _pack: AdversarialPack | None = None  # if there are several seeds

    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds environments, and PPO and the algorithm of each seed.

        Raises:
            InputError: Hyper-parameters cannot be used in a pack.
        """
        options: dict[str, Any] = dict(tasks[0].hyperparameters)
        count: int = options["n_envs"]
        self._environments = make_packed_environments(
            tasks[0].environment, count, [task.seed for task in tasks]
        )
        episodes = EpisodeLog(self._environments, len(tasks))
        self._others = [type(self)() for _ in tasks[1:]]
        self.curves = [[] for _ in self._others]
        randomness = []
        for seed, member in enumerate(self.of_seeds()):
            own, generators = SeedEpisodes(episodes, seed, count), OwnGenerators()
            with generators.in_use():
                member.set_up_in(own, tasks[seed], demos[seed], rngs[seed], "cpu")
            randomness.append(generators)
        trainers = [member.trainer for member in self.of_seeds()]
        self._pack = AdversarialPack(trainers, episodes, randomness, device)

    def of_seeds(self) -> Sequence[AdversarialLearner]:
        """The learner of each seed."""
        return [self, *self._others]

    def policies(self) -> Sequence[BasePolicy]:
        """PPO's policy of each seed."""
        return [member.policy() for member in self.of_seeds()]

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round."""
        if self._pack is None:
            return super().state_dict()
        return {
            "pack": self._pack.state_dict(),
            "environments": episode_states(self._environments),
            "rounds": self.rounds,
            "curves": [[dict(point) for point in curve] for curve in self.curves],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if self._pack is None:
            super().load_state_dict(state)
            return
        self._pack.load_state_dict(state["pack"])
        restore_episodes(self._environments, state["environments"])
        self.rounds = state["rounds"]
        self.curves = [list(curve) for curve in state["curves"]]

    @abstractmethod
    def make_reward_net(self, task: Task) -> RewardNet:
        """Creates the network of the discriminator and the reward."""

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> AdversarialTrainer:
        """Creates GAIL or AIRL."""
        reason = why_not_packed(self.ppo) if isinstance(self.episodes, SeedEpisodes) else None
        if reason is not None:
            raise InputError(
                f"--pack: PPO cannot train several seeds as one network, because {reason}; "
                "remove the cause, or omit --pack"
            )
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
        if self._pack is not None:
            return self._train_pack(self._pack, steps)
        trainer = self.trainer
        trainer.train_gen(steps)
        updates = [trainer.train_disc() for _ in range(trainer.n_disc_updates_per_round)]
        trainer.logger.dump(self.rounds)
        return {**self.episodes.pop(), **_mean_of(updates)}

    def _train_pack(self, pack: AdversarialPack, steps: int) -> dict[str, float]:
        """Trains all seeds for a round; returns metrics of the first."""
        for member in self._others:
            member.ppo.lr_schedule = self.ppo.lr_schedule
        first, *others = (
            {**member.episodes.pop(), **_mean_of(updates)}
            for member, updates in zip(self.of_seeds(), pack.train_round(steps), strict=True)
        )
        for curve, metrics in zip(self.curves, others, strict=True):
            curve.append({"step": (self.rounds + 1) * steps, **metrics})
        return first

    def reward(self) -> RewardNet:
        """Returns the reward to train other policies on; without shaping for AIRL."""
        return self.trainer.reward_test


class GAILLearner(AdversarialLearner):
    """Generative adversarial imitation learning."""

    algorithm = GAIL

    def make_reward_net(self, task: Task) -> RewardNet:
        """Creates the network of the discriminator's logit."""
        options = self.options
        return BasicRewardNet(
            task.observation_space,
            task.action_space,
            hid_sizes=[options["reward_hidden_size"]] * options["reward_hidden_layers"],
            **_layers(task),
        )

    def _own_options(self) -> dict[str, Any]:
        standardized = scaled_by_running_statistics(self.options)
        return {
            "reward_form": self.options["reward_form"],
            "normalize_reward": RunningNorm if standardized else None,
        }


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
    warm = options["warm_start_batches"]
    return ExpertInitialization(
        normalizer_source=options["normalizer_source"]
        if options["normalize_observations"]
        else "agent",
        log_std=options["log_std_source"] == "expert",
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
