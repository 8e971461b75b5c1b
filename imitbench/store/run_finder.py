"""Finds one run of a results folder by the start of its id."""

from __future__ import annotations

import difflib
from pathlib import Path

from imitbench.errors import InputError
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories
from imitbench.store.sweep_file import read_sweeps

_SHOWN = 5


def find_run(out: Path, start: str) -> RunDirectory:
    """Finds a run directory.

    Args:
        out: Results folder.
        start: Id of a run, or the start of it.

    Raises:
        InputError: No run begins so, or several do, or it has not been begun.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    paths = [Path(path) for path in run_directories(out)]
    found = [path for path in paths if start and path.name.startswith(start)]
    if len(found) == 1:
        return RunDirectory(out / found[0])
    if found:
        shown = ", ".join(_label(path) for path in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(f"run {start}: {len(found)} runs of {out} begin so: {shown}{more}")
    for sweep in read_sweeps(out):
        if any(start and run_id.startswith(start) for run_id in sweep.paths):
            raise InputError(f"run {start}: was asked for and has not been begun")
    near = difflib.get_close_matches(start, [path.name for path in paths], n=1, cutoff=0.3)
    hint = [f"; the nearest is {_label(path)}" for path in paths if path.name in near]
    raise InputError(
        f"run {start}: no run of {out} begins so{''.join(hint[:1])}; "
        "`imitbench sql 'select run_id, algo, env, seed from runs'` lists them"
    )


def _label(path: Path) -> str:
    algo, env, run_id = path.parts[-3:]
    return f"{run_id} ({algo} on {env})"
