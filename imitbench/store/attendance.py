"""Who is at work on a results folder: each sweep in progress holds a lease of its own there."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.store import lease
from imitbench.store.sweep_file import SWEEPS_FOLDER

_FOLDER = "at-work"


@contextmanager
def attending(out: Path) -> Iterator[None]:
    """Within it, others see that this process has runs done in a results folder.

    Raises:
        InputError: The folder cannot be written.
        OSError: Likewise.
    """
    folder = out / SWEEPS_FOLDER / _FOLDER
    _sweep_out(folder)
    own = folder / uuid.uuid4().hex
    own.mkdir(parents=True)
    held = lease.acquire(own, wait=True)
    assert held is not None
    try:
        yield
    finally:
        held.release()
        shutil.rmtree(own, ignore_errors=True)


def is_attended(out: Path) -> bool:
    """Whether some living process has runs done in a results folder, here or elsewhere."""
    return any(lease.is_held(each) for each in _present(out / SWEEPS_FOLDER / _FOLDER))


def _sweep_out(folder: Path) -> None:
    """Removes what processes that were killed left behind."""
    for each in _present(folder):
        if (abandoned := lease.acquire(each, wait=False)) is not None:
            abandoned.release()
            shutil.rmtree(each, ignore_errors=True)


def _present(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return []
