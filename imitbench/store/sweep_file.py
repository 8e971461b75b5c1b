"""What was asked for: each sweep leaves the runs that it planned, for people who watch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from imitbench.store.records import RUN_ID_LENGTH, Record, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.files import atomic_write_text

SWEEPS_FOLDER = ".sweeps"
# A file may come from anybody: nothing in it leads out of the results folder.
_Folder = Annotated[str, Field(pattern=r"^[^/.\\][^/\\]*(/[^/.\\][^/\\]*){2}$")]
_RunId = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{RUN_ID_LENGTH}}}$")]


class PlannedCell(Record):
    """Runs of one algorithm on one environment.

    Attributes:
        suite: Name of the suite.
        algo: Algorithm, with its variant.
        env: Environment id.
        folder: Where their directories belong, below the results folder.
        run_ids: The runs, which are the names of their directories.
    """

    suite: str
    algo: str
    env: str
    folder: _Folder
    run_ids: list[_RunId]


class SweepFile(Record):
    """Runs that were asked for at once.

    Attributes:
        command: The command that the user typed.
        cells: The runs by algorithm and environment.
    """

    schema_version: Literal[1] = 1
    command: str
    cells: list[PlannedCell]

    @classmethod
    def of(cls, out: Path, runs: Iterable[RunSpec], command: str) -> SweepFile:
        """Writes down runs, those of a cell next to each other."""
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
                )
            )
        return cls(command=command, cells=cells)

    @property
    def digest(self) -> str:
        """Hash of the runs, in any order; the same runs again have the same."""
        ids = sorted(run_id for cell in self.cells for run_id in cell.run_ids)
        return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]

    def write(self, out: Path) -> Path:
        """Writes `<out>/.sweeps/<digest>.json`, unless it is there, and returns its path.

        Raises:
            OSError: It cannot be written.
        """
        path = out / SWEEPS_FOLDER / f"{self.digest}.json"
        if not path.exists():
            atomic_write_text(path, self.model_dump_json(indent=1) + "\n")
        return path


def read_sweeps(out: Path) -> list[SweepFile]:
    """Reads every sweep of a results folder; files that are none are passed over."""
    sweeps = []
    for path in sorted((out / SWEEPS_FOLDER).glob("*.json")):
        try:
            sweeps.append(SweepFile.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError):
            continue
    return sweeps
