"""What code finds around a training: the folder of the run, its evaluation, the seed on the stack.

`check-algo` trains a method among the true ones, and once more among false ones. A method that
looks around, and learns from what it sees, learns something else then.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from imitbench.bench.protocol import Evaluator
from imitbench.bench.seeding import derive_seed
from imitbench.bench.training import Training, TrainingConfig
from imitbench.conformance.practice_environments import Poison, instrumented_spec, poisoned
from imitbench.errors import InputError
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.store.run_dir import RunDirectory

T = TypeVar("T")
_ENVIRONMENTS = 2
_RETURNS = np.array([0.25, 4.0, 7.5])


def inside_a_run(
    environment: EnvironmentSpec,
    budget: Budget,
    seed: int,
    poison: Poison,
    train: Callable[[Training], T],
) -> T:
    """Trains below a stack frame with the variables of `run_trainings`.

    With the poison `run`, the seed on the stack, the rewards of the evaluation and the numbers in
    the folder are false. What a method is given is true.

    Args:
        environment: Environment of the training and the evaluation.
        budget: Amount of training.
        seed: Seed of the run.
        poison: How rewards are changed, see `Poison`.
        train: Sets a learner up and trains it.
    """
    false = poison == "run"
    shown = derive_seed(seed, "canary") if false else seed
    first = TrainingConfig(environment, environment, budget, shown, training_seed=seed)
    with tempfile.TemporaryDirectory(prefix="imitbench-") as folder:
        directory = _leave_results(Path(folder), shown, poison)
        members = [Training(first, _nothing_to_load, directory)]
        with instrumented_spec(environment.id, "canary") if false else nullcontext():
            evaluator = Evaluator(first.evaluated, _ENVIRONMENTS)
        with evaluator:
            return train(members[0])


def _nothing_to_load() -> Any:
    raise InputError("a training of check-algo is loaded already")


class CurveFile:
    """Writes a curve into the folder of a run while it grows.

    Args:
        directory: The folder.
        poison: How numbers are changed, see `Poison`.
    """

    def __init__(self, directory: RunDirectory, poison: Poison) -> None:
        self._directory = directory
        self._poison = poison
        self._points: list[Mapping[str, float]] = []

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds a point; the file is written at each doubling of their number."""
        false = self._poison == "run"
        told = {k: poisoned(v, "other") if false else v for k, v in metrics.items()}
        self._points.append({"step": step, **told})
        if len(self._points).bit_count() == 1:
            self._directory.write_curve(self._points)


def _leave_results(out: Path, seed: int, poison: Poison) -> RunDirectory:
    """Writes what earlier runs would have left, and returns the folder of this run."""
    returns = np.array([poisoned(each, "other") if poison == "run" else each for each in _RETURNS])
    own, other = (RunDirectory(out / "runs" / name) for name in ("own", "other"))
    for directory in (own, other):
        directory.path.mkdir(parents=True)
        (directory.path / "spec.json").write_text(json.dumps({"seed": seed}))
        directory.write_episodes(
            EpisodeTable(
                returns=returns,
                lengths=np.full(len(returns), 10),
                terminated=np.zeros(len(returns), dtype=bool),
                deterministic=np.zeros(len(returns), dtype=bool),
            )
        )
        directory.write_curve([{"step": 1, "rollout/return_mean": float(returns[0])}])
        result = {"raw_return": float(returns.mean()), "return_std": float(returns.std())}
        (directory.path / "result.json").write_text(json.dumps(result))
    return own
