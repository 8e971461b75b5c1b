"""Carries out a race: looks, trains what the next look needs, and looks again.

Nothing is kept but the design and the runs. Each step replays all looks from the outcomes of the
runs, so a race that is killed at any instant goes on to the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from imitbench.bench.plan import Plan
from imitbench.bench.sweep import SweepOutcome, carry_out, check_writable
from imitbench.executors.options import RunOptions
from imitbench.published.submission import check_no_submission
from imitbench.race.planning import PlannedRace
from imitbench.records.published import PublishedRun
from imitbench.records.race_design import RaceDesign
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.stats.sequential import Race
from imitbench.store import lease
from imitbench.store.races import (
    RegisteredRace,
    check_foreign,
    foreign_runs,
    read_outcomes,
    register,
)
from imitbench.store.registered_designs import design_folder


@dataclass(frozen=True)
class RaceStanding:
    """A race with its runs so far.

    Attributes:
        design: The design.
        runs: All completed and failed runs of the design.
        found: Looks, decisions, and what the next look needs.
    """

    design: RaceDesign
    runs: tuple[PublishedRun, ...]
    found: Race

    @classmethod
    def read(cls, out: Path, design: RaceDesign) -> RaceStanding:
        """Reads the runs of a results folder, and looks at them.

        Raises:
            InputError: A record is malformed, or the folder has comparable runs that do not belong
                to the design.
        """
        runs = read_outcomes(out, design)
        check_foreign(f"--out {out}", foreign_runs(design, runs))
        own = tuple(run for run in runs if design.has(run))
        return cls(design, own, design.replay(own))

    @property
    def over(self) -> bool:
        """Whether all is decided, or the limit of seeds is reached."""
        return not self.found.needed

    @property
    def failures(self) -> list[tuple[RunSpec, RunFailure]]:
        """Failed runs."""
        return [(run.spec, run.failure) for run in self.runs if run.failure is not None]

    @property
    def hopeless(self) -> list[tuple[RunSpec, RunFailure]]:
        """The first failure of each cell whose runs all failed, from the first look on."""
        return [failures[0] for failures in self.failed_cells]

    @property
    def failed_cells(self) -> list[list[tuple[RunSpec, RunFailure]]]:
        """The failures of each cell whose runs all failed, from the first look on."""
        found = []
        for own in _by_cell(self.runs).values():
            failures = [(run.spec, run.failure) for run in own if run.failure is not None]
            if len(failures) == len(own) >= self.design.batch:
                found.append(failures)
        return found


class RaceObserver(Protocol):
    """Notified of the progress of a race."""

    def looked(self, standing: RaceStanding) -> None:
        """Called after each look, and before the first one."""

    def waiting(self) -> None:
        """Called when another process is carrying out this race."""


@dataclass
class RaceResult:
    """How a race ended.

    Attributes:
        race: The registered race.
        standing: Its state at the end.
        trained: Outcome of the runs of this process.
    """

    race: RegisteredRace
    standing: RaceStanding
    trained: SweepOutcome = field(default_factory=SweepOutcome)


def run_race(
    planned: PlannedRace,
    options: RunOptions,
    *,
    out: Path,
    command: str,
    observer: RaceObserver,
    quiet: bool = True,
) -> RaceResult:
    """Registers a race, unless it is registered, and carries it out until it is over or stopped.

    Failed runs count, and are not tried again, unless all runs of a method on an environment
    failed: nothing was decided with those.

    Args:
        planned: The race and its plan.
        options: Execution options, as `imitbench.executors.registry.resolve` returns them.
        out: Results folder.
        command: The command that the user typed, for provenance.
        observer: Notified of looks.
        quiet: Whether not to show the progress of runs.

    Returns:
        The result. The race stops before it is over if runs are left, lost or queued, or if all
        runs of a cell failed.

    Raises:
        InputError: The folder has other results, or a batch cannot be run.
    """
    check_no_submission(out)
    check_writable(out)
    race = register(out, planned.race, planned.plan.request)

    def train(wanted: set[str]) -> SweepOutcome:
        from imitbench.bench.progress import make_observer

        plan = replace(planned.plan, only=frozenset(wanted))
        with make_observer(quiet=quiet) as progress:
            return carry_out([plan], options, out=out, command=command, observer=progress)

    with alone(design_folder(out, race), observer.waiting):
        standing = RaceStanding.read(out, race.design)
        result = RaceResult(race, standing)
        again = {spec.run_id for failures in standing.failed_cells for spec, _ in failures}
        while again or not (standing.over or standing.hopeless):
            observer.looked(standing)
            outcome = train(again or set(_missing(planned.plan, standing)))
            result.trained.add(outcome)
            standing = RaceStanding.read(out, race.design)
            result.standing, again = standing, set()
            if outcome.left or outcome.queued or outcome.lost:
                return result
        observer.looked(standing)
        return result


@contextmanager
def alone(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Ensures that one process at a time carries out a race; waits for another one.

    Args:
        folder: Folder of the race.
        waiting: Called if there is another one.
    """
    held = lease.acquire(folder, wait=False)
    if held is None:
        waiting()
        held = lease.acquire(folder, wait=True)
    assert held is not None
    try:
        yield
    finally:
        held.release()


def _missing(plan: Plan, standing: RaceStanding) -> Iterator[str]:
    """Yields the ids of the runs that the next look needs and that have no outcome."""
    done = {run.spec.run_id for run in standing.runs}
    last = {(need.method, need.environment): need.last for need in standing.found.needed}
    for spec in plan:
        wanted = spec.seed < last.get((spec.algo, spec.environment.id), 0)
        if wanted and spec.run_id not in done:
            yield spec.run_id


def _by_cell(runs: tuple[PublishedRun, ...]) -> dict[tuple[str, str], list[PublishedRun]]:
    cells: dict[tuple[str, str], list[PublishedRun]] = {}
    for run in sorted(runs, key=lambda run: run.spec.seed):
        cells.setdefault((run.spec.algo, run.spec.environment.id), []).append(run)
    return cells
