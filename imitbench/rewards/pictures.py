"""Numbers that describe a learned reward: maps, agreement along episodes, sensitivity.

A `RewardPicture` holds them for one reward; `imitbench.report.reward_figure` draws it, and
`imitbench.experts.reward_pictures` computes it for the reward of a run. All numbers are of single
steps, without discount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from imitbench.rewards.distances import Steps, pearson_distance, spearman_distance, step_rewards
from imitbench.rewards.reward_function import RewardFn

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

REPEATS = 5
"""Permutations of each dimension, whose changes are averaged."""


@dataclass(frozen=True)
class Agreement:
    """Correlations of a learned with the true reward.

    Attributes:
        pearson: Pearson's correlation; `None` where it is undefined, because one side is constant.
        spearman: Spearman's rank correlation, with mean ranks for ties; `None` likewise.
    """

    pearson: float | None
    spearman: float | None


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of rewards, to draw two rewards on one axis.

    Attributes:
        mean: Mean.
        std: Population standard deviation; 0 for a constant reward.
    """

    mean: float
    std: float

    @classmethod
    def of(cls, rewards: Array) -> Scale:
        """Returns the scale of rewards, shape (n,)."""
        values = np.asarray(rewards, np.float64)
        # Rewards that are equal up to the rounding of float32 count as constant.
        std = float(values.std())
        constant = std <= 1e-7 * float(np.abs(values).max(initial=0.0))
        return cls(float(values.mean()), 0.0 if constant else std)

    def apply(self, rewards: Array) -> Floats:
        """Returns standardized rewards: 0 is the mean; constant rewards become 0."""
        centred = np.asarray(rewards, np.float64) - self.mean
        return centred / self.std if self.std > 0 else np.zeros_like(centred)


@dataclass(frozen=True)
class RewardMap:
    """A learned reward beside the true one over two coordinates of the observation.

    Attributes:
        labels: Names of the coordinates.
        x: Values of the first coordinate, shape (columns,).
        y: Values of the second one, shape (rows,).
        learned: Learned rewards, shape (rows, columns).
        true: True rewards in the same states, shape (rows, columns); `None` where the environment
            cannot be put into them.
        visited: Both coordinates and the true rewards of visited states, shape (3, n); they stand
            for `true` where that is `None`.
        agreement: Correlations over the map; `None` without `true`.
        action: How the action in each state is chosen, as a phrase.
        rest: What the other dimensions and the next observation are, as a phrase.
    """

    labels: tuple[str, str]
    x: Floats
    y: Floats
    learned: Floats
    true: Floats | None
    visited: Floats
    agreement: Agreement | None
    action: str
    rest: str


@dataclass(frozen=True)
class Behavior:
    """Rewards along episodes of one policy.

    Attributes:
        name: Who acted: `expert`, `policy` or `random actions`.
        learned: Learned rewards of each episode, each of shape (steps,).
        true: True rewards of each episode, of the same shapes.
        agreement: Correlations over the steps of all episodes.
    """

    name: str
    learned: tuple[Floats, ...]
    true: tuple[Floats, ...]
    agreement: Agreement


@dataclass(frozen=True)
class Sensitivity:
    """How much a reward depends on one dimension.

    Attributes:
        name: Name of the dimension.
        kind: Whether it belongs to the observation or to the action.
        share: Mean absolute change of the reward when the dimension is permuted, as a share of the
            standard deviation of the reward; `None` for a constant reward.
    """

    name: str
    kind: Literal["observation", "action"]
    share: float | None


@dataclass(frozen=True)
class RewardPicture:
    """All that is drawn of a reward.

    Attributes:
        reward: Name of the reward.
        environment: Id of the environment.
        map: The reward over two coordinates.
        behaviors: Rewards along episodes of the expert, the policy and random actions.
        learned_scale: Mean and deviation of the learned reward over the steps of all episodes.
        true_scale: Those of the true reward.
        sensitivities: Dependence on every dimension, observation first.
        steps: Number of visited steps on which `sensitivities` are measured.
        seed: Seed of the episodes and permutations.
    """

    reward: str
    environment: str
    map: RewardMap
    behaviors: tuple[Behavior, ...]
    learned_scale: Scale
    true_scale: Scale
    sensitivities: tuple[Sensitivity, ...]
    steps: int
    seed: int

    def as_document(self) -> dict[str, Any]:
        """Returns the numbers as a document for JSON, without the maps and single steps."""
        drawn = self.map
        return {
            "reward": self.reward,
            "env": self.environment,
            "seed": self.seed,
            "map": {
                "x": {"name": drawn.labels[0], **_ends(drawn.x)},
                "y": {"name": drawn.labels[1], **_ends(drawn.y)},
                "action": drawn.action,
                "others": drawn.rest,
                "learned": _ends(drawn.learned),
                "true": None if drawn.true is None else _ends(drawn.true),
                "agreement": None if drawn.agreement is None else vars(drawn.agreement),
            },
            "scales": {"learned": vars(self.learned_scale), "true": vars(self.true_scale)},
            "episodes": [
                {
                    "behavior": behavior.name,
                    "episodes": len(behavior.true),
                    "steps": sum(map(len, behavior.true)),
                    "learned_return": _mean_return(behavior.learned),
                    "true_return": _mean_return(behavior.true),
                    **vars(behavior.agreement),
                }
                for behavior in self.behaviors
            ],
            "sensitivity": [vars(sensitivity) for sensitivity in self.sensitivities],
            "sensitivity_steps": self.steps,
        }


def agreement(learned: Array, true: Array) -> Agreement:
    """Computes the correlations of a learned with the true reward.

    Args:
        learned: Finite learned rewards of any shape.
        true: True rewards of the same shape.
    """
    return Agreement(
        _correlation(pearson_distance, learned, true),
        _correlation(spearman_distance, learned, true),
    )


def behavior(reward_fn: RewardFn, name: str, episodes: Sequence[tuple[Steps, Array]]) -> Behavior:
    """Computes the rewards along episodes.

    Args:
        reward_fn: The learned reward.
        name: Who acted.
        episodes: Steps of each episode, and their true rewards, shape (steps,); at least one.

    Raises:
        ValueError: A reward is not finite.
    """
    learned = tuple(finite_rewards(reward_fn, steps) for steps, _ in episodes)
    true = tuple(np.asarray(rewards, np.float64) for _, rewards in episodes)
    return Behavior(name, learned, true, agreement(np.concatenate(learned), np.concatenate(true)))


def permutation_sensitivity(
    reward_fn: RewardFn,
    steps: Steps,
    rng: np.random.Generator,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    repeats: int = REPEATS,
) -> tuple[Sensitivity, ...]:
    """Measures how much a reward depends on each dimension, by permuting it among steps.

    A permuted dimension keeps its distribution and loses its relation to everything else. Of an
    observation, it is permuted in the same way in the next observation. The measure is the
    permutation importance of Breiman 2001, "Random Forests", section 10, with the change of the
    reward in place of the error of a prediction. Dimensions that mostly vary together share their
    importance, and permuted steps may be ones that no episode has.

    Args:
        reward_fn: The reward.
        steps: Visited transitions, n of them, with flat observations, shape (n, d).
        rng: Draws the permutations.
        observation_names: Names of the dimensions of an observation; `obs[0]`, … when `None`.
        action_names: Names of the dimensions of an action; likewise.
        repeats: Permutations of each dimension.

    Returns:
        One entry per dimension, those of the observation first.

    Raises:
        ValueError: A reward is not finite.
    """
    rewards = finite_rewards(reward_fn, steps)
    scale = Scale.of(rewards).std
    flat_acts = steps.acts.reshape(len(steps), -1)
    found: list[Sensitivity] = []
    for dim, name in enumerate(observation_names or dimension_names("obs", steps.obs.shape[1])):

        def permuted(order: Array, dim: int = dim) -> Steps:
            obs, next_obs = steps.obs.copy(), steps.next_obs.copy()
            obs[:, dim], next_obs[:, dim] = obs[order, dim], next_obs[order, dim]
            return Steps(obs, steps.acts, next_obs, steps.dones)

        share = _mean_change(reward_fn, rewards, scale, permuted, rng, repeats)
        found.append(Sensitivity(name, "observation", share))
    for dim, name in enumerate(action_names or dimension_names("action", flat_acts.shape[1])):

        def permuted(order: Array, dim: int = dim) -> Steps:
            acts = flat_acts.copy()
            acts[:, dim] = acts[order, dim]
            return Steps(steps.obs, acts.reshape(steps.acts.shape), steps.next_obs, steps.dones)

        share = _mean_change(reward_fn, rewards, scale, permuted, rng, repeats)
        found.append(Sensitivity(name, "action", share))
    return tuple(found)


def _mean_change(
    reward_fn: RewardFn,
    rewards: Floats,
    scale: float,
    permuted: Callable[[Array], Steps],
    rng: np.random.Generator,
    repeats: int,
) -> float | None:
    """Mean absolute change over permutations, as a share of `scale`; `None` if that is 0."""
    changes = [
        float(np.abs(finite_rewards(reward_fn, permuted(rng.permutation(len(rewards)))) - rewards)
              .mean())
        for _ in range(repeats)
    ]  # fmt: skip
    return float(np.mean(changes)) / scale if scale > 0 else None


def finite_rewards(reward_fn: RewardFn, steps: Steps) -> Floats:
    """Returns the rewards of steps, shape (n,).

    Args:
        reward_fn: The reward.
        steps: Transitions, n of them.

    Raises:
        ValueError: A reward is not finite, or there is not one for each step.
    """
    rewards = step_rewards(reward_fn, steps)
    if rewards.shape != (len(steps),):
        raise ValueError(f"gives rewards of shape {rewards.shape} for {len(steps)} steps")
    if not np.isfinite(rewards).all():
        raise ValueError("gives rewards that are not finite")
    return rewards


def dimension_names(what: str, count: int) -> tuple[str, ...]:
    """Returns `what[0]`, `what[1]`, …, or `what` for a single action.

    Args:
        what: `obs` or `action`.
        count: Number of dimensions.
    """
    if what == "action" and count == 1:
        return (what,)
    return tuple(f"{what}[{dim}]" for dim in range(count))


def _correlation(distance: Callable[[Array, Array], float], one: Array, two: Array) -> float | None:
    try:
        return 1.0 - 2.0 * distance(one, two) ** 2
    except ValueError:  # one side is constant
        return None


def _mean_return(episodes: Sequence[Floats]) -> float:
    return float(np.mean([rewards.sum() for rewards in episodes]))


def _ends(values: Floats) -> dict[str, float]:
    return {"min": float(values.min()), "max": float(values.max())}
