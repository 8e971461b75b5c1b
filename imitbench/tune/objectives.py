"""Objectives of a search: the true return, or measures that need no reward."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy

from imitbench.bench.protocol import Evaluator
from imitbench.bench.seeding import derive_seed
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import EnvironmentCard
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.trajectories import first_step
from imitbench.data.types import TrajectoryWithRew
from imitbench.policies.tabular import TabularPolicy
from imitbench.records.episodes import Episodes
from imitbench.records.runs import ReferenceScores, RunResult, RunSpec
from imitbench.stats.normalization import has_scale
from imitbench.stats.strata import FloatArray

_BATCH = 4096
_LEAST_PROBABILITY = 1e-12


def mean_log_likelihood(policy: BasePolicy, demos: Sequence[TrajectoryWithRew]) -> float:
    """Computes the mean log-probability (or log-density) of the expert's actions, in nats.

    Args:
        policy: A stochastic policy; it is left in evaluation mode.
        demos: Whole expert episodes.

    Raises:
        UnsuitableObjectiveError: The policy has no action probabilities.
    """
    if isinstance(policy, TabularPolicy):
        return float(np.mean(np.concatenate([_of_table(policy, demo) for demo in demos])))
    transitions = flatten_trajectories(demos)
    policy.set_training_mode(False)
    found = []
    for start in range(0, len(transitions), _BATCH):
        part = transitions[start : start + _BATCH]
        # Unwraps a `DictObs` to a dictionary of arrays.
        plain = part.obs if isinstance(part.obs, np.ndarray) else dict(part.obs.items())
        with th.no_grad():
            found.append(_log_probability(policy, policy.obs_to_tensor(plain)[0], part.acts))
    return float(th.cat(found).double().mean())


def _of_table(policy: TabularPolicy, demo: TrajectoryWithRew) -> npt.NDArray[np.float64]:
    steps = first_step(demo) + np.arange(len(demo))
    chances = policy.probabilities(np.asarray(demo.obs)[:-1], steps)
    start = int(getattr(policy.action_space, "start", 0))
    taken = chances[
        np.arange(len(demo)), np.asarray(demo.acts).reshape(-1).astype(np.int64) - start
    ]
    logarithms: npt.NDArray[np.float64] = np.log(np.maximum(taken, _LEAST_PROBABILITY))
    return logarithms


def _log_probability(
    policy: BasePolicy,
    observations: th.Tensor | dict[str, th.Tensor],
    actions: npt.NDArray[np.generic],
) -> th.Tensor:
    if isinstance(policy, ActorCriticPolicy):
        taken = th.as_tensor(np.array(actions), device=policy.device)
        return policy.evaluate_actions(observations, taken)[1]
    if isinstance(policy, SACPolicy):
        scaled = th.as_tensor(policy.scale_action(np.array(actions)), device=policy.device)
        mean, log_std, kwargs = policy.actor.get_action_dist_params(observations)
        distribution = policy.actor.action_dist.proba_distribution(mean, log_std, **kwargs)
        return distribution.log_prob(scaled.float())
    raise UnsuitableObjectiveError(
        f"a {type(policy).__name__} has no action probabilities, which the likelihood of "
        "demonstrations needs; choose another objective"
    )


class UnsuitableObjectiveError(ValueError):
    """The method does not support the objective."""


Wrapper = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
ObjectiveName = Literal[
    "return", "demo-likelihood", "discriminator", "episode-length", "state-match"
]

_HELD_OUT_SHARE = 0.2
_ACCURACY = "discriminator/accuracy"
_JUDGE = (
    "disc_", "n_disc_", "gradient_penalty", "reward_hidden_", "reward_use_", "normalize_reward",
    "demo_batch_size", "replay_rounds",
)  # fmt: skip


@dataclass(frozen=True)
class EvaluationPoint:
    """The state of a training, during it or at its end.

    Attributes:
        spec: Specification of the run.
        references: References of its environment.
        policy: A copy of the policy, which may be changed.
        demos: Demonstrations used in training.
        held_out: Demonstrations not used in training.
        curve: Points of the learning curve so far.
        episodes: Number of episodes, if the objective needs any.
    """

    spec: RunSpec
    references: ReferenceScores
    policy: BasePolicy
    demos: Sequence[TrajectoryWithRew]
    held_out: Sequence[TrajectoryWithRew]
    curve: Sequence[Mapping[str, float]]
    episodes: int

    def act(self, wrap: Wrapper = lambda environment: environment) -> Episodes:
        """Acts for `episodes` episodes, with the same seeds at each point of a run.

        Args:
            wrap: Applied to each environment.
        """
        seed = derive_seed(self.spec.seed, "tuning")
        lanes = min(self.episodes, self.spec.protocol.environments)
        with Evaluator(self.spec.environment.evaluated, lanes, wrap=wrap) as evaluator:
            return evaluator.evaluate(
                self.policy, episodes=self.episodes, seed=seed, deterministic=False
            )


class Objective(ABC):
    """What a search maximizes.

    Attributes:
        name: Value of `--objective`.
        unit: Name of the quantity, for tables.
        uses_reward: Whether it uses the environment's true reward.
        has_one_scale: Whether values of different environments can be averaged.
    """

    name: ClassVar[ObjectiveName]
    unit: ClassVar[str]
    uses_reward: ClassVar[bool] = False
    has_one_scale: ClassVar[bool] = True

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Returns why it does not apply to an algorithm on an environment, or `None`."""
        return None

    def fixes(self, name: str) -> bool:
        """Whether a hyper-parameter must keep its value, because it changes the objective."""
        return False

    def hold_out(
        self, demos: Sequence[TrajectoryWithRew], spec: RunSpec
    ) -> tuple[Sequence[TrajectoryWithRew], Sequence[TrajectoryWithRew]]:
        """Splits demonstrations into those for training and held-out ones."""
        return demos, []

    @abstractmethod
    def at(self, moment: EvaluationPoint) -> float:
        """Returns the value during a training."""

    def measures(self, moment: EvaluationPoint) -> dict[str, float]:
        """Measures to store with a run's result, from which `of` computes the value."""
        return {self._key: self.at(moment)}

    def of(self, result: RunResult) -> float:
        """Returns the value for a completed run; NaN if missing."""
        return result.measures.get(self._key, math.nan)

    @property
    def _key(self) -> str:
        return f"tuning/{self.name}"


class ReturnObjective(Objective):
    """The score of the evaluation protocol: 0 for random actions, 1 for the expert."""

    name = "return"
    unit = "score"
    uses_reward = True

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Refuses environments where no score is defined."""
        due = environment.scale
        if due is None or has_scale(due.random, due.one):
            return None
        return "score 1 is not above random actions, so that no score is defined"

    def at(self, moment: EvaluationPoint) -> float:
        """Returns the score of a few episodes."""
        episodes, references = moment.act(), moment.references
        headline = references.headline(float(episodes.returns.mean()), episodes.success_rate)
        return references.score(headline)

    def measures(self, moment: EvaluationPoint) -> dict[str, float]:
        """Returns no measures: the result has the return."""
        return {}

    def of(self, result: RunResult) -> float:
        """Returns the score of the run."""
        return result.score()


class _HeldOutDemos(Objective):
    """Base of comparisons with held-out demonstrations."""

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Refuses runs with fewer than two demonstrations."""
        if spec.demos is None:
            return f"{algorithm.name} uses no demonstrations, so none can be held out"
        if spec.demos.every is not None:
            return "holds out whole demonstrations; omit --demo-every"
        if spec.demos.count < 2:
            return "needs at least two demonstrations, one of which is held out; give --n-demos 2"
        return None

    def hold_out(
        self, demos: Sequence[TrajectoryWithRew], spec: RunSpec
    ) -> tuple[Sequence[TrajectoryWithRew], Sequence[TrajectoryWithRew]]:
        """Holds out a fifth, drawn by the seed of the run: the same in every trial."""
        rng = np.random.default_rng(derive_seed(spec.seed, "held-out demonstrations"))
        count = min(max(1, round(_HELD_OUT_SHARE * len(demos))), len(demos) - 1)
        chosen = set(rng.choice(len(demos), size=count, replace=False).tolist())
        return (
            [demo for index, demo in enumerate(demos) if index not in chosen],
            [demos[index] for index in sorted(chosen)],
        )


class DemoLikelihoodObjective(_HeldOutDemos):
    """Mean log-probability of the expert's actions in held-out demonstrations."""

    name = "demo-likelihood"
    unit = "log-likelihood"
    has_one_scale = False

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Refuses runs without actions, too."""
        if spec.demos is not None and spec.demos.actions == "hidden":
            return "compares actions with those of held-out demonstrations, which are hidden"
        return super().refusal(algorithm, environment, spec)

    def at(self, moment: EvaluationPoint) -> float:
        """Returns the log-likelihood under the current policy."""
        return mean_log_likelihood(moment.policy, moment.held_out)


def state_match(expert: FloatArray, policy: FloatArray) -> float:
    """Computes the similarity of visited states: 1 if equal, near 0 if very different.

    It is 1 / (1 + d / √entries), where d is the Fréchet distance between Gaussians fitted to both
    sets of observations, in units of the expert's standard deviations.

    Args:
        expert: The expert's observations, shape (observations, entries).
        policy: The policy's observations, same number of entries.

    Source: Hussenot et al. 2021, *Hyperparameter Selection for Imitation Learning*: distances
    between state distributions rank settings almost like the true return.
    """
    deviations = expert.std(axis=0)
    scale = np.where(deviations > 1e-8, deviations, 1.0)  # constant entries
    squared = _frechet_squared((expert - expert.mean(axis=0)) / scale,
                               (policy - expert.mean(axis=0)) / scale)  # fmt: skip
    return float(1 / (1 + np.sqrt(squared / expert.shape[1])))


def _frechet_squared(first: FloatArray, second: FloatArray) -> float:
    """Returns |μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½) of fitted Gaussians.

    Source: Dowson and Landau 1982.
    """
    one, other = (np.atleast_2d(np.cov(states, rowvar=False)) for states in (first, second))
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    # The eigenvalues of Σ₁ Σ₂, from a symmetric matrix.
    shared = np.clip(np.linalg.eigvalsh(root @ other @ root), 0.0, None)
    apart = first.mean(axis=0) - second.mean(axis=0)
    squared = apart @ apart + np.trace(one) + np.trace(other) - 2 * np.sqrt(shared).sum()
    return max(0.0, float(squared))


class StateMatchObjective(_HeldOutDemos):
    """Similarity of the states in the policy's episodes and in held-out demonstrations.

    The measure of similarity is the same for all settings. Of a single demonstration or thinned
    ones, none is held out: to be where they are, a policy has to act like the expert anyway.
    """

    name = "state-match"
    unit = "state match"

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Refuses runs without demonstrations."""
        if spec.demos is None:
            return f"{algorithm.name} uses no demonstrations, which give the expert's states"
        return None

    def hold_out(
        self, demos: Sequence[TrajectoryWithRew], spec: RunSpec
    ) -> tuple[Sequence[TrajectoryWithRew], Sequence[TrajectoryWithRew]]:
        """Holds out a fifth; nothing, but compares with all, where that is not possible."""
        if len(demos) < 2 or (spec.demos is not None and spec.demos.every is not None):
            return demos, demos
        return super().hold_out(demos, spec)

    def at(self, moment: EvaluationPoint) -> float:
        """Returns the similarity in a few episodes."""
        expert = [demo.obs for demo in moment.held_out if isinstance(demo.obs, np.ndarray)]
        if len(expert) < len(moment.held_out):
            raise UnsuitableObjectiveError(
                f"observations of {moment.spec.environment.id} are not arrays; choose another "
                "objective"
            )
        seen: list[FloatArray] = []

        def log(observation: Any) -> Any:
            seen.append(np.asarray(observation, dtype=np.float64).ravel())
            return observation

        moment.act(lambda env: gym.wrappers.TransformObservation(env, log, None))
        rows = np.concatenate(expert).astype(np.float64)
        return state_match(rows.reshape(len(rows), -1), np.stack(seen))


class DiscriminatorObjective(Objective):
    """How close the discriminator's recent accuracy is to chance: 1 at chance, 0 if perfect.

    A badly trained discriminator is at chance as well, so its hyper-parameters keep their values.
    """

    name = "discriminator"
    unit = "confusion"

    def fixes(self, name: str) -> bool:
        """Whether a hyper-parameter affects the discriminator."""
        return name.startswith(_JUDGE)

    def at(self, moment: EvaluationPoint) -> float:
        """Returns the mean of 1 - 2 |accuracy - 1/2| over the last quarter of the curve."""
        accuracies = [point[_ACCURACY] for point in moment.curve if _ACCURACY in point]
        if not accuracies:
            raise UnsuitableObjectiveError(
                f"the learning curve of {moment.spec.algo} has no {_ACCURACY}, which only "
                "adversarial methods have; choose another objective"
            )
        lately = np.array(accuracies[-max(1, len(accuracies) // 4) :])
        return float((1 - 2 * np.abs(lately - 0.5)).mean())


class EpisodeLengthObjective(Objective):
    """Minus the relative difference of episode lengths to the expert's: 0 at best."""

    name = "episode-length"
    unit = "length match"

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Refuses fixed episode lengths, and methods without demonstrations."""
        if environment.horizon == "fixed":
            return "all episodes have the same length, so it says nothing about a policy"
        if spec.demos is None:
            return f"{algorithm.name} uses no demonstrations, which give the expert's lengths"
        if spec.demos.every is not None:
            return "needs the lengths of whole demonstrations; omit --demo-every"
        return None

    def at(self, moment: EvaluationPoint) -> float:
        """Returns the objective in a few episodes."""
        return _match(float(moment.act().lengths.mean()), _mean_length(moment.demos))

    def measures(self, moment: EvaluationPoint) -> dict[str, float]:
        """Returns the expert's mean length; the result has the policy's."""
        return {self._key: _mean_length(moment.demos)}

    def of(self, result: RunResult) -> float:
        """Returns the objective in the evaluation."""
        return _match(result.mean_length, super().of(result))


def _mean_length(demos: Sequence[TrajectoryWithRew]) -> float:
    return float(np.mean([len(demo) for demo in demos]))


def _match(length: float, wanted: float) -> float:
    return -abs(length - wanted) / wanted


OBJECTIVES: dict[ObjectiveName, Objective] = {
    objective.name: objective
    for objective in (
        ReturnObjective(),
        DemoLikelihoodObjective(),
        DiscriminatorObjective(),
        EpisodeLengthObjective(),
        StateMatchObjective(),
    )
}
"""All objectives, by name."""
