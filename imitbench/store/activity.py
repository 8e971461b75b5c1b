"""Who is at work on a results folder: each sweep in progress holds a lease of its own there."""

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
    """Within it, others see that this process has runs done in a results folder.

    Raises:
        InputError: The folder cannot be written.
        OSError: Likewise.
    """
    folder = out / SWEEPS_FOLDER / _FOLDER
    _sweep_out(folder)
    own, held = _enter(folder)
    try:
        yield
    finally:
        held.release()
        shutil.rmtree(own, ignore_errors=True)


def is_active(out: Path) -> bool:
    """Whether some living process has runs done in a results folder, here or elsewhere."""
    return any(lease.is_held(each) for each in _present(out / SWEEPS_FOLDER / _FOLDER))


def _enter(folder: Path) -> tuple[Path, lease.Lease]:
    """Makes a folder of this sweep's own and takes its lease."""
    while True:
        own = folder / uuid.uuid4().hex
        own.mkdir(parents=True)
        try:
            held = lease.acquire(own, wait=True)
        except InputError:
            if own.exists():
                raise
            continue  # before it had a lease, another sweep took it for one left behind
        assert held is not None
        return own, held


def _sweep_out(folder: Path) -> None:
    """Removes what processes that were killed left behind."""
    for each in _present(folder):
        # Another sweep may be removing it just now; and what cannot be removed harms nobody.
        with suppress(InputError):
            abandoned = lease.acquire(each, wait=False)
            if abandoned is not None:
                # Before the lease is let go: afterwards, the folder may be its owner's again.
                shutil.rmtree(each, ignore_errors=True)
                abandoned.release()


def _present(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return []
