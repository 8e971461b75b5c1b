"""Contrastive preference learning in the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces

from imitbench.algorithms.adversarial.discriminator import log_action_probability
from imitbench.algorithms.cpl import CPL, CPLOptions, Policy
from imitbench.algorithms.preference_comparisons import (
    PreferenceDataset,
    RandomFragmenter,
    RecordedGatherer,
)
from imitbench.bench.curve import silent_logger
from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Task
from imitbench.bench.learners.batch_learner import BatchLearner
from imitbench.bench.learners.bc import make_clone_policy, network_arguments
from imitbench.bench.learners.preference_answers import available_comparisons, make_gatherer
from imitbench.bench.seeding import derive_seed
from imitbench.data import rollout
from imitbench.data.observations import assert_not_dictobs
from imitbench.errors import InputError
from imitbench.policies.action_heads import DeterministicPolicy
from imitbench.policies.bounded_actions import ActionBounds, has_bounds
from imitbench.policies.exploration_wrapper import ExplorationWrapper

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

RANDOM_RATES = (0.25, 0.5, 0.75)
"""Shares of random actions in the expert's episodes, so that none is as good as the expert."""


class CPLLearner(BatchLearner):
    """Trains a policy on comparisons of fragments of the expert's spoilt episodes."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Gathers episodes and answers, and builds the policy; `demos` is not used."""
        del demos
        options: dict[str, Any] = dict(task.hyperparameters)
        self.trainer = CPL(
            policy=_make_policy(task),
            dataset=self._compare(task, options, rng),
            rng=rng,
            options=CPLOptions(
                alpha=options["alpha"],
                bias=options["contrastive_bias"],
                discount_factor=options["discount_factor"],
                bc_batches=options["bc_batches"],
                bc_weight=options["bc_weight"],
                batch_size=options["batch_size"],
                learning_rate=options["learning_rate"],
            ),
            device=device,
            custom_logger=silent_logger(),
        )

    def _compare(
        self, task: Task, options: Mapping[str, Any], rng: np.random.Generator
    ) -> PreferenceDataset:
        """Asks about fragments, or takes recorded comparisons."""
        gatherer = make_gatherer(task, options, rng)
        if isinstance(gatherer, RecordedGatherer):
            return gatherer.dataset
        gatherer.logger = silent_logger()
        episodes = spoilt_episodes(task, options["episodes"])
        if options["labels"] == "regret":
            episodes = [_with_advantages(task, episode) for episode in episodes]
        fragmenter = RandomFragmenter(rng, warning_threshold=0, custom_logger=silent_logger())
        length = min(options["fragment_length"], max(map(len, episodes)))
        wanted = available_comparisons(gatherer, options["total_comparisons"])
        pairs = fragmenter(episodes, length, wanted)
        gatherer.observe(episodes)
        answered = gatherer.gather(pairs)
        dataset = PreferenceDataset()
        dataset.push(answered.pairs, answered.preferences, answered.weights)
        if not len(dataset):
            raise InputError(f"all {len(pairs)} comparisons were skipped; choose another teacher")
        return dataset


def spoilt_episodes(task: Task, episodes: int) -> list[TrajectoryWithRew]:
    """Samples episodes of the expert in which shares of actions are random.

    Args:
        task: Environment, seed and expert.
        episodes: Episodes for each of `RANDOM_RATES`.

    Returns:
        Whole episodes with true rewards.
    """
    assert task.expert is not None, "the card needs the expert"
    seed = derive_seed(task.seed, "spoilt episodes")
    venv = make_training_environments(task.environment, episodes, seed)
    rng = np.random.default_rng(seed)
    found: list[TrajectoryWithRew] = []
    for rate in RANDOM_RATES:
        actor = ExplorationWrapper(
            task.expert, venv, random_prob=rate, switch_prob=1.0, rng=rng, stateful=True
        )
        found += rollout.generate_trajectories(
            actor, venv, rollout.make_min_episodes(episodes), rng
        )[:episodes]
    venv.close()
    return found


def _with_advantages(task: Task, episode: TrajectoryWithRew) -> TrajectoryWithRew:
    """The episode with the expert's log-probabilities, its advantages up to a factor, as rewards.

    Within bounds they are those of clipped actions; otherwise an expert that aims beyond a bound
    would seem to regret its own action.

    Raises:
        InputError: The expert's policy has no probabilities.
    """
    assert task.expert is not None, "the card needs the expert"
    device = task.expert.device
    obs, acts = (
        th.as_tensor(np.asarray(array), device=device)
        for array in (assert_not_dictobs(episode.obs)[:-1], episode.acts)
    )
    space = task.action_space
    bounds = ActionBounds.of(space, device) if has_bounds(space) else None
    found = log_action_probability(task.expert, obs, acts, bounds)
    if found is None:
        raise InputError(
            "--set labels=regret: the expert is deterministic and has no probabilities; choose "
            "labels=return"
        )
    return replace(episode, rews=found.cpu().numpy())


def _make_policy(task: Task) -> Policy:
    space: gym.Space[Any] = task.action_space
    if isinstance(space, spaces.Discrete):
        return make_clone_policy(task)
    arguments = network_arguments(task.hyperparameters)
    return DeterministicPolicy(task.observation_space, space, **arguments)
