"""A job: the file that names one or more runs of one cell, which an executor gives to a worker."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.executors.options import JobOptions
from imitbench.records.runs import ReferenceScores, RunSpec
from imitbench.store import lease
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.source_import import SourceLocation

if TYPE_CHECKING:
    from typing_extensions import Self

JOBS_FOLDER = ".jobs"


class Job(JobOptions):
    """Content of a job file (JSON): the runs, and the options that concern a worker.

    Attributes:
        out: Results folder, absolute.
        source_root: Folder that holds `experts/` and `demos/`, absolute.
        sources: Locations of source outside this package, by digest. The user names them; a run's
            specification has only their digests.
        runs: Runs of one algorithm on one environment.
        companions: Other runs of their pack, which is only complete with them. They are trained,
            too, but not evaluated or saved.
        references: References of that environment.
        command: The command that the user typed, for provenance.
        owner: Mark of the process that submitted it, if the job ends with that process.
        id: Unique id. It shows whether a run was begun by this job, which several workers may
            receive one after another.
    """

    out: str
    source_root: str
    sources: dict[str, SourceLocation] = Field(default_factory=dict)
    runs: list[RunSpec]
    companions: list[RunSpec] = Field(default_factory=list)
    references: ReferenceScores
    command: str
    owner: str = ""
    id: str = Field(default_factory=lambda: uuid.uuid4().hex)

    def write(self) -> Path:
        """Writes the job file below the results folder and returns its path."""
        path = Path(self.out) / JOBS_FOLDER / f"{self.runs[0].run_id}-{self.id[:8]}.json"
        atomic_write_text(path, self.model_dump_json() + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a job file.

        Raises:
            InputError: The file is missing or malformed.
        """
        try:
            return cls.model_validate_json(read_content(path))
        except (OSError, ValidationError) as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{path}: not a job file ({problem})") from error


def remove_orphans(out: Path) -> None:
    """Removes job files of processes that were killed; other jobs will have their runs.

    Args:
        out: Root of the results folder.
    """
    for path in (out / JOBS_FOLDER).glob("*.json"):
        with suppress(InputError, OSError):  # also the file of a job that is done just now
            owner = Job.read(path).owner
            if owner and lease.is_gone(owner):
                path.unlink(missing_ok=True)


def group_runs(runs: Iterable[RunSpec], size: int) -> Iterator[list[RunSpec]]:
    """Groups consecutive runs of the same cell, which optimize the same learned reward, if any.

    Args:
        runs: Runs, sorted so that those of a cell, and in it those of a reward, are consecutive.
        size: Largest number of runs in a group; runs that are trained in packs are in groups of
            that size instead.
    """
    # A reward that cannot be read fails its pack, which must not have the runs of another reward.
    for _, cell in groupby(runs, key=lambda run: (run.algo_label, run.environment.id, run.reward)):
        left = list(cell)
        while left:
            count = left[0].pack or size
            yield left[:count]
            left = left[count:]
