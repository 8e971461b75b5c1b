"""Preference comparisons: the algorithm that alternates between preferences and training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.base import BaseImitationAlgorithm
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.fragmenters import Fragmenter, RandomFragmenter
from imitbench.algorithms.preference_comparisons.gatherers import (
    PreferenceGatherer,
    SyntheticGatherer,
)
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
)
from imitbench.algorithms.preference_comparisons.reward_trainers import (
    RewardTrainer,
    make_reward_trainer,
)
from imitbench.algorithms.preference_comparisons.trajectory_generators import TrajectoryGenerator
from imitbench.data.types import TrajectoryWithRewPair
from imitbench.rewards.base import RewardNet
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.util import oric

Schedule = Callable[[float], float]
"""Maps the share of rounds passed, in [0, 1], to an unnormalized number of comparisons."""

QUERY_SCHEDULES: dict[str, Schedule] = {
    "constant": lambda _elapsed: 1.0,
    "hyperbolic": lambda elapsed: 1.0 / (1.0 + elapsed),
    "inverse_quadratic": lambda elapsed: 1.0 / (1.0 + elapsed**2),
}
"""Schedules by name; decreasing ones spend most comparisons while the agent changes most."""


@dataclass(frozen=True)
class TrainingRound:
    """Budget of one round.

    Attributes:
        comparisons: Pairs of fragments to compare.
        timesteps: Environment steps to train the agent for.
        epoch_multiplier: Factor on the reward's training epochs.
    """

    comparisons: int
    timesteps: int
    epoch_multiplier: float = 1.0


def find_schedule(query_schedule: str | Schedule) -> Schedule:
    """Finds a schedule by name; functions pass unchanged.

    Raises:
        ValueError: `query_schedule` is neither a function nor a known name.
    """
    if callable(query_schedule):
        return query_schedule
    if query_schedule not in QUERY_SCHEDULES:
        raise ValueError(
            f"query_schedule: no schedule '{query_schedule}'; choose one of "
            f"{', '.join(QUERY_SCHEDULES)}, or pass a function of the share of rounds passed"
        )
    return QUERY_SCHEDULES[query_schedule]


def plan_comparisons(
    total: int, num_iterations: int, initial_frac: float, schedule: Schedule
) -> list[int]:
    """Spreads exactly `total` comparisons over rounds.

    Args:
        total: Comparisons of all rounds together.
        num_iterations: Number of rounds that follow the schedule.
        initial_frac: Share of the comparisons in a round before these, in [0, 1].
        schedule: Gives each round's weight.

    Returns:
        Comparisons of each round. Omits the round before the scheduled ones if its share is less
        than one comparison.

    Raises:
        ValueError: The schedule has a negative or non-finite value, or a round would have no
            comparison, for example because all are made in advance.
    """
    initial = int(total * initial_frac)
    if initial == total > 0:
        raise ValueError(
            f"initial_comparison_frac={initial_frac:g} takes all {total} comparisons, which leaves "
            "none for later rounds; lower it"
        )
    weights = np.array([schedule(float(t)) for t in np.linspace(0, 1, num_iterations)])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError(
            f"query_schedule: weights must be finite, at least 0 and not all 0, not {weights}"
        )
    shares = oric(weights / weights.sum() * (total - initial)).astype(int).tolist()
    if not all(shares):
        raise ValueError(
            f"total_comparisons={total} is too small: spread over {num_iterations} iterations, "
            f"after {initial} in advance, it gives {shares}; use more comparisons or fewer "
            "iterations"
        )
    return [initial, *shares] if initial else shares


def plan_rounds(
    comparisons: list[int], total_timesteps: int, initial_epoch_multiplier: float
) -> list[TrainingRound]:
    """Adds environment steps, divided evenly; the last round gets the remainder.

    Args:
        comparisons: Comparisons of each round.
        total_timesteps: Environment steps of the agent's training in all rounds.
        initial_epoch_multiplier: Factor on the reward's training epochs in the first round.
    """
    share, rest = divmod(total_timesteps, len(comparisons))
    last = len(comparisons) - 1
    return [
        TrainingRound(
            comparisons=number,
            timesteps=share + (rest if index == last else 0),
            epoch_multiplier=initial_epoch_multiplier if index == 0 else 1.0,
        )
        for index, number in enumerate(comparisons)
    ]


_FINAL = "reward/final/train/"


class PreferenceComparisons(BaseImitationAlgorithm):
    """Learns a reward from comparisons of trajectory fragments, and trains an agent on it.

    Christiano et al. 2017, "Deep reinforcement learning from human preferences",
    https://arxiv.org/abs/1706.03741.

    Args:
        trajectory_generator: Samples trajectories, and trains an agent if it has one. It and all
            other components get this algorithm's logger.
        reward_model: The reward to learn.
        num_iterations: Rounds over which `query_schedule` spreads the comparisons.
        fragmenter: Makes pairs of fragments; `RandomFragmenter` by default.
        preference_gatherer: Says which fragment is better; by default `SyntheticGatherer`, which
            reads the environment's own reward.
        reward_trainer: Trains `reward_model`; by default with `CrossEntropyRewardLoss`.
        comparison_queue_size: Number of latest comparisons kept for training; `None` for all.
        fragment_length: Steps of each fragment.
        transition_oversampling: Transitions sampled per transition that the fragments need; above
            1, fragments overlap less.
        initial_comparison_frac: Share of all comparisons in a first round before the scheduled
            ones, with the untrained agent.
        initial_epoch_multiplier: Factor on the reward's training epochs in the first round.
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether episodes of different length are accepted. The end of an
            episode reveals information about the reward, which can decide a comparison of methods.
        rng: Random generator of the default components; required if any is used, else not allowed.
        query_schedule: `constant`, `hyperbolic`, `inverse_quadratic`, or a function from the share
            of rounds passed, in [0, 1], to an unnormalized number of comparisons.

    Attributes:
        model: The reward network.
        dataset: The comparisons gathered so far.

    Raises:
        ValueError: An argument is out of range, `query_schedule` is unknown, or `rng` is missing or
            not used.
    """

    def __init__(
        self,
        trajectory_generator: TrajectoryGenerator,
        reward_model: RewardNet,
        num_iterations: int,
        fragmenter: Fragmenter | None = None,
        preference_gatherer: PreferenceGatherer | None = None,
        reward_trainer: RewardTrainer | None = None,
        comparison_queue_size: int | None = None,
        fragment_length: int = 100,
        transition_oversampling: float = 1,
        initial_comparison_frac: float = 0.1,
        initial_epoch_multiplier: float = 200.0,
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
        rng: np.random.Generator | None = None,
        query_schedule: str | Schedule = "hyperbolic",
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=allow_variable_horizon)
        _check_range("num_iterations", num_iterations, 1)
        _check_range("fragment_length", fragment_length, 1)
        _check_range("initial_comparison_frac", initial_comparison_frac, 0, 1)
        given = (fragmenter, preference_gatherer, reward_trainer)
        if rng is None and None in given:
            raise ValueError(
                "rng: give numpy.random.default_rng(seed), or all of fragmenter, "
                "preference_gatherer and reward_trainer"
            )
        if rng is not None and None not in given:
            raise ValueError(
                "rng would not be used: fragmenter, preference_gatherer and reward_trainer are "
                "given and have their own; leave rng out"
            )
        self.model = reward_model
        self.num_iterations = num_iterations
        self.fragment_length = fragment_length
        self.transition_oversampling = transition_oversampling
        self.initial_comparison_frac = initial_comparison_frac
        self.initial_epoch_multiplier = initial_epoch_multiplier
        self.query_schedule = find_schedule(query_schedule)
        self.rng = rng
        # Without `rng`, no default component is made.
        generator = rng if rng is not None else np.random.default_rng()
        self.fragmenter = fragmenter or RandomFragmenter(generator)
        self.preference_gatherer = preference_gatherer or SyntheticGatherer(rng=generator)
        if reward_trainer is None:
            reward_trainer = make_reward_trainer(
                PreferenceModel(reward_model), CrossEntropyRewardLoss(), generator
            )
        self.reward_trainer = reward_trainer
        self.trajectory_generator = trajectory_generator
        self.dataset = PreferenceDataset(max_size=comparison_queue_size)
        self._preference_model = PreferenceModel(reward_model)
        self._iteration = 0
        self._share_logger()

    @property
    def _parts(
        self,
    ) -> dict[str, TrajectoryGenerator | Fragmenter | PreferenceGatherer | RewardTrainer]:
        return {
            "trajectory_generator": self.trajectory_generator,
            "fragmenter": self.fragmenter,
            "preference_gatherer": self.preference_gatherer,
            "reward_trainer": self.reward_trainer,
        }

    def _share_logger(self) -> None:
        for part in self._parts.values():
            part.logger = self.logger

    def plan(self, total_timesteps: int, total_comparisons: int) -> list[TrainingRound]:
        """Plans the rounds of `train`, whose comparisons and timesteps add up to the totals.

        Args:
            total_timesteps: Environment steps of the agent's training.
            total_comparisons: Comparisons to gather in all rounds.

        Raises:
            ValueError: There are too few comparisons for the rounds.
        """
        comparisons = plan_comparisons(
            total_comparisons,
            self.num_iterations,
            self.initial_comparison_frac,
            self.query_schedule,
        )
        return plan_rounds(comparisons, total_timesteps, self.initial_epoch_multiplier)

    def train(
        self,
        total_timesteps: int,
        total_comparisons: int,
        callback: Callable[[int], None] | None = None,
    ) -> Mapping[str, Any]:
        """Trains the reward, and the agent if there is one.

        Args:
            total_timesteps: Environment steps of the agent's training. Sampling for comparisons
                takes further steps, and on-policy algorithms complete their last rollout.
            total_comparisons: Comparisons to gather in all rounds.
            callback: Called after each round with its number, counted over all calls.

        Returns:
            `reward_loss` and `reward_accuracy` of the last epoch of the last round.

        Raises:
            ValueError: There are too few comparisons for the rounds, episodes differ in length,
                or no trajectory is as long as a fragment.
        """
        rounds = self.plan(total_timesteps, total_comparisons)
        self.logger.log(f"Query schedule: {[step.comparisons for step in rounds]}")
        metrics: Mapping[str, Any] = {}
        for step in rounds:
            metrics = self.run_round(step)
            if callback is not None:
                callback(self._iteration - 1)
        return {key: metrics[key] for key in ("reward_loss", "reward_accuracy")}

    def run_round(self, step: TrainingRound) -> dict[str, float]:
        """Gathers comparisons, trains the reward on all so far, then trains the agent.

        Args:
            step: Comparisons, timesteps and epochs of the round.

        Returns:
            `reward_loss` and `reward_accuracy` of the last epoch, and `held_out_accuracy`: how
            often the reward agreed with the new preferences before training on them, ties counting
            half. They are NaN without comparisons, if all were skipped.

        Raises:
            ValueError: Episodes differ in length, or no trajectory is as long as a fragment.
        """
        metrics = self.begin_round(step)
        with self.logger.accumulate_means("agent"):
            self.logger.log(f"Training agent for {step.timesteps} timesteps")
            self.trajectory_generator.train(steps=step.timesteps)
        self.end_round()
        return metrics

    def begin_round(self, step: TrainingRound) -> dict[str, float]:
        """What `run_round` does before the agent is trained; arguments and result are the same."""
        self._share_logger()
        metrics = {"reward_loss": math.nan, "reward_accuracy": math.nan}
        metrics["held_out_accuracy"] = self._gather(step.comparisons)
        if len(self.dataset):
            self.reward_trainer.train(self.dataset, epoch_multiplier=step.epoch_multiplier)
            prefix = self.logger.get_accumulate_prefixes() + _FINAL
            logged = self.logger.default_logger.name_to_value
            for name in ("loss", "accuracy"):
                metrics[f"reward_{name}"] = float(logged[prefix + name])
        else:
            self.logger.warn("All comparisons so far were skipped: the reward is untrained.")
        return metrics

    def end_round(self) -> None:
        """What `run_round` does after the agent was trained."""
        self.logger.dump(self._iteration)
        self._iteration += 1

    def transitions_for(self, comparisons: int) -> int:
        """Number of transitions that are sampled for this many pairs of fragments."""
        return math.ceil(self.transition_oversampling * 2 * comparisons * self.fragment_length)

    def _gather(self, comparisons: int) -> float:
        """Adds comparisons to the dataset; returns how well the reward predicted them."""
        transitions = self.transitions_for(comparisons)
        self.logger.log(f"Collecting {2 * comparisons} fragments ({transitions} transitions)")
        trajectories = self.trajectory_generator.sample(transitions)
        # Trajectories start at a reset, but may lack the end of their episode.
        self._check_fixed_horizon(len(whole) for whole in trajectories if whole.terminal)
        self.logger.log("Creating fragment pairs")
        pairs = self.fragmenter(trajectories, self.fragment_length, comparisons)
        with self.logger.accumulate_means("preferences"):
            self.logger.log("Gathering preferences")
            self.preference_gatherer.observe(trajectories)
            answered = self.preference_gatherer.gather(pairs)
            accuracy = self._agreement(answered.pairs, answered.preferences)
            self.logger.record("held_out_accuracy", accuracy)
        self.dataset.push(answered.pairs, answered.preferences, answered.weights)
        self.logger.log(f"Dataset now contains {len(self.dataset)} comparisons")
        return accuracy

    def _agreement(
        self, pairs: Sequence[TrajectoryWithRewPair], preferences: npt.NDArray[np.float32]
    ) -> float:
        answered = np.flatnonzero(~np.isnan(preferences)).tolist()
        if not answered:
            return math.nan
        return self._preference_model.agreement(
            [pairs[index] for index in answered], preferences[answered]
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, at the end of a round.

        Excludes the state of the environments and of the global random generators.
        """
        return {
            "model": copy.deepcopy(self.model.state_dict()),
            "dataset": self.dataset.state_dict(),
            "iteration": self._iteration,
            "horizon": self._horizon,
            **{name: part.state_dict() for name, part in self._parts.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.model.load_state_dict(state["model"])
        self.dataset.load_state_dict(state["dataset"])
        self._iteration = state["iteration"]
        self._horizon = state["horizon"]
        for name, part in self._parts.items():
            part.load_state_dict(state[name])


def _check_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    if not least <= value <= most:
        bounds = f"from {least} to {most}" if most < math.inf else f"at least {least}"
        raise ValueError(f"{name} must be {bounds}, not {value}")
