"""What a search maximizes: the true return, or something that can be had without any reward."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from imitbench.bench.protocol import Evaluator
from imitbench.bench.seeding import derive_seed
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import EnvironmentCard
from imitbench.stats.references import normalize
from imitbench.store.records import ReferenceScores, RunResult, RunSpec
from imitbench.tune.unsuitable import UnsuitableObjectiveError

if TYPE_CHECKING:
    import gymnasium as gym
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.bench.protocol import Episodes
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.stats.strata import FloatArray

Wrapper = Callable[["gym.Env[Any, Any]"], "gym.Env[Any, Any]"]
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
class Moment:
    """A moment of a training, or its end.

    Attributes:
        spec: The run.
        references: References of its environment.
        policy: A copy of the policy, with which anything may be done.
        demos: Demonstrations that are learned from.
        held_out: Demonstrations that are not.
        curve: Points of the learning curve so far.
        episodes: How many episodes to act, where that is needed.
    """

    spec: RunSpec
    references: ReferenceScores
    policy: BasePolicy
    demos: Sequence[TrajectoryWithRew]
    held_out: Sequence[TrajectoryWithRew]
    curve: Sequence[Mapping[str, float]]
    episodes: int

    def act(self, wrap: Wrapper = lambda environment: environment) -> Episodes:
        """Acts for some episodes, which are the same ones at every moment of a run.

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
    """What is maximized.

    Attributes:
        name: What `--objective` calls it.
        unit: What its numbers are, for tables.
        uses_reward: Whether the environment's true reward tells it.
        has_one_scale: Whether numbers of different environments can be averaged.
    """

    name: ClassVar[ObjectiveName]
    unit: ClassVar[str]
    uses_reward: ClassVar[bool] = False
    has_one_scale: ClassVar[bool] = True

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Why it cannot be had for an algorithm on an environment, as far as cards tell."""
        return None

    def fixes(self, name: str) -> bool:
        """Whether a hyper-parameter must keep its value, as it would move the goal-posts."""
        return False

    def hold_out(
        self, demos: Sequence[TrajectoryWithRew], spec: RunSpec
    ) -> tuple[Sequence[TrajectoryWithRew], Sequence[TrajectoryWithRew]]:
        """Divides demonstrations into those that are learned from and others."""
        return demos, []

    @abstractmethod
    def at(self, moment: Moment) -> float:
        """Its value in the course of a training."""

    def measures(self, moment: Moment) -> dict[str, float]:
        """What is kept with the result of a run to tell its value."""
        return {self._key: self.at(moment)}

    def of(self, result: RunResult) -> float:
        """Its value for a completed run; NaN if there is none."""
        return result.measures.get(self._key, math.nan)

    @property
    def _key(self) -> str:
        return f"tuning/{self.name}"


class ReturnObjective(Objective):
    """The score of the evaluation protocol: 0 for random actions, 1 for the expert."""

    name = "return"
    unit = "score"
    uses_reward = True

    def at(self, moment: Moment) -> float:
        """The score of a few episodes."""
        references = moment.references
        mean = float(moment.act().returns.mean())
        return normalize(mean, references.random, references.expert)

    def measures(self, moment: Moment) -> dict[str, float]:
        """Nothing: the result says it."""
        return {}

    def of(self, result: RunResult) -> float:
        """The score of the run."""
        references = result.references
        return normalize(result.raw_return, references.random, references.expert)


class _HeldOutDemos(Objective):
    """Compares with demonstrations that nothing learns from."""

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Without two demonstrations, none can be held out."""
        if spec.demos is None:
            return f"{algorithm.name} learns from no demonstrations, so none can be held out"
        if spec.demos.count < 2:
            return "needs at least two demonstrations, one of which is held out; give --n-demos 2"
        return None

    def hold_out(
        self, demos: Sequence[TrajectoryWithRew], spec: RunSpec
    ) -> tuple[Sequence[TrajectoryWithRew], Sequence[TrajectoryWithRew]]:
        """A fifth, drawn by the seed of the run: every trial holds out the same ones."""
        rng = np.random.default_rng(derive_seed(spec.seed, "held-out demonstrations"))
        count = min(max(1, round(_HELD_OUT_SHARE * len(demos))), len(demos) - 1)
        chosen = set(rng.choice(len(demos), size=count, replace=False).tolist())
        return (
            [demo for place, demo in enumerate(demos) if place not in chosen],
            [demos[place] for place in sorted(chosen)],
        )


class DemoLikelihood(_HeldOutDemos):
    """Mean log-probability of the expert's actions in demonstrations that nothing learns from."""

    name = "demo-likelihood"
    unit = "log-likelihood"
    has_one_scale = False

    def at(self, moment: Moment) -> float:
        """That of the policy as it is."""
        from imitbench.tune.likelihood import mean_log_likelihood

        return mean_log_likelihood(moment.policy, moment.held_out)


class StateMatch(_HeldOutDemos):
    """How alike the states are that the policy and demonstrations visit that nothing learns from.

    What looks alike is decided here, once for all settings.
    """

    name = "state-match"
    unit = "state match"

    def at(self, moment: Moment) -> float:
        """That of a few episodes."""
        from imitbench.tune.state_match import ObservationLog, state_match

        expert = [demo.obs for demo in moment.held_out if isinstance(demo.obs, np.ndarray)]
        if len(expert) < len(moment.held_out):
            raise UnsuitableObjectiveError(
                f"observations of {moment.spec.environment.id} are no arrays; choose another "
                "objective"
            )
        seen: list[FloatArray] = []
        moment.act(lambda environment: ObservationLog(environment, seen))
        rows = np.concatenate(expert).astype(np.float64)
        return state_match(rows.reshape(len(rows), -1), np.stack(seen))


class Discriminator(Objective):
    """How close to chance the discriminator is lately: 1 where it cannot tell, 0 where it can.

    A discriminator that learns badly cannot tell either; so whatever makes the discriminator
    keeps its value.
    """

    name = "discriminator"
    unit = "confusion"

    def fixes(self, name: str) -> bool:
        """What the discriminator is, and how it learns."""
        return name.startswith(_JUDGE)

    def at(self, moment: Moment) -> float:
        """1 - 2 |accuracy - 1/2|, its mean over the last quarter of the curve."""
        accuracies = [point[_ACCURACY] for point in moment.curve if _ACCURACY in point]
        if not accuracies:
            raise UnsuitableObjectiveError(
                f"the learning curve of {moment.spec.algo} has no {_ACCURACY}, as those of "
                "adversarial methods have; choose another objective"
            )
        lately = np.array(accuracies[-max(1, len(accuracies) // 4) :])
        return float((1 - 2 * np.abs(lately - 0.5)).mean())


class EpisodeLength(Objective):
    """How close the length of episodes is to that of the expert's: 0 at best."""

    name = "episode-length"
    unit = "length match"

    def refusal(
        self, algorithm: AlgorithmCard, environment: EnvironmentCard, spec: RunSpec
    ) -> str | None:
        """Where all episodes are equally long, their length says nothing."""
        if environment.horizon == "fixed":
            return "all episodes have the same length, which says nothing about a policy"
        if spec.demos is None:
            return f"{algorithm.name} takes no demonstrations, which tell the expert's lengths"
        return None

    def at(self, moment: Moment) -> float:
        """That of a few episodes."""
        return _match(float(moment.act().lengths.mean()), _mean_length(moment.demos))

    def measures(self, moment: Moment) -> dict[str, float]:
        """The expert's mean length; the result says the policy's."""
        return {self._key: _mean_length(moment.demos)}

    def of(self, result: RunResult) -> float:
        """That of the evaluation."""
        return _match(result.mean_length, super().of(result))


def _mean_length(demos: Sequence[TrajectoryWithRew]) -> float:
    return float(np.mean([len(demo) for demo in demos]))


def _match(length: float, wanted: float) -> float:
    return -abs(length - wanted) / wanted


OBJECTIVES: dict[ObjectiveName, Objective] = {
    each.name: each
    for each in (
        ReturnObjective(),
        DemoLikelihood(),
        Discriminator(),
        EpisodeLength(),
        StateMatch(),
    )
}
"""All objectives, by name."""
