"""One training without the harness around it: any learner, any environment, live logs.

A folder of a training holds `config.json` (what determines it), `metrics.jsonl` (the learning
curve), `log/` (the outputs of the logger), `policy/`, `reward/` where one is learnt,
`episodes.parquet`, and `result.json`, which is written last. While it trains, `checkpoint/` holds
what it takes to go on.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.bench import provenance
from imitbench.bench.checkpoint import Checkpoints, Progress
from imitbench.bench.interruption import Interruption, noted_interruption
from imitbench.bench.learner import Learner, Task
from imitbench.bench.protocol import Episodes, Evaluator
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.bench.stopping import RunStoppedError
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.errors import InputError
from imitbench.executors.options import CHECKPOINT_S
from imitbench.store.records import Budget, EnvironmentSpec, Protocol
from imitbench.store.run_dir import EpisodeTable, RunDirectory
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line
from imitbench.util.torch_startup import repeat_exactly

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.reward_function import RewardFn
    from imitbench.util.logger import HierarchicalLogger

RECORD_FILE = "config.json"
RESULT_FILE = "result.json"
LOG_FOLDER = "log"
FORMAT = "imitbench-training"

OnPoint = Callable[[int, Mapping[str, float]], None]
"""Told of each point of the learning curve: budget units spent so far, and metrics."""


@dataclass(frozen=True)
class Training:
    """What is to be trained.

    Attributes:
        card: The algorithm.
        hyperparameters: Every hyper-parameter, resolved.
        environment: Where it trains; its horizon says whether episodes may differ in length.
        budget: How much.
        seed: Seed.
        demos: Demonstrations, where the algorithm needs them.
        expert: The expert, where the algorithm needs it.
        reward_fn: Rewards in place of the environment's own, for reinforcement learning.
        origins: Where demonstrations, expert and reward came from, by these names.
        device: `cpu` or `cuda`.
        episodes: Evaluation episodes of either policy after training.
    """

    card: AlgorithmCard
    hyperparameters: dict[str, Scalar]
    environment: EnvironmentSpec
    budget: Budget
    seed: int
    demos: Sequence[TrajectoryWithRew] = ()
    expert: BasePolicy | None = None
    reward_fn: RewardFn | None = None
    origins: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    episodes: int = Protocol().episodes

    def record(self) -> dict[str, Any]:
        """What `config.json` says of it; equal ones are the same training."""
        return {
            "format": FORMAT,
            "version": 1,
            "algo": self.card.name,
            "hyperparameters": self.card.recorded(self.hyperparameters),
            "environment": self.environment.model_dump(mode="json"),
            "budget": {"unit": self.budget.unit, "amount": self.budget.amount},
            "seed": self.seed,
            "device": self.device,
            "episodes": self.episodes,
            **self.origins,
        }


@dataclass(frozen=True)
class Trained:
    """What came of it.

    Attributes:
        stochastic: Evaluation episodes of the policy as it acts.
        deterministic: The same, with its most likely actions.
        env_steps: Environment steps of the training.
        train_s: Seconds of it.
        measures: What else the method measured.
    """

    stochastic: Episodes
    deterministic: Episodes
    env_steps: int
    train_s: float
    measures: dict[str, float]

    def as_document(self) -> dict[str, Any]:
        """What `result.json` says."""
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


def claim_folder(training: Training, folder: Path) -> bool:
    """Makes the folder of a training, or takes up the one of the same training.

    Returns:
        Whether there is an interrupted training to go on with.

    Raises:
        InputError: It holds something else, or cannot be made.
    """
    record = training.record()
    path = folder / RECORD_FILE
    if path.is_file():
        _check_same(record, folder)
        return True
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--log-dir {folder}: is not empty; name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps(record, indent=1) + "\n")
    except OSError as error:
        raise InputError(f"--log-dir {folder}: cannot be made ({error.strerror})") from error
    return False


def _check_same(record: dict[str, Any], folder: Path) -> None:
    if (folder / RESULT_FILE).exists():
        raise InputError(f"--log-dir {folder}: holds a training that is done; name a new folder")
    try:
        earlier = json.loads((folder / RECORD_FILE).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / RECORD_FILE}: cannot be read ({error})") from error
    plain = json.loads(json.dumps(record))
    if not isinstance(earlier, dict) or earlier != plain:
        known = earlier if isinstance(earlier, dict) else {}
        names = [name for name in {**known, **plain} if known.get(name) != plain.get(name)]
        raise InputError(
            f"--log-dir {folder}: holds another training, with other {', '.join(names)}; name a "
            "new folder"
        )


def train(
    training: Training,
    folder: Path,
    *,
    make_logger: Callable[[Path], HierarchicalLogger],
    command: str,
    on_point: OnPoint = lambda _step, _metrics: None,
    checkpoint_s: float = CHECKPOINT_S,
) -> Trained:
    """Trains, evaluates, and writes a folder.

    Args:
        training: What to train.
        folder: Where to; new, or that of the same training when it was interrupted.
        make_logger: Makes the logger whose files go to a folder; it gets every point of the
            curve as it comes, and after an interruption the earlier ones once more.
        command: What the user typed, for provenance.
        on_point: Told of each point, too.
        checkpoint_s: Least seconds between two checkpoints.

    Raises:
        InputError: The folder is taken, or the algorithm refuses what it is given.
        RunStoppedError: Ctrl-C; a checkpoint is there to go on from.
    """
    resumes = claim_folder(training, folder)
    with noted_interruption() as interruption:
        run = _Single(training, folder, make_logger, on_point, checkpoint_s, interruption)
        try:
            trained = run.execute()
        except (ValueError, InputError) as error:
            if not resumes and not run.progress.curve:
                shutil.rmtree(folder)  # nothing was trained
            if isinstance(error, InputError):
                raise
            where = f"{training.card.name} on {training.environment.id}"
            raise InputError(f"{where}: {one_line(str(error))}") from error
    document = {
        **trained.as_document(),
        "provenance": provenance.describe(command, training.device).model_dump(mode="json"),
    }
    atomic_write_text(folder / RESULT_FILE, json.dumps(document, indent=1) + "\n")
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return trained


@dataclass
class _Single:
    """One attempt."""

    training: Training
    folder: Path
    make_logger: Callable[[Path], HierarchicalLogger]
    on_point: OnPoint
    checkpoint_s: float
    interruption: Interruption
    progress: Progress = field(default_factory=Progress)

    def execute(self) -> Trained:
        training = self.training
        repeat_exactly(training.device)
        seed_everything(derive_seed(training.seed, "training"))
        # After training, nobody minds where episodes end.
        evaluated = training.environment.evaluated.model_copy(update={"horizon": "variable"})
        with Evaluator(evaluated, Protocol().environments, check=self._stop) as evaluator:
            learner = self._set_up(evaluator)
            checkpoints = Checkpoints(self.folder / "checkpoint", self.checkpoint_s)
            before = checkpoints.resume(learner)
            if before is not None:
                self.progress = before
            shutil.rmtree(self.folder / LOG_FOLDER, ignore_errors=True)
            logger = self.make_logger(self.folder / LOG_FOLDER)
            with contextlib.closing(logger):
                env_steps = self._train(learner, checkpoints, logger)
            stochastic, deterministic = (
                evaluator.evaluate(
                    learner.policy(),
                    episodes=training.episodes,
                    seed=training.seed,
                    deterministic=choice,
                )
                for choice in (False, True)
            )
        trained = Trained(
            stochastic, deterministic, env_steps, self.progress.train_s, learner.measures()
        )
        self._save(learner, trained)
        return trained

    def _set_up(self, evaluator: Evaluator) -> Learner:
        training = self.training
        task = Task(
            environment=training.environment,
            observation_space=evaluator.observation_space,
            action_space=evaluator.action_space,
            hyperparameters=training.hyperparameters,
            seed=derive_seed(training.seed, "training"),
            expert=training.expert,
        )
        if training.demos:
            from imitbench.data.demonstrations import validate_demonstrations

            validate_demonstrations(
                training.demos,
                task.observation_space,
                task.action_space,
                where=str(training.origins.get("demos")),
            )
        module, _, name = training.card.implementation.partition(":")
        make = getattr(importlib.import_module(module), name)
        learner: Learner = make() if training.reward_fn is None else make(training.reward_fn)
        rng = np.random.default_rng(derive_seed(training.seed, "learner"))
        learner.setup(task, list(training.demos), rng, training.device)
        return learner

    def _train(self, learner: Learner, checkpoints: Checkpoints, logger: HierarchicalLogger) -> int:
        for point in self.progress.curve:
            self._log(logger, point)
        earlier, started = self.progress.train_s, time.monotonic()

        def progress() -> Progress:
            self.progress.train_s = earlier + time.monotonic() - started
            return self.progress

        def record(step: int, metrics: Mapping[str, float]) -> None:
            point = {"step": step, **metrics}
            self.progress.curve.append(point)
            self._log(logger, point)
            self._write_curve()
            self.on_point(step, metrics)

        def offer() -> None:
            if self.interruption.seen:
                checkpoints.save(learner, progress())
                raise RunStoppedError
            checkpoints.save_if_due(learner, progress)

        env_steps = learner.train(self.training.budget, record, offer)
        checkpoints.save(learner, progress())  # evaluating may be interrupted, too
        return env_steps

    def _log(self, logger: HierarchicalLogger, point: Mapping[str, float]) -> None:
        for name, value in point.items():
            if name != "step":
                logger.record(name, value)
        logger.record("time/budget_spent", point["step"])
        logger.dump(int(point["step"]))

    def _stop(self) -> None:
        if self.interruption.seen:
            raise RunStoppedError

    def _write_curve(self) -> None:
        RunDirectory(self.folder).write_curve(self.progress.curve)

    def _save(self, learner: Learner, trained: Trained) -> None:
        from imitbench.policies.storage import save_policy

        save_policy(learner.policy(), self.folder / "policy")
        reward = learner.reward()
        if reward is not None:
            from imitbench.rewards.storage import save_reward

            save_reward(reward, self.folder / "reward")
        both = (trained.stochastic, trained.deterministic)
        self._write_curve()
        RunDirectory(self.folder).write_episodes(
            EpisodeTable(
                returns=np.concatenate([each.returns for each in both]),
                lengths=np.concatenate([each.lengths for each in both]),
                terminated=np.concatenate([each.terminated for each in both]),
                deterministic=np.repeat([False, True], len(trained.stochastic.returns)),
            )
        )
