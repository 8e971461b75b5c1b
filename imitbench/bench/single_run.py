"""Trains once, without a sweep: any learner, any environment, with live logs.

The folder of a training holds `config.json` (what determines it), `metrics.jsonl` (the learning
curve), `log/` (the outputs of the logger), `policy/`, `reward/` if the method learns one,
`episodes.parquet`, and `result.json`, which is written last. With a person as the expert, also
`recorded/`, the episodes in which the person acted. During training, `checkpoint/` holds
the state to resume from.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitbench.bench import provenance
from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.bench.monitor import Monitor, Phase
from imitbench.bench.stopping import InterruptFlag, RunStoppedError, catch_interrupts
from imitbench.bench.training import run_trainings
from imitbench.bench.training_setup import Trained, Training, TrainingConfig, TrainingInputs
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.errors import InputError
from imitbench.executors.options import CHECKPOINT_S
from imitbench.store.run_dir import RunDirectory
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.algorithms.human_gated_dagger import Person
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.reward_function import RewardFn
    from imitbench.util.logger import HierarchicalLogger

RECORD_FILE = "config.json"
RESULT_FILE = "result.json"
LOG_FOLDER = "log"
HAND_FOLDER = "recorded"
"""Episodes in which a person acted."""
FORMAT = "imitbench-training"


@dataclass(frozen=True, kw_only=True)
class TrainingSetup(TrainingConfig):
    """Complete description of a single training.

    Attributes:
        card: Card of the algorithm.
        hyperparameters: All hyper-parameters, resolved.
        demos: Demonstrations, where the algorithm needs them.
        expert: The expert, where the algorithm needs it.
        reward_fn: Rewards that replace the environment's, for reinforcement learning.
        person: Whoever acts, for DAgger by hand.
        origins: Sources of demonstrations, expert and reward, by the names that the record uses.
    """

    card: AlgorithmCard
    hyperparameters: dict[str, Scalar]
    demos: Sequence[TrajectoryWithRew] = ()
    expert: BasePolicy | None = None
    reward_fn: RewardFn | None = None
    person: Person | None = None
    origins: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self) -> TrainingInputs:
        """Returns the method, not set up yet, and its data."""
        module, _, name = self.card.implementation.partition(":")
        make = getattr(importlib.import_module(module), name)
        given = [part for part in (self.reward_fn, self.person) if part is not None]
        named = self.origins.get("demos", {}).get("name", "of the expert")
        return TrainingInputs(
            learner=make(*given),
            hyperparameters=self.hyperparameters,
            demos=list(self.demos),
            demos_name=f"demos {named}" if self.demos else None,
            expert=lambda *_: self.expert,
        )

    def record(self) -> dict[str, Any]:
        """Returns the content of `config.json`; equal records mean the same training."""
        return {
            "format": FORMAT,
            "version": 1,
            "algo": self.card.name,
            "hyperparameters": self.card.recorded(self.hyperparameters),
            "environment": self.environment.model_dump(mode="json"),
            "budget": {"unit": self.budget.unit, "amount": self.budget.amount},
            "seed": self.seed,
            "device": self.device,
            "episodes": self.protocol.episodes,
            **self.origins,
        }


def _claim_folder(training: TrainingSetup, folder: Path) -> bool:
    """Creates the folder of a training; returns whether it is interrupted, and to be resumed."""
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


def train_single(
    training: TrainingSetup,
    folder: Path,
    *,
    make_logger: Callable[[Path], HierarchicalLogger],
    command: str,
    watch: Monitor | None = None,
    checkpoint_s: float = CHECKPOINT_S,
) -> Trained:
    """Trains, evaluates, and writes the results to a folder.

    Args:
        training: Description of the training.
        folder: New folder, or that of the same training if it was interrupted.
        make_logger: Makes the logger that writes to a folder; it receives every point of the
            curve when it is recorded, and after an interruption also all earlier points again.
        command: The command that the user typed, for provenance.
        watch: Notified of phases, points and how far training is.
        checkpoint_s: Least seconds between two checkpoints.

    Raises:
        InputError: The folder is in use, or the algorithm rejects its inputs.
        RunStoppedError: Ctrl-C was pressed; the training can resume from a checkpoint.
    """
    resumes, directory = _claim_folder(training, folder), RunDirectory(folder)
    with catch_interrupts() as interruption:
        monitor = _Monitor(folder, make_logger, watch or Monitor(), interruption)
        try:
            with contextlib.closing(monitor):
                [trained] = run_trainings(
                    [Training(training, training.inputs, directory)],
                    CheckpointManager(directory.checkpoints, checkpoint_s),
                    monitor,
                    keep_trained=True,
                )
        except (ValueError, InputError) as error:
            if not (resumes or monitor.progress.curve or any(folder.glob(f"{HAND_FOLDER}/*/*"))):
                shutil.rmtree(folder)  # nothing was trained, and nobody acted
            if isinstance(error, InputError):
                raise
            where = f"{training.card.name} on {training.environment.id}"
            raise InputError(f"{where}: {one_line(str(error))}") from error
    document = {
        **trained.as_document(),
        "provenance": provenance.describe_provenance(command, training.device).model_dump(
            mode="json"
        ),
    }
    atomic_write_text(folder / RESULT_FILE, json.dumps(document, indent=1) + "\n")
    shutil.rmtree(directory.checkpoints, ignore_errors=True)
    return trained


@dataclass
class _Monitor(Monitor):
    """Logs each point when it is recorded, and ends the training at Ctrl-C."""

    folder: Path
    make_logger: Callable[[Path], HierarchicalLogger]
    watch: Monitor
    interruption: InterruptFlag
    progress: RunProgress = field(default_factory=RunProgress)
    logger: HierarchicalLogger | None = None

    def begin(self, progress: RunProgress) -> None:
        """Creates the logger and logs the points of earlier attempts again."""
        self.progress = progress
        shutil.rmtree(self.folder / LOG_FOLDER, ignore_errors=True)
        self.logger = self.make_logger(self.folder / LOG_FOLDER)
        for point in progress.curve:
            self._log(self.logger, point)

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        """Logs a point."""
        assert self.logger is not None
        self._log(self.logger, self.progress.curve[-1])
        self.watch.point(step, metrics)

    def enter(self, phase: Phase) -> None:
        """Passes the phase on."""
        self.watch.enter(phase)

    def flushed(self, step: int, train_s: float) -> None:
        """Passes on how far training is."""
        self.watch.flushed(step, train_s)

    def check(self) -> None:
        """Ends the training if Ctrl-C was pressed.

        Raises:
            RunStoppedError: Ctrl-C was pressed.
        """
        if self.interruption.seen:
            raise RunStoppedError

    def close(self) -> None:
        """Closes the logger."""
        if self.logger is not None:
            self.logger.close()

    @staticmethod
    def _log(logger: HierarchicalLogger, point: Mapping[str, float]) -> None:
        for name, value in point.items():
            if name != "step":
                logger.record(name, value)
        logger.record("time/budget_spent", point["step"])
        logger.dump(int(point["step"]))
