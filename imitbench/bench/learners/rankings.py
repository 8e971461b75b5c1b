"""T-REX and D-REX in the harness: PPO on a reward that explains a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.drex import DREX, CloneOptions, even_noise
from imitbench.algorithms.trex import TREX, ExtrapolationOptions, RewardExtrapolation
from imitbench.bench.curve import pop_learned_return, silent_logger
from imitbench.bench.environments import make_training_environments, time_limit_of
from imitbench.bench.learner import Callback, Task
from imitbench.bench.learners.bc import network_arguments
from imitbench.bench.learners.preference_comparisons import make_reward_net
from imitbench.bench.learners.reward_agreement import held_out_trajectories, return_correlation
from imitbench.bench.learners.reward_learner import RewardLearner
from imitbench.bench.seeding import derive_seed
from imitbench.data.rollout import flatten_trajectories
from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


class RankedRewardLearner(RewardLearner[RewardExtrapolation]):
    """Fits a reward to ranked trajectories before the first round, then trains PPO on it."""

    def before_rounds(self, amount: int, callback: Callback) -> int:
        """Fits the reward of each seed, unless a restored state has it."""
        if self.trainer.accuracy is None:
            members = self.of_seeds()
            contexts: list[AbstractContextManager[None]] = [nullcontext()]
            if self.randomness:  # of a pack
                contexts = [own.in_use() for own in self.randomness]
            for member, context in zip(members, contexts, strict=True):
                with context:
                    member.fit_reward(amount)
            accuracies = [{"reward/accuracy": member.accuracy} for member in members]
            callback(self._spent(), self.add_points(self._spent(), accuracies))
        return self._spent()

    def fit_reward(self, amount: int) -> None:
        """Fits the reward of this seed.

        Args:
            amount: The budget, in environment steps.
        """
        del amount
        self.trainer.train_reward()

    def _spent(self) -> int:
        """Most environment steps that the reward of a seed took, as all seeds go on together."""
        return max(member.trainer.env_steps for member in self.of_seeds())

    @property
    def accuracy(self) -> float:
        """Share of pairs of snippets that the fitted reward orders rightly."""
        assert self.trainer.accuracy is not None, "the reward is fitted"
        return self.trainer.accuracy

    def train_round(self, steps: int) -> dict[str, float]:
        """Trains PPO for one rollout."""
        # Without a log interval nothing is written.
        self.trainer.train_policy(steps, log_interval=None)
        return self.latest_metrics()

    def latest_metrics(self) -> dict[str, float]:
        """Returns metrics of the latest rollout, with the mean return by the learned reward."""
        learned = self.trainer.generator.learned_returns
        return super().latest_metrics() | pop_learned_return(learned)

    def reward(self) -> RewardNet:
        """The learned reward."""
        return self.trainer.reward_net

    def measures(self) -> dict[str, float]:
        """Agreement of the learned and the true reward on held-out episodes."""
        seed = derive_seed(self.task.seed, "held-out trajectories")
        episodes = held_out_trajectories(self.policy(), self.task.environment, seed)
        return return_correlation(self.reward(), episodes)

    def shared_arguments(self, rng: np.random.Generator, **snippets: Any) -> dict[str, Any]:
        """Returns what both methods are made with.

        Args:
            rng: Source of all randomness.
            **snippets: Options of `ExtrapolationOptions` that only one method has.
        """
        options = self.options
        net = make_reward_net(
            self.task,
            standardized=False,
            use_state=False,
            use_action=False,
            use_next_state=True,
            hidden_entries=self.task.environment.hidden_positions or (),
        )
        return {
            "venv": self.episodes,
            "rng": rng,
            "rl_algo": self.ppo,
            "reward_net": net.to(self.ppo.device),
            "options": ExtrapolationOptions(
                pairs=options["pairs"],
                snippet_length=options["snippet_length"],
                later_start=options["later_start"],
                noise_prob=options["noise_prob"],
                epochs=options["reward_epochs"],
                batch_size=options["reward_batch_size"],
                learning_rate=options["reward_learning_rate"],
                **snippets,
            ),
            "custom_logger": silent_logger(),
            "allow_variable_horizon": self.task.environment.horizon == "variable",
        }


class TREXLearner(RankedRewardLearner):
    """T-REX: the supplement's ranks are given, and the demonstrations are better than all of it."""

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> TREX:
        """Creates T-REX.

        Raises:
            InputError: There is no ranked supplement, or it has ties only.
        """
        supplement = task.supplement
        if supplement is None or supplement.ranks is None:
            raise InputError(
                "trex: needs ranked trajectories besides the demonstrations; choose a regime with "
                "a mixture"
            )
        return TREX(
            demonstrations=demos,
            supplement=supplement.trajectories,
            ranks=supplement.ranks,
            **self.shared_arguments(rng),
        )


class DREXLearner(RankedRewardLearner):
    """D-REX: the clone of the demonstrations acts with more and more noise."""

    trainer: DREX

    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> DREX:
        """Creates D-REX."""
        options = self.options
        clone = ActorCriticPolicy(
            task.observation_space,
            task.action_space,
            lr_schedule=lambda _: options["bc_learning_rate"],
            **network_arguments(options),
        )
        return DREX(
            demonstrations=flatten_trajectories(demos),
            clone=clone,
            clone_options=CloneOptions(
                batches=options["bc_batches"],
                batch_size=options["bc_batch_size"],
                learning_rate=options["bc_learning_rate"],
                l2_weight=options["bc_l2_weight"],
            ),
            **self.shared_arguments(rng, margin=options["noise_margin"]),
        )

    def fit_reward(self, amount: int) -> None:
        """Lets the clone act, for no more than a share of the budget, and fits the reward.

        Raises:
            ValueError: The environment has no time limit, or the share is less than two episodes.
        """
        levels, count = self._affordable(int(amount * self.options["noise_share"]))
        seed = derive_seed(self.task.seed, "noisy rollouts")
        venv = make_training_environments(self.task.environment, count, seed)
        self.trainer.noise_levels = even_noise(levels)
        self.trainer.rollout_venv = venv
        self.trainer.train_reward()
        venv.close()
        self.trainer.rollout_venv = None

    def _affordable(self, steps: int) -> tuple[int, int]:
        """Levels of noise, and trajectories of each, that take at most `steps`."""
        longest = time_limit_of(self.episodes)
        if longest is None:
            raise ValueError(
                f"environment {self.task.environment.id} has no time limit, which planning of the "
                "noisy trajectories needs"
            )
        episodes = steps // longest
        levels = min(self.options["noise_levels"], episodes)
        if levels < 2:
            raise ValueError(
                f"noise_share: leaves {steps} environment steps for noisy trajectories, less than "
                f"two episodes of {longest}; increase it, or the budget"
            )
        return levels, min(self.options["noise_trajectories"], episodes // levels)
