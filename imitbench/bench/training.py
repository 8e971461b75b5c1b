"""A training from its seed to what it leaves: seed, task, setup, train, evaluate, save.

Runs of the harness and single trainings are `run_training`; the checks of a method take its first
part alone, `seed_generators` and `set_up`. Numbers depend on the order of what happens here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numpy as np

from imitbench.bench.artifacts import demos_of_run, expert_of_run
from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.bench.implementation import folder_of, hyperparameters_of, make_learner
from imitbench.bench.learner import Learner, Task
from imitbench.bench.protocol import Evaluator
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.bench.stopping import RunStoppedError, TimedOut
from imitbench.cards.algorithm import Scalar
from imitbench.records.episodes import Episodes, EpisodeTable
from imitbench.records.runs import Budget, EnvironmentSpec, Protocol, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.torch_startup import repeat_exactly

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

Phase = Literal["load", "setup", "train", "evaluate", "save"]


@dataclass(frozen=True)
class TrainingConfig:
    """What determines a training, beside the method and what it learns from.

    Attributes:
        environment: Where it trains.
        evaluated: Where its policy is evaluated.
        budget: How much training.
        seed: Seed of the record, from which all others are derived.
        device: `cpu` or `cuda`.
        protocol: How the policy is evaluated.
        transfer: Whether a policy is trained from scratch on the learnt reward, and evaluated,
            where the method offers that.
    """

    environment: EnvironmentSpec
    evaluated: EnvironmentSpec
    budget: Budget
    seed: int
    device: str = "cpu"
    protocol: Protocol = field(default_factory=Protocol)
    transfer: bool = False

    @classmethod
    def of(cls, spec: RunSpec) -> TrainingConfig:
        """That of a run."""
        return cls(
            environment=spec.environment,
            evaluated=spec.environment.evaluated,
            budget=spec.budget,
            seed=spec.seed,
            device=spec.device,
            protocol=spec.protocol,
            transfer=True,
        )


@dataclass(frozen=True)
class TrainingInputs:
    """The method, and what it learns from.

    Attributes:
        learner: The method, not set up yet.
        hyperparameters: Every hyper-parameter.
        demos: Demonstrations, where the method needs them.
        demos_name: What messages call them; `None` if they are known to fit the environment.
        expert: Gives the expert, where the method needs it, for spaces of observations and
            actions.
        folder: Folder of the method's card, if it lies outside this package.
    """

    learner: Learner
    hyperparameters: Mapping[str, Scalar]
    demos: Sequence[TrajectoryWithRew] = ()
    demos_name: str | None = None
    expert: Callable[[gym.Space[Any], gym.Space[Any]], BasePolicy | None] = lambda *_: None
    folder: Path | None = None

    @classmethod
    def of(
        cls, spec: RunSpec, root: Path, learner_of: Callable[[RunSpec], Learner] = make_learner
    ) -> TrainingInputs:
        """Those of a run.

        Args:
            spec: The run.
            root: Folder that holds `experts/` and `demos/`.
            learner_of: Makes the learner, not set up yet.

        Raises:
            InputError: The method or the demonstrations cannot be loaded.
        """
        return cls(
            learner=learner_of(spec),
            hyperparameters=hyperparameters_of(spec),
            demos=demos_of_run(spec, root),
            demos_name=None if spec.demos is None else f"demos {spec.demos.repo}",
            expert=lambda obs, acts: expert_of_run(spec, root, obs, acts, spec.device),
            folder=folder_of(spec),
        )


@dataclass(frozen=True)
class Trained:
    """What came of a training.

    Attributes:
        stochastic: Evaluation episodes of the policy as it acts.
        deterministic: The same, with its most likely actions.
        env_steps: Environment steps of the training.
        train_s: Seconds of it, all attempts together.
        measures: What else the method measured.
        transfer: Evaluation episodes of the policy that was trained on the learnt reward.
    """

    stochastic: Episodes
    deterministic: Episodes
    env_steps: int
    train_s: float
    measures: dict[str, float]
    transfer: Episodes | None = None

    def as_document(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        return {
            "mean_return": float(self.stochastic.returns.mean()),
            "std_return": float(self.stochastic.returns.std()),
            "deterministic_return": float(self.deterministic.returns.mean()),
            "mean_length": float(self.stochastic.lengths.mean()),
            "termination_rate": float(self.stochastic.terminated.mean()),
            "episodes": len(self.stochastic.returns),
            "env_steps": self.env_steps,
            "train_s": self.train_s,
            "measures": self.measures,
        }


class Monitor:
    """Is told how a training goes; this one does nothing."""

    def enter(self, phase: Phase) -> None:
        """A phase begins."""

    def begin(self, progress: RunProgress) -> None:
        """Training begins; `progress` has what earlier attempts left, and grows from now on."""

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        """The learning curve has another point, after `step` units of the budget."""

    def check(self) -> None:
        """Called where training may end, and at every step of an evaluation.

        Raises:
            RunStoppedError: It is to end here; of training, a checkpoint is saved first.
            TimedOut: The same, because it has taken too long.
        """


def seed_generators(config: TrainingConfig) -> None:
    """Seeds the global generators, before anything of a training is loaded."""
    repeat_exactly(config.device)
    seed_everything(derive_seed(config.seed, "training"))


def set_up(
    config: TrainingConfig, inputs: TrainingInputs, obs: gym.Space[Any], acts: gym.Space[Any]
) -> Learner:
    """Makes a learner ready to train.

    Args:
        config: What to train.
        inputs: What it learns from.
        obs: Space of observations.
        acts: Space of actions.

    Raises:
        InputError: Something cannot be loaded or does not fit the environment.
    """
    task = Task(
        config.environment,
        obs,
        acts,
        hyperparameters=inputs.hyperparameters,
        seed=derive_seed(config.seed, "training"),
        expert=inputs.expert(obs, acts),
        folder=inputs.folder,
    )
    if inputs.demos_name is not None:
        from imitbench.data.demonstrations import validate_demonstrations

        validate_demonstrations(inputs.demos, obs, acts, where=inputs.demos_name)
    rng = np.random.default_rng(derive_seed(config.seed, "learner"))
    inputs.learner.setup(task, inputs.demos, rng, config.device)
    return inputs.learner


def run_training(
    config: TrainingConfig,
    load: Callable[[], TrainingInputs],
    directory: RunDirectory,
    checkpoint_s: float,
    monitor: Monitor,
    *,
    keep_trained: bool = False,
) -> Trained:
    """Seeds, loads, sets up, trains, evaluates and saves.

    Args:
        config: What to train.
        load: Loads the method and what it learns from.
        directory: Gets policy, learnt reward, learning curve and episodes. A checkpoint that an
            earlier attempt left there is taken up.
        checkpoint_s: Least seconds between two checkpoints.
        monitor: Told how it goes; may end it.
        keep_trained: Whether a checkpoint is saved after training, in case the evaluation is
            interrupted.

    Raises:
        InputError: Something cannot be loaded or does not fit the environment.
    """
    seed_generators(config)
    monitor.enter("load")
    inputs = load()
    environments = config.protocol.environments
    with Evaluator(config.evaluated, environments, check=monitor.check) as evaluator:
        monitor.enter("setup")
        learner = set_up(config, inputs, evaluator.observation_space, evaluator.action_space)
        monitor.enter("train")
        checkpoints = CheckpointManager(directory.checkpoints, checkpoint_s)
        env_steps, progress = _train(config.budget, learner, checkpoints, monitor)
        if keep_trained:
            checkpoints.save(learner, progress)
        monitor.enter("evaluate")
        evaluate = partial(evaluator.evaluate, episodes=config.protocol.episodes, seed=config.seed)
        stochastic = evaluate(learner.policy(), deterministic=False)
        deterministic = evaluate(learner.policy(), deterministic=True)
        measures = learner.measures()
        fresh = learner.transfer_policy() if config.transfer else None
        transfer = None if fresh is None else evaluate(fresh, deterministic=False)
    monitor.enter("save")
    _save(directory, learner, progress, stochastic, deterministic)
    return Trained(stochastic, deterministic, env_steps, progress.train_s, measures, transfer)


def _train(
    budget: Budget, learner: Learner, checkpoints: CheckpointManager, monitor: Monitor
) -> tuple[int, RunProgress]:
    """Trains from the start, or from where an interrupted attempt left a checkpoint."""
    progress = checkpoints.resume(learner) or RunProgress()
    monitor.begin(progress)
    earlier, started = progress.train_s, time.monotonic()

    def timed() -> RunProgress:
        progress.train_s = earlier + time.monotonic() - started
        return progress

    def record(step: int, metrics: Mapping[str, float]) -> None:
        progress.curve.append({"step": step, **metrics})
        monitor.point(step, metrics)

    def offer() -> None:
        try:
            monitor.check()
        except (RunStoppedError, TimedOut):
            try:
                checkpoints.save(learner, timed())
            except OSError as error:  # the one before is still there
                print(f"no checkpoint could be written: {error}", file=sys.stderr)
            raise
        checkpoints.save_if_due(learner, timed)

    env_steps = learner.train(budget, record, offer)
    return env_steps, timed()


def _save(
    directory: RunDirectory, learner: Learner, progress: RunProgress, *evaluated: Episodes
) -> None:
    from imitbench.policies.storage import save_policy

    save_policy(learner.policy(), directory.policy)
    reward = learner.reward()
    if reward is not None:
        from imitbench.rewards.storage import save_reward

        save_reward(reward, directory.reward)
    directory.write_curve(progress.curve)
    directory.write_episodes(
        EpisodeTable(
            returns=np.concatenate([each.returns for each in evaluated]),
            lengths=np.concatenate([each.lengths for each in evaluated]),
            terminated=np.concatenate([each.terminated for each in evaluated]),
            deterministic=np.concatenate(
                [np.full(len(each.returns), each.deterministic) for each in evaluated]
            ),
        )
    )
