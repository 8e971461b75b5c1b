"""GAIL and AIRL in the harness."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.episode_log import EpisodeLog
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.ppo_policy import count_rounds, make_ppo, set_learning_rate
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.data.rollout import flatten_trajectories
from imitbench.rewards.reward_nets import (
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    RewardNet,
)
from imitbench.store.records import Budget
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


class AdversarialLearner(Learner):
    """Trains a discriminator and a PPO generator in turns."""

    @abstractmethod
    def _make_reward_net(self, task: Task, options: Mapping[str, Any]) -> RewardNet:
        """The network behind discriminator and reward."""

    @abstractmethod
    def _make_trainer(self, **arguments: Any) -> AdversarialTrainer:
        """The algorithm."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, generator, network and trainer."""
        self._options: dict[str, Any] = dict(task.hyperparameters)
        options = self._options
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        self._rounds = 0
        self._generator = make_ppo(self._episodes, options, task.seed, device)
        transitions = flatten_trajectories(demos)
        self._trainer = self._make_trainer(
            demonstrations=transitions,
            # A few demonstrations make smaller batches, not an error.
            demo_batch_size=min(options["demo_batch_size"], len(transitions)),
            n_disc_updates_per_round=options["n_disc_updates_per_round"],
            disc_opt_kwargs={"lr": options["disc_learning_rate"]},
            venv=self._episodes,
            gen_algo=self._generator,
            gen_replay_buffer_capacity=options["replay_rounds"]
            * options["n_envs"]
            * options["n_steps"],
            reward_net=self._make_reward_net(task, options),
            allow_variable_horizon=task.environment.horizon == "variable",
            custom_logger=silent_logger(),
            rng=rng,
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for as many rounds as fit into `budget.amount` environment steps.

        Raises:
            ValueError: Not one does.
        """
        trainer = self._trainer
        steps = trainer.gen_train_timesteps
        rounds = count_rounds(budget.amount, steps)
        while self._rounds < rounds:
            set_learning_rate(self._generator, self._options, self._rounds / rounds)
            trainer.train_gen()
            updates = [trainer.train_disc() for _ in range(trainer.n_disc_updates_per_round)]
            trainer.logger.dump(self._rounds)
            self._rounds += 1
            callback(self._rounds * steps, {**self._episodes.pop(), **_mean_of(updates)})
            checkpoint()
        return self._rounds * steps

    def policy(self) -> BasePolicy:
        """The generator's policy."""
        return self._trainer.policy

    def reward(self) -> RewardNet:
        """The reward to train other policies on; AIRL's is without shaping."""
        return self._trainer.reward_test

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round."""
        return {
            "trainer": self._trainer.state_dict(),
            "environments": episode_states(self._environments),
            "rounds": self._rounds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        restore_episodes(self._environments, state["environments"])
        self._trainer.load_state_dict(state["trainer"])
        self._rounds = state["rounds"]


class GAILLearner(AdversarialLearner):
    """Generative adversarial imitation learning."""

    def _make_reward_net(self, task: Task, options: Mapping[str, Any]) -> RewardNet:
        return BasicRewardNet(
            task.observation_space,
            task.action_space,
            hid_sizes=[options["reward_hidden_size"]] * options["reward_hidden_layers"],
            normalize_input_layer=RunningNorm,
        )

    def _make_trainer(self, **arguments: Any) -> AdversarialTrainer:
        return GAIL(**arguments)


class AIRLLearner(AdversarialLearner):
    """Adversarial inverse reinforcement learning with a shaped reward."""

    def _make_reward_net(self, task: Task, options: Mapping[str, Any]) -> RewardNet:
        sizes = [options["reward_hidden_size"]] * options["reward_hidden_layers"]
        net: RewardNet = BasicShapedRewardNet(
            task.observation_space,
            task.action_space,
            reward_hid_sizes=sizes,
            potential_hid_sizes=sizes,
            use_action=options["reward_use_action"],
            discount_factor=options["gamma"],
            normalize_input_layer=RunningNorm,
        )
        if options["normalize_reward"]:
            net = NormalizedRewardNet(net, RunningNorm)
        return net

    def _make_trainer(self, **arguments: Any) -> AdversarialTrainer:
        return AIRL(**arguments)


def _mean_of(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over a round's updates, under the names of the curve."""
    return {
        name: float(np.mean([update[key] for update in updates]))
        for key, name in _CURVE.items()
        if updates
    }
