"""PEBBLE in the harness: preference comparisons with an off-policy agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.off_policy.rewarded import RewardedTrainer
from imitbench.algorithms.preference_comparisons import (
    CrossEntropyRewardLoss,
    PreferenceComparisons,
    PreferenceModel,
    make_reward_trainer,
)
from imitbench.algorithms.preference_comparisons.agent_trainer import ReplayAgent
from imitbench.bench.curve import EpisodeLog, silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.off_policy import shared_options
from imitbench.bench.learners.preference_answers import (
    available_comparisons,
    curve_metrics,
    make_gatherer,
    waits_for_people,
)
from imitbench.bench.learners.preference_comparisons import (
    make_fragmenter,
    make_reward_net,
)
from imitbench.bench.learners.reward_agreement import held_out_agreement
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.data.wrappers import BufferingWrapper
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


class PebbleLearner(Learner):
    """Learns a reward from comparisons, and trains the off-policy agent on it."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, agent, reward and algorithm; `demos` is not used."""
        del demos
        self._task = task
        options = self._options = dict[str, Any](task.hyperparameters)
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        buffering = BufferingWrapper(self._episodes)
        # The episode from which fragments are cut must be there before the first comparison.
        spec = self._environments.get_attr("spec", 0)[0]
        self._longest = None if spec is None else spec.max_episode_steps
        if self._longest is not None:
            options["fragment_length"] = min(options["fragment_length"], self._longest)
        self._net = make_reward_net(task, standardized=False).to(device)
        net = self._net
        self._trainer = RewardedTrainer(
            reward_fn=lambda *steps: net.predict_processed(*steps, update_stats=False),
            neighbours=options["neighbours"],
            reset_updates=options["reset_updates"],
            venv=buffering,
            options=replace(shared_options(options), absorbing_states=False),
            seeds=[int(rng.integers(2**32))],
            device=device,
            custom_logger=silent_logger(),
            allow_variable_horizon=task.environment.horizon == "variable",
        )
        self._agent = ReplayAgent(self._trainer, buffering, options["recent_episodes"])
        self._algorithm = self._make_algorithm(rng)
        self._rounds_done = 0
        self.waits = waits_for_people(self._algorithm.preference_gatherer)

    def _make_algorithm(self, rng: np.random.Generator) -> PreferenceComparisons:
        options = self._options
        model = PreferenceModel(self._net)
        trainer_options = {
            "epochs": options["reward_epochs"],
            "lr": options["reward_learning_rate"],
            "batch_size": options["reward_batch_size"],
        }
        return PreferenceComparisons(
            self._agent,
            self._net,
            num_iterations=options["num_iterations"],
            fragmenter=make_fragmenter(model, options, rng),
            preference_gatherer=make_gatherer(self._task, options, rng),
            reward_trainer=make_reward_trainer(
                model, CrossEntropyRewardLoss(), rng, trainer_options
            ),
            fragment_length=options["fragment_length"],
            initial_comparison_frac=options["initial_comparison_frac"],
            initial_epoch_multiplier=options["initial_epoch_multiplier"],
            custom_logger=silent_logger(),
            allow_variable_horizon=self._task.environment.horizon == "variable",
            query_schedule=options["query_schedule"],
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Explores, then trains for the card's number of rounds, or as many as fit.

        Raises:
            ValueError: `budget.amount` environment steps are less than exploration and one round.
        """
        trainer, rounds = self._trainer, self._plan(budget.amount)
        if not trainer.num_timesteps:
            self._agent.pretrain(self._exploration)
            callback(trainer.num_timesteps, self._episodes.pop())
            checkpoint()
        for step in rounds[self._rounds_done :]:
            metrics = self._algorithm.run_round(step)
            self._rounds_done += 1
            callback(trainer.num_timesteps, {**self._episodes.pop(), **curve_metrics(metrics)})
            checkpoint()
        return trainer.num_timesteps

    @property
    def _exploration(self) -> int:
        """Steps before the first comparison: random ones, then for novelty; at least an episode."""
        n_envs: int = self._options["n_envs"]
        chosen: int = self._options["learning_starts"] + self._options["exploration_steps"]
        needed = max(chosen, int(self._longest or 1) * n_envs)
        return -(-needed // n_envs) * n_envs

    def _plan(self, total: int) -> list[Any]:
        """Plans the rounds in what exploration leaves of `total` environment steps."""
        algorithm, n_envs = self._algorithm, self._options["n_envs"]
        comparisons = available_comparisons(
            algorithm.preference_gatherer, self._options["total_comparisons"]
        )
        left = (total - self._exploration) // n_envs
        if left < 1:
            raise ValueError(
                f"a budget of {total} environment steps is too small: exploration takes "
                f"{self._exploration} of them, at least one episode; lower exploration_steps, "
                "learning_starts or n_envs"
            )
        algorithm.num_iterations = min(self._options["num_iterations"], left, comparisons)
        rounds = algorithm.plan(left, comparisons)
        return [replace(step, timesteps=step.timesteps * n_envs) for step in rounds]

    def policy(self) -> BasePolicy:
        """The agent's policy."""
        return self._trainer.policy

    def reward(self) -> RewardNet:
        """The learned reward."""
        return self._net

    def measures(self) -> dict[str, float]:
        """Agreement of the learned and the true reward on held-out episodes."""
        length = self._options["fragment_length"]
        return held_out_agreement(self._net, self.policy(), self._task, length)

    def state_dict(self) -> dict[str, Any]:
        """State between two rounds."""
        return {
            "algorithm": self._algorithm.state_dict(),
            "environments": episode_states(self._environments),
            "rounds": self._rounds_done,
            "steps": self._episodes.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        restore_episodes(self._environments, state["environments"])
        self._algorithm.load_state_dict(state["algorithm"])
        self._rounds_done = state["rounds"]
        self._episodes.steps = state["steps"]
