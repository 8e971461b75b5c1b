"""Reads human preferences in the format of Uni-RLHF and Clean-Offline-RLHF, as data.

A task is a folder with three pickles of integer arrays, one number per pair of segments:

    human_label_domain_D_env_E_num_N_len_L_….pkl   0: the first is better, 1: the second, -1: equal
    indices_1_…, indices_2_…                       first step of each segment in the data set

Steps are numbered as in D4RL's `qlearning_dataset`: those at which an episode was cut are left out.
Nothing in the pickles is executed, see `imitbench.util.safe_unpickler`.

Source: Yuan et al. 2024, "Uni-RLHF: Universal Platform and Benchmark Suite for Reinforcement
Learning with Diverse Human Feedback"; its format as in
github.com/pickxiguapi/Clean-Offline-RLHF (MIT).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.data.hdf5 import import_h5py, numbers_of
from imitbench.data.preference_table import PreferenceRow, RecordedAnswer, write_preferences
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.labelling.exchange import CARD_FILE, DATA_FILE, imported_card
from imitbench.policies.pickled_values import ADMITTED, array_of
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text, digest_files, new_folder
from imitbench.util.safe_unpickler import RefusedPickleError, read_safely
from imitbench.util.text_line import one_line

_NAME = re.compile(
    r"(human_label|fake_label|indices_1|indices_2)_domain_(\w+?)_env_(.+?)_num_(\d+)_len_(\d+)"
    r"(_\w+)?\.pkl"
)
_LABELS = ("human_label", "fake_label")
_PARTS = ("indices_1", "indices_2")
_MOST_BYTES = 64 * 2**20
_PREFERENCES: dict[int, tuple[float, str]] = {
    0: (1.0, "left"),
    1: (0.0, "right"),
    -1: (0.5, "tie"),
}

LABEL_NAMES = {0: "first", 1: "second", -1: "equal"}
"""What the numbers in label files mean."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelledSegments:
    """The labels of one task.

    Attributes:
        domain: `mujoco`, `antmaze`, `adroit`, `atari` or `smarts`.
        env: Name of the data set, such as `hopper-medium-v2`.
        length: Steps of each segment.
        human: Whether people gave the labels, and not a script.
        labels: 0, 1 or -1 for each pair.
        first: First step of each first segment.
        second: The same of the second.
    """

    domain: str
    env: str
    length: int
    human: bool
    labels: Integers
    first: Integers
    second: Integers


def read_human_preferences(folder: Path) -> list[LabelledSegments]:
    """Reads all tasks in a folder, or in its subfolders.

    Args:
        folder: Folder of a task, or of several, such as `crowdsource_human_labels`.

    Returns:
        The tasks by name; at least one.

    Raises:
        InputError: There are none, or a file is missing, damaged, or has something else than
            integers.
    """
    try:
        folders = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
        tasks = [task for path in folders if not path.is_symlink() for task in _tasks(path)]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
    if not tasks:
        raise InputError(
            f"{folder}: has no human_label_domain_….pkl; name the folder of a task, or "
            "crowdsource_human_labels"
        )
    return tasks


def _tasks(folder: Path) -> Iterator[LabelledSegments]:
    groups: dict[tuple[str, ...], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file():
            groups.setdefault(match.groups("")[1:], {})[match[1]] = path
    for (domain, env, count, length, _), files in sorted(groups.items()):
        kind = next((name for name in _LABELS if name in files), None)
        missing = [name for name in _PARTS if name not in files]
        if kind is None or missing:
            lacks = "human_label" if kind is None else missing[0]
            raise InputError(f"{folder}: {env} has no file {lacks}_…; fetch the folder again")
        labels = _read(files[kind], int(count))
        odd = sorted(set(labels.tolist()) - set(_PREFERENCES))
        if odd:
            raise InputError(f"{files[kind]}: label {odd[0]} is none of 0, 1 and -1")
        first, second = (_read(files[name], int(count)) for name in _PARTS)
        if min(first.min(), second.min()) < 0 or not 1 <= int(length) <= 10_000:
            raise InputError(f"{folder}: {env} has a segment before the first step")
        yield LabelledSegments(
            domain, env, int(length), kind == "human_label", labels, first, second
        )


def _read(path: Path, count: int) -> Integers:
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path}: is larger than any file of labels")
    try:
        array = array_of(read_safely(read_content(path), ADMITTED))
    except RefusedPickleError as error:
        raise InputError(
            f"{path}: not a pickled array of integers ({one_line(error, 100)}); it was not executed"
        ) from error
    if array.dtype.kind not in "iu" or array.shape != (count,) or not count:
        raise InputError(
            f"{path}: holds {array.dtype}{list(array.shape)}, not {count} integers as its name says"
        )
    return array.astype(np.int64)


@dataclass(frozen=True)
class Steps:
    """Steps of a D4RL data set, in the numbering of its `qlearning_dataset`.

    Attributes:
        obs: Observation before each step.
        acts: Action of each step.
        next_obs: Observation after each step.
        rews: Reward of each step.
    """

    obs: npt.NDArray[Any]
    acts: npt.NDArray[Any]
    next_obs: npt.NDArray[Any]
    rews: npt.NDArray[np.float64]


def read_d4rl(path: Path) -> Steps:
    """Reads the HDF5 file of a D4RL data set.

    Args:
        path: File with `observations`, `actions`, `rewards`, `timeouts`.

    Raises:
        InputError: h5py is missing, or the file is damaged or has another layout.
    """
    where = str(path)
    with _opened(path) as file:
        arrays = {
            name: numbers_of(file, name, where) for name in ("observations", "actions", "rewards")
        }
        if "timeouts" not in file:
            raise InputError(
                f"{where}: has no 'timeouts', which number the steps; fetch version 2 of the set"
            )
        cut = numbers_of(file, "timeouts", where).astype(bool)
    if len({len(array) for array in (*arrays.values(), cut)}) > 1 or len(cut) < 2:
        raise InputError(f"{where}: its arrays differ in length; fetch it again")
    kept = np.flatnonzero(~cut[:-1])
    obs = arrays["observations"]
    rewards = arrays["rewards"].reshape(len(cut))[kept].astype(np.float64)
    return Steps(obs[kept], arrays["actions"][kept], obs[kept + 1], rewards)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with import_h5py().File(path, "r") as file:
            yield file
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, MemoryError) as error:
        raise InputError(
            f"{path}: not readable as HDF5 of D4RL ({one_line(error, 120)}); fetch it again"
        ) from error


def to_rows(task: LabelledSegments, steps: Steps) -> list[PreferenceRow]:
    """Cuts the segments from the data set.

    Args:
        task: The labels.
        steps: The data set that was labelled.

    Raises:
        InputError: A segment lies outside the data set.
    """
    last = int(max(task.first.max(), task.second.max())) + task.length
    if last > len(steps.acts):
        raise InputError(
            f"--data: has {len(steps.acts)} steps, but segments of {task.env} end at step {last}; "
            f"name the data set {task.env}"
        )
    rows = []
    for label, start1, start2 in zip(task.labels, task.first, task.second, strict=True):
        first, second = (_segment(steps, int(start), task.length) for start in (start1, start2))
        preference, choice = _PREFERENCES[int(label)]
        answer = RecordedAnswer("annotators", preference, choice, False, "new", 1.0, None)
        rows.append(
            PreferenceRow(pair_digest(first, second), first, second, preference, 1.0, [answer])
        )
    return rows


def _segment(steps: Steps, start: int, length: int) -> TrajectoryWithRew:
    end = start + length
    obs = np.concatenate([steps.obs[start:end], steps.next_obs[end - 1 : end]])
    return TrajectoryWithRew(obs, steps.acts[start:end], None, False, steps.rews[start:end])


def write_imported(task: LabelledSegments, rows: list[PreferenceRow], to: Path) -> str:
    """Writes a data set of preferences with a card; returns the digest of its data.

    Raises:
        InputError: The folder exists or cannot be written.
    """
    with new_folder(to) as draft:
        write_preferences(draft / DATA_FILE, rows)
        digest = digest_files(draft, [draft / DATA_FILE])
        counts = {name: int((task.labels == value).sum()) for value, name in LABEL_NAMES.items()}
        atomic_write_text(
            draft / CARD_FILE,
            imported_card(task.env, task.length, counts, digest, human=task.human),
        )
    return digest
