"""A worker for one run that is observed, and interrupted if its configuration requests it.

It runs the usual worker with a learner that counts the checkpoints that the method offers, saves
its state at some of them, and at one of them sends a signal to its own process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from pydantic import Field

from imitbench.bench.checkpoint import generator_states
from imitbench.bench.implementation import make_learner
from imitbench.bench.job import Job
from imitbench.bench.learner import Callback, Checkpoint, Learner, LearnerWrapper, no_checkpoint
from imitbench.bench.stopping import RunStoppedError, catch_stop_signals
from imitbench.bench.worker import run_job
from imitbench.conformance.bitwise import find_differences
from imitbench.executors.base import STOPPED
from imitbench.records.runs import Budget, Record
from imitbench.util.files import atomic_write_text
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.state_file import save_state
from imitbench.util.torch_startup import use_one_thread

SIGNALS = {"stop": signal.SIGTERM, "kill": signal.SIGKILL}
_MOST_NAMES = 20


class TrialConfig(Record):
    """Configuration of a trial (a JSON file).

    Attributes:
        job: Path of the job file, which has one run.
        notes: Absolute path of the folder for states and reports.
        keep: Number of offers, drawn at random, at which the state is saved.
        seed: Seed of the draw.
        every: Number of offers between two checkpoints; 0 for no checkpoints.
        interrupt_at: Offer at which to interrupt, counted from the start of the run.
        signal: `stop` sends SIGTERM, `kill` sends SIGKILL.
    """

    job: str
    notes: str
    keep: int = Field(default=0, ge=0)
    seed: int = 0
    every: int = Field(default=0, ge=0)
    interrupt_at: int | None = None
    signal: Literal["stop", "kill"] = "stop"


class TrialReport(Record):
    """Report of a trial that completed its training (`trained.json`).

    Attributes:
        offers: Number of checkpoints that were offered.
        kept: Offers at which the state was saved, ascending.
    """

    offers: int
    kept: list[int]


class ResumeReport(Record):
    """Report of a trial that resumed from a checkpoint (`resumed.json`).

    Attributes:
        offer: Offer at which the checkpoint was written.
        unrestored: Names of values that `state_dict` returns differently from the checkpoint, with
            a description of the difference.
    """

    offer: int
    unrestored: list[tuple[str, str]]


def state_file(notes: Path, offer: int | Literal["end"]) -> Path:
    """Returns the path of the state at an offer, or at the end of training."""
    return notes / f"{offer}.kept"


class InterruptibleLearner(LearnerWrapper):
    """Counts a learner's offers of checkpoints, and may interrupt it at one.

    Args:
        learner: Learner to train.
        config: Configuration of the trial.
    """

    def __init__(self, learner: Learner, config: TrialConfig) -> None:
        super().__init__(learner)
        self._config = config
        self._notes = Path(config.notes)
        self._offers = 0
        self._kept: list[int] = []
        self._rng = np.random.default_rng(config.seed)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains; is interrupted if configured, otherwise saves the final state."""
        env_steps = self.learner.train(budget, callback, lambda: self._offered(checkpoint))
        self._keep("end")
        report = TrialReport(offers=self._offers, kept=sorted(self._kept))
        atomic_write_text(self._notes / "trained.json", report.model_dump_json())
        return env_steps

    def state_dict(self) -> dict[str, Any]:
        """Returns the learner's state, and the number of offers so far."""
        return {"learner": self.learner.state_dict(), "offers": self._offers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the learner, and reports whether it then returns the same state."""
        self.learner.load_state_dict(state["learner"])
        self._offers = state["offers"]
        found = find_differences(state["learner"], self.learner.state_dict())
        report = ResumeReport(
            offer=self._offers, unrestored=[(d.name, d.what) for d in found[:_MOST_NAMES]]
        )
        atomic_write_text(self._notes / "resumed.json", report.model_dump_json())

    def _offered(self, checkpoint: Checkpoint) -> None:
        self._offers += 1
        self._sample()
        if self._offers == self._config.interrupt_at:
            self._keep(self._offers)
            os.kill(os.getpid(), SIGNALS[self._config.signal])
            checkpoint()
        elif self._config.every and self._offers % self._config.every == 0:
            checkpoint()

    def _sample(self) -> None:
        """Saves the state at each offer with equal probability, for any number of offers."""
        if self._offers <= self._config.keep:
            self._kept.append(self._offers)
        else:
            drawn = int(self._rng.integers(self._offers))
            if drawn >= self._config.keep:
                return
            state_file(self._notes, self._kept[drawn]).unlink()
            self._kept[drawn] = self._offers
        self._keep(self._offers)

    def _keep(self, offer: int | Literal["end"]) -> None:
        state = {"learner": self.learner.state_dict(), "generators": generator_states()}
        save_state(state_file(self._notes, offer), state)


def run_trial(config: str, errors: str, folder: str, environment: Mapping[str, str]) -> NoReturn:
    """Runs a trial in this process, which nothing else uses, and ends it.

    The exit code is 0, also when the run failed; 75 when a stop was requested; 2 for a bad file.

    Args:
        config: Path of a file with a `TrialConfig`.
        errors: Path of the file that gets the output on stderr; stdout is discarded.
        folder: Working directory.
        environment: All environment variables.
    """
    os.chdir(folder)
    with Path(errors).open("wb") as file, Path(os.devnull).open("r+b") as nowhere:
        for number, opened in enumerate((nowhere, nowhere, file)):
            os.dup2(opened.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(_run_trial(Path(config)))


def _run_trial(path: Path) -> int:
    use_one_thread()
    leave_compiler_unloaded()
    try:
        config = TrialConfig.model_validate_json(path.read_bytes())
        with catch_stop_signals() as stop:
            run_job(
                Job.read(Path(config.job)),
                stop,
                lambda spec: InterruptibleLearner(make_learner(spec), config),
            )
    except RunStoppedError:
        return STOPPED
    except (OSError, ValueError) as error:
        print(f"trial: {error}", file=sys.stderr)
        return 2
    return 0
