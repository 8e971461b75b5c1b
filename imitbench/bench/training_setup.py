"""What determines a training, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from imitbench.bench.artifacts import demos_of_run, expert_of_run, expert_of_suite
from imitbench.bench.frozen_reward import reward_of_run
from imitbench.bench.hidden_parts import RewardView
from imitbench.bench.implementation import card_of, folder_of, make_learner
from imitbench.bench.learner import Learner, Supplement
from imitbench.bench.seeding import derive_seed
from imitbench.bench.supplement import supplement_of_run
from imitbench.cards.algorithm import Scalar
from imitbench.records.episodes import Episodes
from imitbench.records.runs import (
    Budget,
    DeviceClass,
    EnvironmentSpec,
    Protocol,
    RunSpec,
    training_device,
)
from imitbench.store.run_dir import RunDirectory

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.reward_function import RewardFn


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that determines a training except the method and its data.

    Attributes:
        environment: Training environment.
        evaluated: Environment in which the policy is evaluated.
        budget: Amount of training.
        seed: Seed of the record, from which all others are derived.
        device: Class of the processor.
        protocol: How the policy is evaluated.
        transfer: Whether to train a policy from scratch on the learned reward and evaluate it,
            if the method supports that.
        rewards: Which true rewards the method is given.
        training_seed: Seed from which those of training are derived; `None` for `seed`.
    """

    environment: EnvironmentSpec
    evaluated: EnvironmentSpec
    budget: Budget
    seed: int
    device: DeviceClass = "cpu"
    protocol: Protocol = field(default_factory=Protocol)
    transfer: bool = False
    rewards: RewardView = "all"
    training_seed: int | None = None

    @classmethod
    def of(cls, spec: RunSpec) -> TrainingConfig:
        """Returns the configuration of a run."""
        bundled = spec.implementation_digest is None
        hidden: RewardView = "environment" if bundled else "none"
        return cls(
            environment=spec.environment,
            evaluated=spec.environment.evaluated,
            budget=spec.budget,
            seed=spec.seed,
            device=spec.device,
            protocol=spec.protocol,
            transfer=True,
            rewards="all" if spec.uses_reward else hidden,
        )

    @property
    def training_device(self) -> Literal["cpu", "cuda"]:
        """Processor that trains, as torch names it."""
        return training_device(self.device)

    def derive_training_seed(self, purpose: str) -> int:
        """Derives a seed for one purpose of the training, see `derive_seed`."""
        return derive_seed(self.seed if self.training_seed is None else self.training_seed, purpose)


@dataclass(frozen=True)
class TrainingInputs:
    """The method and the data that it learns from.

    Attributes:
        learner: The method, not set up yet.
        hyperparameters: All hyper-parameters by name.
        demos: Demonstrations, where the method needs them.
        supplement: Trajectories of mixed quality, where the method needs them.
        actions_hidden: Whether the actions of both were removed.
        demos_name: Name of the demonstrations in messages; `None` if they are known to fit the
            environment.
        expert: Returns the expert for spaces of observations and actions, where the method needs
            it.
        reward: Returns the learned reward that replaces the environment's, for spaces of
            observations and actions.
        judge: Returns the expert of the suite, on whose states a learned reward is compared with
            the true one after training; the method never gets it.
        folder: Folder of the method's card, if it is outside this package.
    """

    learner: Learner
    hyperparameters: Mapping[str, Scalar]
    demos: Sequence[TrajectoryWithRew] = ()
    supplement: Supplement | None = None
    actions_hidden: bool = False
    demos_name: str | None = None
    expert: Callable[[gym.Space[Any], gym.Space[Any]], BasePolicy | None] = lambda *_: None
    reward: Callable[[gym.Space[Any], gym.Space[Any]], RewardFn | None] = lambda *_: None
    judge: Callable[[gym.Space[Any], gym.Space[Any]], BasePolicy | None] = lambda *_: None
    folder: Path | None = None

    @classmethod
    def of(
        cls,
        spec: RunSpec,
        root: Path,
        learner_of: Callable[[RunSpec], Learner] = make_learner,
        out: Path = Path(),
    ) -> TrainingInputs:
        """Returns the inputs of a run.

        Args:
            spec: Specification of the run.
            root: Folder that holds `experts/` and `demos/`.
            learner_of: Makes the learner, not set up yet.
            out: Results folder of the run, for one that optimizes a learned reward.

        Raises:
            InputError: The method or the demonstrations cannot be loaded.
        """
        card, supplement = card_of(spec), None
        hyperparameters = dict(spec.hyperparameters)
        if card is not None:
            hyperparameters = card.completed(hyperparameters)  # the record omits some
            if card.needs.supplement:
                supplement = supplement_of_run(spec, root, ranked=card.needs.ranking)
        return cls(
            learner=learner_of(spec),
            hyperparameters=hyperparameters,
            demos=demos_of_run(spec, root),
            supplement=supplement,
            actions_hidden=spec.demos is not None and spec.demos.actions == "hidden",
            demos_name=None if spec.demos is None else f"demos {spec.demos.repo}",
            expert=lambda obs, acts: expert_of_run(
                spec, root, obs, acts, training_device(spec.device)
            ),
            reward=lambda obs, acts: reward_of_run(
                spec, out, obs, acts, training_device(spec.device)
            ),
            judge=lambda obs, acts: expert_of_suite(spec, root, obs, acts),
            folder=folder_of(spec),
        )


@dataclass(frozen=True)
class Training:
    """One training, or one seed of a pack.

    Attributes:
        config: Everything that determines it except the method and its data.
        load: Loads the method and its data.
        directory: Receives policy, learned reward, learning curve and episodes; `None` for a seed
            that only completes a pack, and is neither evaluated nor saved.
    """

    config: TrainingConfig
    load: Callable[[], TrainingInputs]
    directory: RunDirectory | None


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    Attributes:
        stochastic: Evaluation episodes with sampled actions.
        deterministic: Evaluation episodes with the most likely actions.
        env_steps: Environment steps of the training.
        train_s: Seconds of training, over all attempts.
        measures: Other measures of the method, by name.
        transfer: Evaluation episodes of the policy that was trained on the learned reward.
    """

    stochastic: Episodes
    deterministic: Episodes
    env_steps: int
    train_s: float
    measures: dict[str, float]
    transfer: Episodes | None = None

    def as_document(self) -> dict[str, Any]:
        """Returns the numbers as a JSON object."""
        return {
            "mean_return": float(self.stochastic.returns.mean()),
            "std_return": float(self.stochastic.returns.std()),
            "deterministic_return": float(self.deterministic.returns.mean()),
            "mean_length": float(self.stochastic.lengths.mean()),
            "termination_rate": float(self.stochastic.terminated.mean()),
            "success_rate": self.stochastic.success_rate,
            "episodes": len(self.stochastic.returns),
            "env_steps": self.env_steps,
            "train_s": self.train_s,
            "measures": self.measures,
        }
