"""DAgger's demonstrations on disk, one folder per round."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import trajectories_to_table
from imitbench.data.demonstrations import PARQUET_OPTIONS, read_trajectories
from imitbench.data.observations import assert_not_dictobs
from imitbench.data.serialize import load
from imitbench.data.types import Trajectory, TransitionsMinimal
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_bytes

GIVEN = "initial"
"""Folder of demonstrations that were passed to a trainer."""
COLLECTED = "rollouts"
"""Folder of demonstrations that a trainer collected.

The names are fixed so that repeating a round, after an interruption, replaces them.
"""

_SHARD = Path("data") / "train-00000-of-00001.parquet"


def write_demos(folder: Path, trajectories: Sequence[Trajectory]) -> None:
    """Writes trajectories as a data set folder, with their data types.

    The write is atomic; it replaces the trajectories of an earlier call.

    Args:
        folder: Created if missing.
        trajectories: At least one. Infos that cannot be written as JSON are dropped with a warning,
            to save the rest of the expert's work.

    Raises:
        InputError: The trajectories have different shapes or data types.
    """
    try:
        table = trajectories_to_table(trajectories)
    except InputError as error:
        # Fails again unless the infos were the cause.
        table = trajectories_to_table([dataclasses.replace(t, infos=None) for t in trajectories])
        warnings.warn(f"{folder}: saved without infos: {error}", stacklevel=2)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **PARQUET_OPTIONS)
    atomic_write_bytes(folder / _SHARD, sink.getvalue().to_pybytes())


def claim_folder(parent: Path, stem: str) -> Path:
    """Creates the next folder `stem_000`, `stem_001`, …; no other process gets the same one."""
    parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(sum(1 for _ in parent.glob(f"{stem}_*"))):
        folder = parent / f"{stem}_{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("counting does not end")


def demo_entries(folder: Path) -> list[Path]:
    """All entries of a round's folder that hold demonstrations, sorted by name.

    Excludes hidden files, and folders that a writer has claimed but not yet filled.
    """
    if not folder.is_dir():
        return []
    visible = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in visible if entry.is_file() or _has_file(entry))


def _has_file(folder: Path) -> bool:
    return any(path.is_file() and not path.name.startswith(".") for path in folder.rglob("*"))


def read_demos(folder: Path) -> list[Trajectory]:
    """Reads all demonstrations in a round's folder, from any source.

    Args:
        folder: Each entry is something that `imitbench.data.serialize.load` reads.

    Returns:
        The trajectories in order of file name; infos may be missing.

    Raises:
        InputError: A file is damaged or holds something else.
    """
    trajectories: list[Trajectory] = []
    for entry in demo_entries(folder):
        if (entry / _SHARD.parent).is_dir() or entry.suffix == ".parquet":
            trajectories += read_trajectories(entry)
        else:
            trajectories += load(entry)
    return trajectories


def as_pairs(rounds: Sequence[Sequence[Trajectory]]) -> TransitionsMinimal:
    """Joins the trajectories of all rounds, in order, into observations and actions."""
    trajectories = [trajectory for collected in rounds for trajectory in collected]
    acts = np.concatenate([trajectory.acts for trajectory in trajectories])
    return TransitionsMinimal(
        obs=np.concatenate([assert_not_dictobs(t.obs)[:-1] for t in trajectories]),
        acts=acts,
        infos=np.broadcast_to(np.array({}, dtype=object), len(acts)),
    )


def pack(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Packs trajectories into four arrays for a checkpoint, without rewards and infos."""
    return {
        "obs": np.concatenate([assert_not_dictobs(t.obs) for t in trajectories]),
        "acts": np.concatenate([t.acts for t in trajectories]),
        "lengths": np.array([len(t) for t in trajectories]),
        "terminal": np.array([t.terminal for t in trajectories]),
    }


def unpack(packed: Mapping[str, Any]) -> list[Trajectory]:
    """Inverse of `pack`."""
    cuts = np.cumsum(packed["lengths"])[:-1]
    acts = np.split(packed["acts"], cuts)
    obs = np.split(packed["obs"], cuts + np.arange(1, len(cuts) + 1))
    return [
        Trajectory(o, a, None, bool(end))
        for o, a, end in zip(obs, acts, packed["terminal"], strict=True)
    ]
