"""Who answers in methods that learn from preferences, by the hyper-parameters of their cards."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from imitbench.algorithms.preference_comparisons import (
    PreferenceDataset,
    PreferenceGatherer,
    QueueGatherer,
    RecordedGatherer,
    SyntheticGatherer,
    make_teacher,
)
from imitbench.bench.learner import Task
from imitbench.data.observations import maybe_unwrap_dictobs
from imitbench.errors import InputError


def make_gatherer(
    task: Task, options: Mapping[str, Any], rng: np.random.Generator
) -> PreferenceGatherer:
    """Makes what answers.

    Args:
        task: Spaces, which recorded fragments must fit; and how to stop while people are awaited.
        options: Hyper-parameters `gatherer`, `answers`, `answers_sha256`, `answers_wait`,
            `teacher`, `teacher_parameter` and `teacher_floor`; and `temperature` for the teacher
            `returns`.
        rng: Draws synthetic answers.

    Raises:
        InputError: Hyper-parameters contradict each other, or recorded answers cannot be used.
    """
    kind, path = options["gatherer"], options["answers"]
    if kind == "synthetic":
        if path is not None:
            raise InputError(
                f"--set answers={path}: synthetic answers have no file; add --set gatherer=file "
                "or gatherer=human, or leave it out"
            )
        return _synthetic(options, rng)
    if path is None:
        what = "a preference data set" if kind == "file" else "a folder for pairs and answers"
        raise InputError(f"--set gatherer={kind}: needs {what}; add --set answers=PATH")
    if kind == "human":
        return QueueGatherer(path, wait=options["answers_wait"], while_waiting=task.check_stop)
    return RecordedGatherer(_recorded(Path(path), options["answers_sha256"], task))


def waits_for_people(gatherer: PreferenceGatherer) -> bool:
    """Whether a gatherer may wait until people answer."""
    return isinstance(gatherer, QueueGatherer)


def available_comparisons(gatherer: PreferenceGatherer, wanted: int) -> int:
    """Number of comparisons to plan for: as many as wanted, or all that are recorded.

    Args:
        gatherer: From `make_gatherer`.
        wanted: The hyper-parameter `total_comparisons`.
    """
    if isinstance(gatherer, RecordedGatherer):
        return min(wanted, len(gatherer.dataset))
    return wanted


def curve_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns metrics of a round for the curve, without those that are undefined.

    Args:
        metrics: From `PreferenceComparisons.run_round`.
    """
    names = {
        "reward/loss": "reward_loss",
        "reward/accuracy": "reward_accuracy",
        "reward/held_out_accuracy": "held_out_accuracy",
    }
    found = {name: metrics[key] for name, key in names.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _synthetic(options: Mapping[str, Any], rng: np.random.Generator) -> PreferenceGatherer:
    name, parameter = options["teacher"], options["teacher_parameter"]
    if name == "returns":
        if parameter is not None:
            raise InputError(
                f"--set teacher_parameter={parameter}: the teacher returns has a temperature "
                "instead; set that, or choose another teacher"
            )
        return SyntheticGatherer(temperature=options["temperature"], rng=rng)
    try:
        return make_teacher(name, rng, parameter, options["teacher_floor"])
    except ValueError as error:
        raise InputError(f"--set teacher_parameter={parameter}: {error}") from None


def _recorded(path: Path, expected: str | None, task: Task) -> PreferenceDataset:
    """Reads answers, whose content must be the one that the run's record names."""
    dataset = PreferenceDataset.load(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if expected is None:
        raise InputError(
            f"{path}: a run with these answers must name their content, so that its record stays "
            f"true; add --set answers_sha256={digest}"
        )
    if digest != expected.lower():
        raise InputError(
            f"{path}: its SHA-256 is {digest}, not {expected}; give the file that the record "
            "names, or set answers_sha256 to the new value"
        )
    if not len(dataset):
        raise InputError(f"{path}: has no comparisons; add some")
    for fragment in (*dataset.fragments1, *dataset.fragments2):
        shapes = maybe_unwrap_dictobs(fragment.obs).shape[1:], fragment.acts.shape[1:]
        spaces = task.observation_space.shape, task.action_space.shape
        if shapes != spaces:
            raise InputError(
                f"{path}: observations and actions have shapes {shapes}, but "
                f"{task.environment.id} has {spaces}; give answers about this environment"
            )
    return dataset
