"""Methods in other languages and frameworks: an external program trains and writes a policy.

The card names the program under `command`. It is started in the card's folder, with the path of a
task file as its last argument (JSON, see `CommandTask`). It

- writes progress to standard output, one JSON object per line: `{"step": 100, "loss": 0.5}` is a
  point of the curve; `{"env_steps": 2000}` is the number of environment steps so far; and
  `{"checkpoint": true}`, on a card with `checkpoints: true`, means that the files in the checkpoint
  folder are complete: the program then waits for a line on standard input while they are copied.
  Other lines, and standard error, go to the run's log;
- writes its policy to the folder `output`: `policy.json` and the file that it names (see
  `imitbench.policies.foreign`), or the files of `imitbench.policies.storage`;
- exits with code 0.

A run can be interrupted only after a line of progress. A program without checkpoints then starts
from the beginning; with the same seed it must give the same result.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.cards.algorithm import CommandRecipe, Scalar
from imitbench.cards.plugins import read_algorithm_card
from imitbench.data.arrow_table import TableRow
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.json_lines import json_line
from imitbench.errors import InputError
from imitbench.policies.foreign import is_foreign, load_foreign_policy
from imitbench.policies.space_check import check_policy_fits
from imitbench.policies.storage import load_policy
from imitbench.records.runs import Budget
from imitbench.util.files import atomic_stream, atomic_write_bytes, atomic_write_text
from imitbench.util.source_import import location_of_source
from imitbench.util.spaces import space_to_json

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_LAST_LINES = 8
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ChildFailedError(RuntimeError):
    """A program exited with a code other than 0."""


class ChildProcess:
    """Runs a program; copies its standard error to that of this process.

    The program has its own process group, which is ended when the context is left. On Linux the
    kernel kills it when this process exits for any reason.

    Args:
        words: The program and its arguments.
        folder: Working folder of the program.
        timeout_s: Maximum run time in seconds; `None` for no limit.

    Raises:
        InputError: The program cannot be started.
    """

    def __init__(self, words: Sequence[str], *, folder: Path, timeout_s: float | None) -> None:
        self._words = list(words)
        self._timeout_s = timeout_s
        self._timed_out = False
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        single = {name: os.environ.get(name, "1") for name in _SINGLE}
        try:
            self._process = subprocess.Popen(
                self._words,
                cwd=folder,
                env={**os.environ, **single, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise InputError(
                f"command: {self._words[0]}: cannot be started ({error.strerror}); is it installed?"
            ) from error
        self._pump = threading.Thread(target=self._pass_on, daemon=True)
        self._pump.start()
        self._timer: threading.Timer | None = None
        if timeout_s is not None:
            self._timer = threading.Timer(timeout_s, self._time_out)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def lines(self) -> Iterator[str]:
        """Yields lines of the program's standard output until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.rstrip("\n")

    def answer(self) -> None:
        """Writes an empty line to the standard input of the program, which waits for it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it did not wait
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def check(self) -> None:
        """Waits until the program exits.

        Raises:
            ChildFailedError: The program failed or exceeded its time limit.
        """
        code = self._process.wait()
        self._pump.join(GRACE_S)
        if self._timed_out:
            raise ChildFailedError(
                f"{self._name} took longer than {self._timeout_s:g} s, and was ended{self._words_}"
            )
        if code:
            how = f"ended with code {code}" if code > 0 else f"was killed by signal {-code}"
            raise ChildFailedError(f"{self._name} {how}{self._words_}")

    def _end(self) -> None:
        """Ends the program and what it started: with SIGTERM, later with SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)

    @property
    def _name(self) -> str:
        return " ".join(Path(word).name for word in self._words[:2])

    @property
    def _words_(self) -> str:
        last = " | ".join(self._last)
        return f"; end of its output: {last}" if last else ""

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):  # closed in the meantime
            for line in self._process.stderr:
                self._last.append(line.rstrip())
                print(line, end="", file=sys.stderr)

    def _time_out(self) -> None:
        self._timed_out = True
        self._end()


def _die_with_parent() -> None:
    """Runs in the child, between fork and exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_RESERVED = ("step", "env_steps", "checkpoint")


class CommandTask(BaseModel):
    """The task file of the program (JSON).

    Attributes:
        seed: Seed of all randomness.
        hyperparameters: Values of all hyper-parameters on the card.
        budget: `unit` and `amount` of training.
        environment: `id` and `kwargs` for `gymnasium.make`; `module`, whose import registers the
            id, or `null`; and `folder` of that module, or `null` if it is installed.
        observation_space: See `imitbench.util.spaces.space_to_json`.
        action_space: In the format of `observation_space`.
        demos: Folder of parquet files with one row per episode: `obs` (length + 1 observations),
            `acts`, `terminal`; with `demos: jsonl` on the card, a text file with one line per
            episode that has the same keys; `null` for none. Where a regime hides actions, each of
            `acts` is empty.
        supplement: Trajectories of mixed quality in the same form, if the card needs them; else
            `null`.
        ranks: Rank of each of these, in their order, 0 for the worst, if the card needs ranks; else
            `null`.
        output: Folder for the policy; exists and is empty.
        checkpoints: Folder for checkpoint files, with those of an earlier attempt; `null` unless
            the card has `checkpoints: true`.
        device: `cpu` or `cuda`.
    """

    schema_version: int = 1
    seed: int
    hyperparameters: dict[str, Scalar]
    budget: dict[str, Any]
    environment: dict[str, Any]
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    demos: str | None
    supplement: str | None
    ranks: list[int] | None
    output: str
    checkpoints: str | None
    device: str


class CommandLearner(Learner):
    """Runs a program that trains, and loads its policy."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Writes the demonstrations, without the rewards, which methods must not use."""
        if task.folder is None:
            raise InputError("a command needs a plug-in with its own card")
        self._task, self._device = task, device
        self._recipe = read_recipe(task.folder)
        self._scratch = tempfile.TemporaryDirectory(prefix="imitbench-command-")
        self._folder = Path(self._scratch.name)
        self._output, self._kept = self._folder / "output", self._folder / "checkpoints"
        self._output.mkdir()
        self._kept.mkdir()
        self._demos = self._write("demos", demos) if demos else None
        others = task.supplement
        self._supplement = None if others is None else self._write("others", others.trajectories)
        self._finished = False
        self._step = self._env_steps = 0
        self._files: dict[str, bytes] = {}

    def _write(self, name: str, trajectories: Sequence[TrajectoryWithRew]) -> Path:
        """Writes trajectories in the format of the card; returns the folder or file."""
        folder = self._folder / name
        if self._recipe.demos == "parquet":
            write_demonstrations(folder, [_without_rewards(each) for each in trajectories])
            return folder / "data"
        path = folder / f"{name}.jsonl"
        with atomic_stream(path) as stream:
            for each in trajectories:
                row = TableRow(np.asarray(each.obs), each.acts, each.terminal, None)
                stream.write(json_line(row).encode())
        return path

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Runs the program until it exits.

        Raises:
            ChildFailedError: The program fails or exceeds its time limit.
        """
        if self._finished:
            return self._env_steps
        assert self._task.folder is not None
        words = [sys.executable if word == "python" else word for word in self._recipe.run]
        path = self._folder / "task.json"
        atomic_write_text(path, self._describe(budget).model_dump_json(indent=1) + "\n")
        minutes = self._recipe.timeout_minutes
        with ChildProcess(
            [*words, str(path)],
            folder=self._task.folder,
            timeout_s=None if minutes is None else 60 * minutes,
        ) as child:
            for line in child.lines():
                if self._read(line, callback, checkpoint):
                    child.answer()
            child.check()
        self._finished = True
        self._files = _read_files(self._output)
        checkpoint()
        return self._env_steps

    def _describe(self, budget: Budget) -> CommandTask:
        task, environment = self._task, self._task.environment
        ranks = None if task.supplement is None else task.supplement.ranks
        home = None
        if environment.module_digest is not None:
            what = f"environment {environment.id}"
            home = str(location_of_source(environment.module_digest, what).folder)
        return CommandTask(
            seed=task.seed,
            hyperparameters=dict(task.hyperparameters),
            budget={"unit": budget.unit, "amount": budget.amount},
            environment={
                "id": environment.gym_id,
                "kwargs": dict(environment.kwargs),
                "module": environment.module,
                "folder": home,
            },
            observation_space=space_to_json(task.observation_space),
            action_space=space_to_json(task.action_space),
            demos=None if self._demos is None else str(self._demos),
            supplement=None if self._supplement is None else str(self._supplement),
            ranks=None if ranks is None else ranks.tolist(),
            output=str(self._output),
            checkpoints=str(self._kept) if self._recipe.checkpoints else None,
            device=self._device,
        )

    def _read(self, line: str, callback: Callback, checkpoint: Checkpoint) -> bool:
        """Processes a line of the program's output; prints others to the log.

        Returns:
            Whether the program waits for an answer.
        """
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict) or not document.keys() & {*_RESERVED}:
            print(line)
            return False
        waits = document.get("checkpoint") is True
        if waits and self._recipe.checkpoints:
            self._files = _read_files(self._kept)
        if isinstance(document.get("env_steps"), int):
            self._env_steps = max(self._env_steps, document["env_steps"])
        step = document.get("step")
        # The curve already has the points of an earlier attempt.
        if isinstance(step, int) and step > self._step:
            self._step = step
            numbers = {
                name: float(value)
                for name, value in document.items()
                if name not in _RESERVED and isinstance(value, int | float)
            }
            callback(step, numbers)
            checkpoint()
        return waits

    def policy(self) -> BasePolicy:
        """Loads the policy that the program wrote.

        Raises:
            InputError: There is no policy, or it does not fit.
        """
        spaces = self._task.observation_space, self._task.action_space
        if not (self._output / "policy.json").is_file():
            words = " ".join(self._recipe.run)
            raise InputError(f"{words}: wrote no policy.json to its output folder")
        if is_foreign(self._output):
            return load_foreign_policy(self._output, *spaces, programs=True)
        policy = load_policy(self._output)
        check_policy_fits(policy, *spaces, where="the policy of the command")
        return policy

    def state_dict(self) -> dict[str, Any]:
        """Files of the latest checkpoint or, at the end, of the policy."""
        return {
            "finished": self._finished,
            "step": self._step,
            "env_steps": self._env_steps,
            "files": dict(self._files),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the files."""
        self._finished, self._step = state["finished"], state["step"]
        self._env_steps, self._files = state["env_steps"], dict(state["files"])
        target = self._output if self._finished else self._kept
        for name, content in self._files.items():
            atomic_write_bytes(target / name, content)


def read_recipe(folder: Path) -> CommandRecipe:
    """Reads the command of a card.

    Raises:
        InputError: The card has no command.
    """
    path = folder / "card.yaml"
    recipe = read_algorithm_card(path).command
    if recipe is None:
        raise InputError(f"{path}: command: CommandLearner needs one, `command: {{run: […]}}`")
    return recipe


def _read_files(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _without_rewards(demo: TrajectoryWithRew) -> TrajectoryWithRew:
    """Sets rewards to zero, because the format requires them."""
    import dataclasses

    return dataclasses.replace(demo, rews=np.zeros_like(demo.rews), infos=None)
