"""Trajectory-ranked reward extrapolation (T-REX): a reward that explains a ranking, then PPO on it.

Pairs of snippets are cut from trajectories of different ranks. A reward of observations is fitted,
so that the snippet of the better trajectory has the greater return. A policy then optimizes that
reward, which stays fixed, and may become better than the best trajectory.

Source: Brown, Goo, Nagarajan and Niekum 2019, "Extrapolating Beyond Suboptimal Demonstrations via
Inverse Reinforcement Learning from Observations".
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.adversarial.generator import Experience, Generator, make_generator
from imitbench.algorithms.base import BaseImitationAlgorithm
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.fragmenters import cut_fragment
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
)
from imitbench.algorithms.preference_comparisons.reward_trainers import make_reward_trainer
from imitbench.data.types import TrajectoryWithRew, TrajectoryWithRewPair
from imitbench.errors import InputError
from imitbench.rewards.base import RewardNet
from imitbench.rl.stable_ppo import train_as_lean
from imitbench.util.logger import HierarchicalLogger

Array = npt.NDArray[Any]

_SAME = 1e-9  # differences of values below this are rounding


@dataclass(frozen=True)
class ExtrapolationOptions:
    """How snippets are drawn, and how the reward is fitted to them.

    Attributes:
        pairs: Number of pairs of snippets.
        snippet_length: Steps of each snippet; those of a shorter trajectory are as long as it.
        later_start: Whether the snippet of the better trajectory starts no earlier than the other.
        margin: Least difference of the values of two trajectories that are compared.
        noise_prob: Assumed share of pairs whose order is random, in [0, 1].
        epochs: Passes over all pairs.
        batch_size: Pairs for each step of the optimizer.
        learning_rate: Learning rate of AdamW.
    """

    pairs: int = 5_000
    snippet_length: int = 50
    later_start: bool = True
    margin: float = 0.0
    noise_prob: float = 0.0
    epochs: int = 3
    batch_size: int = 64
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class RankedTrajectories:
    """Trajectories, some of which are better than others.

    Attributes:
        trajectories: Of any length; only their observations are used.
        values: How good each is, shape `(len(trajectories),)`; greater is better, equal is a tie.
    """

    trajectories: Sequence[TrajectoryWithRew]
    values: Array


def draw_snippets(
    ranked: RankedTrajectories, options: ExtrapolationOptions, rng: np.random.Generator
) -> list[TrajectoryWithRewPair]:
    """Draws pairs of equally long snippets of trajectories with different values.

    A pair of trajectories is drawn uniformly among those whose values differ, then the start of the
    worse one's snippet, then that of the better one's. With `later_start` the latter is no earlier
    in its episode: the prior that trajectories make progress, of the authors' experiments on Atari.

    Args:
        ranked: The trajectories.
        options: Number and length of the snippets, `later_start` and `margin`.
        rng: Draws everything.

    Returns:
        Pairs of the better and the worse snippet, whose arrays are views.

    Raises:
        InputError: No two values differ by more than 0 and at least `margin`.
    """
    differences = ranked.values[None, :] - ranked.values[:, None]
    worse, better = np.nonzero((differences > _SAME) & (differences >= options.margin - _SAME))
    if not len(worse):
        least = f" by at least {options.margin:g}" if options.margin else ""
        raise InputError(
            f"ranking: no two of {len(ranked.values)} trajectories have ranks that differ{least}; "
            "give trajectories of different quality"
        )
    chosen = rng.integers(len(worse), size=options.pairs)
    worse, better = worse[chosen], better[chosen]
    steps = np.array([len(trajectory) for trajectory in ranked.trajectories])
    lengths = np.minimum(options.snippet_length, np.minimum(steps[worse], steps[better]))
    if options.later_start:
        latest = np.minimum(steps[worse], steps[better]) - lengths
        starts = rng.integers(0, latest, endpoint=True)
        later = rng.integers(starts, steps[better] - lengths, endpoint=True)
    else:
        starts = rng.integers(0, steps[worse] - lengths, endpoint=True)
        later = rng.integers(0, steps[better] - lengths, endpoint=True)
    cuts = zip(
        *(column.tolist() for column in (better, later, worse, starts, lengths)),
        strict=True,
    )
    every = ranked.trajectories
    return [
        (cut_fragment(every[good], at, at + size), cut_fragment(every[bad], start, start + size))
        for good, at, bad, start, size in cuts
    ]


class RewardExtrapolation(BaseImitationAlgorithm):
    """Fits a reward to ranked trajectories, then trains a policy on it.

    Call `train_reward`, then `train_policy`. A subclass says in `ranked` where the trajectories
    come from.

    Args:
        venv: Environments in which the policy is trained.
        rng: Source of all randomness, except that of `rl_algo`.
        rl_algo: Trains the policy. Its environment is replaced by `venv`.
        reward_net: The reward, a network or an ensemble in evaluation mode for the policy. It must
            not use actions.
        options: How snippets are drawn, and how the reward is fitted.
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether the policy's episodes may differ in length.

    Attributes:
        accuracy: Share of pairs of new snippets that the reward orders rightly, in [0, 1]; `None`
            before the reward is fitted.
        env_steps: Environment steps that `train_reward` took.

    Raises:
        ValueError: `reward_net` uses actions.
    """

    accuracy: float | None = None
    env_steps: int = 0

    def __init__(
        self,
        *,
        venv: VecEnv,
        rng: np.random.Generator,
        rl_algo: BaseAlgorithm,
        reward_net: RewardNet,
        options: ExtrapolationOptions | None = None,
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=allow_variable_horizon)
        if any(getattr(module, "use_action", False) for module in reward_net.modules()):
            raise ValueError("reward_net: uses actions; make it with use_action=False")
        self.venv = venv
        self.rng = rng
        self.rl_algo = rl_algo
        self.reward_net = reward_net
        self.options = options or ExtrapolationOptions()
        train_as_lean(rl_algo, "rl_algo")
        rl_algo.set_logger(self.logger)
        self._generator = make_generator(rl_algo, venv, self._reward)

    @abstractmethod
    def ranked(self) -> RankedTrajectories:
        """Returns trajectories and how good they are."""

    @property
    def policy(self) -> BasePolicy:
        """The policy that optimizes the reward."""
        policy = self.rl_algo.policy
        assert policy is not None, "an algorithm has its policy from the start"
        return policy

    @property
    def generator(self) -> Generator:
        """What trains the policy on the reward."""
        return self._generator

    def train_reward(self) -> None:
        """Fits the reward to pairs of snippets, by the cross-entropy of their order.

        Raises:
            InputError: All trajectories are equally good.
        """
        found = self.ranked()
        space = self.venv.action_space
        seen = [_only_observations(trajectory, space) for trajectory in found.trajectories]
        ranked = RankedTrajectories(seen, found.values)
        model = PreferenceModel(self.reward_net, noise_prob=self.options.noise_prob)
        options = {
            "epochs": self.options.epochs,
            "lr": self.options.learning_rate,
            "batch_size": self.options.batch_size,
            "custom_logger": self.logger,
        }
        trainer = make_reward_trainer(model, CrossEntropyRewardLoss(), self.rng, options)
        dataset = PreferenceDataset()
        dataset.push(*self._compared(ranked))
        trainer.train(dataset)
        self.accuracy = model.agreement(*self._compared(ranked))

    def _compared(
        self, ranked: RankedTrajectories
    ) -> tuple[list[TrajectoryWithRewPair], npt.NDArray[np.float32]]:
        """New pairs of snippets, and the probabilities that the first are preferred."""
        pairs = draw_snippets(ranked, self.options, self.rng)
        return pairs, np.ones(len(pairs), dtype=np.float32)

    def _reward(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        return self.reward_net.predict_processed(
            state, action, next_state, done, update_stats=False
        )

    def train_policy(self, n_timesteps: int = 1_000_000, **kwargs: Any) -> None:
        """Trains the policy on the reward, which stays as it is.

        Args:
            n_timesteps: Environment steps, summed over environments.
            **kwargs: Passed on to the algorithm's `learn`.

        Raises:
            ValueError: `train_reward` was not called, or episodes differ in length without
                `allow_variable_horizon`.
        """
        if self.accuracy is None:
            raise ValueError("the reward is not fitted yet: call train_reward() first")
        self.end_round(self._generator.learn(n_timesteps, **kwargs))

    def end_round(self, experience: Experience) -> None:
        """What `train_policy` does after the policy has learnt.

        Args:
            experience: What it has gained.

        Raises:
            ValueError: Episodes differ in length without `allow_variable_horizon`.
        """
        self._check_fixed_horizon(experience.episode_lengths)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on.

        Excludes the state of the environments and of torch's and NumPy's global generators.

        Returns:
            Tensors, arrays, numbers, strings, `None`, and lists and dictionaries of them.
        """
        return {
            "generator": self._generator.state_dict(),
            "reward": copy.deepcopy(self.reward_net.state_dict()),
            "accuracy": self.accuracy,
            "env_steps": self.env_steps,
            "rng": copy.deepcopy(self.rng.bit_generator.state),
            "horizon": self._horizon,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; restore the environments after that."""
        self._generator.load_state_dict(state["generator"])
        self.reward_net.load_state_dict(state["reward"])
        self.accuracy, self.env_steps = state["accuracy"], state["env_steps"]
        self.rng.bit_generator.state = state["rng"]
        self._horizon = state["horizon"]


class TREX(RewardExtrapolation):
    """T-REX: the ranks of the trajectories are given.

    Args:
        demonstrations: The best trajectories, equally good; may be empty.
        supplement: Further trajectories. All must be whole, as snippets are consecutive steps.
        ranks: Rank of each trajectory of `supplement`, shape `(len(supplement),)`, integers:
            greater is better, equal is a tie, from which nothing is learned.
        **kwargs: See `RewardExtrapolation`.

    Raises:
        InputError: All trajectories of `supplement` have the same rank.
        ValueError: There is not one rank for each trajectory of `supplement`.
    """

    def __init__(
        self,
        *,
        demonstrations: Sequence[TrajectoryWithRew],
        supplement: Sequence[TrajectoryWithRew],
        ranks: npt.NDArray[np.integer[Any]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if np.shape(ranks) != (len(supplement),) or not len(supplement):
            raise ValueError(
                f"ranks has shape {np.shape(ranks)}; give one rank for each of {len(supplement)} "
                "trajectories, and at least one"
            )
        if len(supplement) > 1 and (ranks == ranks[0]).all():
            raise InputError(
                f"ranks: all {len(supplement)} trajectories have rank {ranks[0]}, so that there is "
                "no ranking; give trajectories of different quality"
            )
        best = np.full(len(demonstrations), ranks.max() + 1)
        self._ranked = RankedTrajectories(
            [*supplement, *demonstrations], np.concatenate([ranks, best]).astype(np.float64)
        )

    def ranked(self) -> RankedTrajectories:
        """The given trajectories; the demonstrations are better than all others."""
        return self._ranked


def _only_observations(trajectory: TrajectoryWithRew, space: gym.Space[Any]) -> TrajectoryWithRew:
    """Replaces actions and rewards by zeros, so that nothing learns from them.

    Hidden actions have no entries, so that a network could not encode them.
    """
    steps = len(trajectory)
    return TrajectoryWithRew(
        obs=trajectory.obs,
        acts=np.zeros((steps, *(space.shape or ())), dtype=space.dtype),
        infos=None,
        terminal=trajectory.terminal,
        rews=np.zeros(steps),
    )
