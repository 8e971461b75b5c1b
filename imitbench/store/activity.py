"""Shows whether a sweep is active in a results folder: each active sweep holds a lease there."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from imitbench.errors import InputError
from imitbench.store import lease
from imitbench.store.sweep_file import SWEEPS_FOLDER

_FOLDER = "at-work"


@contextmanager
def active_sweep(out: Path) -> Iterator[None]:
    """Context in which other processes see that this process has an active sweep in a folder.

    Raises:
        InputError: The folder cannot be written.
        OSError: The folder cannot be written.
    """
    folder = out / SWEEPS_FOLDER / _FOLDER
    _sweep_out(folder)
    own, held = _enter(folder)
    try:
        yield
    finally:
        held.release()
        shutil.rmtree(own, ignore_errors=True)


def is_active(out: Path, *, may_write: bool = True) -> bool:
    """Whether a running process, on any machine, has an active sweep in a results folder.

    Args:
        out: Root of the results folder.
        may_write: See `imitbench.store.lease.is_held`.
    """
    present = _present(out / SWEEPS_FOLDER / _FOLDER)
    return any(lease.is_held(each, may_write=may_write) for each in present)


def _enter(folder: Path) -> tuple[Path, lease.Lease]:
    """Creates a folder for this sweep and takes its lease."""
    while True:
        own = folder / uuid.uuid4().hex
        own.mkdir(parents=True)
        try:
            held = lease.acquire(own, wait=True)
        except InputError:
            if own.exists():
                raise
            continue  # another sweep removed it as abandoned, before it had a lease
        assert held is not None
        return own, held


def _sweep_out(folder: Path) -> None:
    """Removes the folders of killed processes."""
    for each in _present(folder):
        # Another sweep may be removing it; and a folder that cannot be removed is harmless.
        with suppress(InputError):
            abandoned = lease.acquire(each, wait=False)
            if abandoned is not None:
                # Before the release: afterwards, the lease may belong to its owner again.
                shutil.rmtree(each, ignore_errors=True)
                abandoned.release()


def _present(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return []
