"""The learners for behavioral cloning with other outputs than one Gaussian."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Task
from imitbench.bench.learners.bc import BCLearner, network_arguments
from imitbench.bench.seeding import derive_seed
from imitbench.data import rollout
from imitbench.data.observations import maybe_unwrap_dictobs
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    HeadPolicy,
    MixturePolicy,
)
from imitbench.records.runs import EnvironmentSpec

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

# Environments and episodes for the measure of disagreement.
_EPISODES = 8


class HeadLearner(BCLearner):
    """Clones the expert with the head of a method; a subclass creates it."""

    @abstractmethod
    def make_head(self, task: Task) -> HeadPolicy:
        """Creates the untrained policy.

        Args:
            task: Spaces and hyper-parameters.
        """

    def make_trainer(self, task: Task, **shared: Any) -> BCWithHead:
        """Creates the trainer."""
        return BCWithHead(policy=self.make_head(task), **shared)


class MSELearner(HeadLearner):
    """One action for each observation, by least squares."""

    def make_head(self, task: Task) -> DeterministicPolicy:
        """Creates the policy."""
        arguments = network_arguments(task.hyperparameters)
        return DeterministicPolicy(task.observation_space, task.action_space, **arguments)


class GMMLearner(HeadLearner):
    """A mixture of Gaussians."""

    def make_head(self, task: Task) -> MixturePolicy:
        """Creates the policy."""
        options: dict[str, Any] = dict(task.hyperparameters)
        return MixturePolicy(
            task.observation_space,
            task.action_space,
            n_components=options["n_components"],
            min_std=options["min_std"],
            low_noise=options["low_noise"],
            **network_arguments(options),
        )


class FlowLearner(HeadLearner):
    """A flow from noise to actions."""

    def make_head(self, task: Task) -> FlowPolicy:
        """Creates the policy."""
        options: dict[str, Any] = dict(task.hyperparameters)
        return FlowPolicy(
            task.observation_space,
            task.action_space,
            steps=options["flow_steps"],
            **network_arguments(options),
        )


class EnsembleLearner(HeadLearner):
    """An ensemble, with its disagreement as a measure."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the ensemble, and keeps what its measure needs."""
        super().setup(task, demos, rng, device)
        self._task, self._demos = task, demos

    def make_head(self, task: Task) -> EnsemblePolicy:
        """Creates the policy."""
        return make_ensemble(task, gaussian=task.hyperparameters["member"] == "gaussian")

    def measures(self) -> dict[str, float]:
        """Mean disagreement in the demonstrations, and in episodes of the ensemble's own."""
        policy = self.policy()
        assert isinstance(policy, EnsemblePolicy), "make_head made it"
        seed = derive_seed(self._task.seed, "disagreement")
        return {
            "disagreement_demonstrations": mean_disagreement(policy, self._demos),
            "disagreement_visited": visited_disagreement(policy, self._task.environment, seed),
        }


def make_ensemble(task: Task, *, gaussian: bool) -> EnsemblePolicy:
    """Creates an untrained ensemble.

    Args:
        task: Uses the hyper-parameter `n_members`, and those of `network_arguments`.
        gaussian: See `EnsemblePolicy`.
    """
    options: dict[str, Any] = dict(task.hyperparameters)
    return EnsemblePolicy(
        task.observation_space,
        task.action_space,
        n_members=options["n_members"],
        gaussian=gaussian,
        **network_arguments(options),
    )


def mean_disagreement(policy: EnsemblePolicy, episodes: Sequence[TrajectoryWithRew]) -> float:
    """Mean disagreement over all observations in which somebody acted.

    Args:
        policy: The ensemble.
        episodes: Whole episodes.
    """
    observations = maybe_unwrap_dictobs(rollout.flatten_trajectories(episodes).obs)
    _, disagreement = policy.act_with_disagreement(observations)
    return float(disagreement.mean())


def visited_disagreement(policy: EnsemblePolicy, environment: EnvironmentSpec, seed: int) -> float:
    """Mean disagreement in fresh episodes of the ensemble's deterministic actions.

    Args:
        policy: The ensemble.
        environment: Environment to act in.
        seed: Seed of the episodes.
    """
    venv = make_training_environments(environment, _EPISODES, seed)
    episodes = rollout.generate_trajectories(
        lambda obs, state, _: (policy.act_with_disagreement(obs)[0], state),
        venv,
        rollout.make_min_episodes(_EPISODES),
        np.random.default_rng(seed),
    )
    venv.close()
    return mean_disagreement(policy, episodes)
