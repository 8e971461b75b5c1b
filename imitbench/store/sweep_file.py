"""Sweeps of a results folder: the file of each, and whether one is active.

A sweep file stores the request and the runs that it planned. `imitbench status` uses it to show
open runs, and `imitbench resume` to do missing runs. Each active sweep holds a lease beside it.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from imitbench.cards.budgets import BudgetName
from imitbench.cards.demonstrations import Mixture, Regime, SetName
from imitbench.errors import InputError
from imitbench.records.runs import (
    RUN_ID_LENGTH,
    AbbreviatedRecord,
    DeviceClass,
    Record,
    RunSpec,
    RunTime,
)
from imitbench.store import lease
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted.files import read_content
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.files import atomic_write_text

SWEEPS_FOLDER = ".sweeps"
# The file may come from an untrusted source: no path in it may leave the results folder.
_Folder = Annotated[str, Field(pattern=r"^[^/.\\][^/\\]*(/[^/.\\][^/\\]*){2}$")]
_RunId = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{RUN_ID_LENGTH}}}$")]


class PlannedCell(Record):
    """Runs of one algorithm on one environment.

    Attributes:
        suite: Name of the suite.
        algo: Name of the algorithm, with its variant.
        env: Environment id.
        folder: Parent of their run directories, relative to the results folder.
        run_ids: Ids of the runs, which are the names of their directories.
        expected: Expected time of one run, from the costs on the cards; `None` in files of earlier
            versions.
    """

    suite: str
    algo: str
    env: str
    folder: _Folder
    run_ids: list[_RunId]
    expected: RunTime | None = None


class SweepRequest(AbbreviatedRecord):
    """Everything that determines the runs of a sweep, without execution options.

    Attributes:
        algorithms: Names; as typed, they have any form that `imitbench.cards.plugins` accepts.
        suite: Name of the suite; as typed, it may be a folder.
        environment: Globs over environment ids, separated by commas; `None` for all.
        seeds: Seeds of every cell.
        budget: Name of the budget.
        n_demos: Demonstrations to learn from; `None` for all.
        demo_every: One step is kept out of so many of each; `None` for all steps.
        actions: `hidden` if methods learn from observations; `None` otherwise.
        mixture: Further trajectories by the name of their set; `None` for none.
        own_sets: Where sets of the mixture are that the suite's card lacks, by name; `None` if it
            has all.
        overrides: Hyper-parameters as text, by `name` or `algorithm.name`.
        config: `tuned` to use tuned hyper-parameters where they exist; or the file with them.
        source: Where experts and demonstrations come from.
        lock: Lock file of the hub; `None` if there was none.
        device: Class of the processor; `auto`: each card decides, see
            `imitbench.bench.spec.choose_processor`.
        pack: Number of seeds to train together; `None` to train each alone.
        folder: Folder of the request: base of relative paths in `source`, `lock` and `config`.
        plugins: References to algorithms and suite from outside the package, by name. They are
            only displayed: a results folder may come from an untrusted source, so plug-ins that
            it names are not run.
    """

    optional = ("actions", "mixture", "own_sets")

    algorithms: list[str]
    suite: str
    environment: str | None = None
    seeds: list[int]
    budget: BudgetName = "default"
    n_demos: int | None = None
    demo_every: int | None = None
    actions: Literal["hidden"] | None = None
    mixture: Mixture | None = None
    own_sets: dict[SetName, str] | None = None
    overrides: dict[str, str] = Field(default_factory=dict)
    config: str = "default"
    source: str = "bundled"
    lock: str | None = None
    device: DeviceClass | Literal["auto"] = "cpu"
    pack: int | None = None
    folder: str
    plugins: dict[str, str] = Field(default_factory=dict)

    @property
    def regime(self) -> Regime:
        """What methods learn from."""
        return Regime(
            n_demos=self.n_demos,
            demo_every=self.demo_every,
            actions=self.actions or "shown",
            mixture=self.mixture or {},
        )


class SweepFile(Record):
    """Runs that one command requested.

    Attributes:
        command: The command that the user typed.
        cells: The runs by algorithm and environment.
        request: Request from which the runs follow; `None` if an earlier version or another
            program omitted it.
    """

    schema_version: Literal[1, 2, 3] = 3
    command: str
    cells: list[PlannedCell]
    request: SweepRequest | None = None

    @classmethod
    def of(
        cls,
        out: Path,
        runs: Iterable[RunSpec],
        command: str,
        request: SweepRequest | None = None,
        expected: Callable[[RunSpec], RunTime] | None = None,
    ) -> SweepFile:
        """Creates the file's content; runs of a cell must be consecutive."""
        cells = []
        for _, group in groupby(runs, key=lambda r: (r.suite, r.algo_label, r.environment.id)):
            members = list(group)
            first = members[0]
            folder = RunDirectory.of(out, first).path.parent.relative_to(out).as_posix()
            cells.append(
                PlannedCell(
                    suite=first.suite,
                    algo=first.algo_label,
                    env=first.environment.id,
                    folder=folder,
                    run_ids=[run.run_id for run in members],
                    expected=None if expected is None else expected(first),
                )
            )
        return cls(command=command, cells=cells, request=request)

    @property
    def digest(self) -> str:
        """Hash of the run ids, independent of their order."""
        ids = sorted(run_id for cell in self.cells for run_id in cell.run_ids)
        return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]

    def write(self, out: Path) -> Path:
        """Writes `<out>/.sweeps/<digest>.json`, and returns its path.

        An existing file is kept, unless its request differs or is missing.

        Raises:
            OSError: The file cannot be written.
        """
        path = out / SWEEPS_FOLDER / f"{self.digest}.json"
        present = _read(path)
        if present is None or self.request not in (None, present.request):
            atomic_write_text(path, self.model_dump_json(indent=1) + "\n")
        return path

    @property
    def paths(self) -> dict[str, str]:
        """Path of each run directory below the results folder, by run id."""
        return {run_id: f"{cell.folder}/{run_id}" for cell in self.cells for run_id in cell.run_ids}


def read_sweeps(out: Path) -> list[SweepFile]:
    """Reads every sweep of a results folder; skips files that are malformed.

    Raises:
        InputError: A file is larger than the limit `sweep_bytes`.
    """
    paths = sorted((out / SWEEPS_FOLDER).glob("*.json"))
    for path in paths:
        with suppress(OSError):  # gone, or a link without a target
            size = path.stat().st_size
            if size > limits().sweep_bytes:
                raise InputError(f"{path}: {beyond('sweep_bytes', f'has {size:,} bytes')}")
    found = [_read(path) for path in paths]
    return [sweep for sweep in found if sweep is not None]


def _read(path: Path) -> SweepFile | None:
    try:
        return SweepFile.model_validate_json(read_content(path))
    except (InputError, OSError, ValidationError):
        return None


_ACTIVE_FOLDER = "at-work"


@contextmanager
def active_sweep(out: Path) -> Iterator[None]:
    """Context in which other processes see that this process has an active sweep in a folder.

    Raises:
        InputError: The folder cannot be written.
        OSError: The folder cannot be written.
    """
    folder = out / SWEEPS_FOLDER / _ACTIVE_FOLDER
    _remove_abandoned(folder)
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
    folders = _present(out / SWEEPS_FOLDER / _ACTIVE_FOLDER)
    return any(lease.is_held(folder, may_write=may_write) for folder in folders)


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


def _remove_abandoned(folder: Path) -> None:
    """Removes the folders of killed processes."""
    for left in _present(folder):
        # Another sweep may be removing it; and a folder that cannot be removed is harmless.
        with suppress(InputError):
            held = lease.acquire(left, wait=False)
            if held is not None:
                # Before the release: afterwards, the lease may belong to its owner again.
                shutil.rmtree(left, ignore_errors=True)
                held.release()


def _present(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return []
