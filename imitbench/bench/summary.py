"""Summary of a sweep: counts, and the rows of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitbench.bench.sweep import SweepOutcome
from imitbench.records.runs import FailureRow, ReferenceRow, ScoreRow
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    import pandas

    from imitbench.bench.plan import NotApplicable, Plan
    from imitbench.store.collector import QuarantinedSource


@dataclass(frozen=True)
class SweepSummary:
    """Results of everything that was requested, including runs of earlier sweeps.

    Attributes:
        out: Root of the results folder.
        outcome: What this sweep did.
        scores: Rows of the requested runs that are complete.
        failures: Rows of the requested runs that failed.
        references: Reference scores of their environments.
        not_applicable: Algorithms and environments that do not fit together.
        left_out: Run directories that cannot be read.
    """

    out: Path
    outcome: SweepOutcome = field(default_factory=SweepOutcome)
    scores: tuple[ScoreRow, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    references: tuple[ReferenceRow, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    left_out: tuple[QuarantinedSource, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed, was lost, or was left undone."""
        outcome = self.outcome
        return not (self.failures or outcome.left or outcome.lost)

    def to_frame(self) -> pandas.DataFrame:
        """Returns the completed runs as a table with one row each."""
        pd = import_extra("pandas", "pandas", "a table of results in Python")
        frame: pandas.DataFrame = pd.DataFrame(
            [row.model_dump() for row in self.scores], columns=list(ScoreRow.model_fields)
        )
        return frame

    def as_document(self) -> dict[str, Any]:
        """Returns what `--json` prints."""
        return {
            "already_done": self.outcome.already_done,
            "done": self.outcome.done,
            "failed": [row.model_dump(mode="json") for row in self.failures],
            "left": self.outcome.left,
            "queued": self.outcome.queued,
            "lost": self.outcome.lost,
            "not_applicable": [vars(pair) for pair in self.not_applicable],
            "scores": [row.model_dump(mode="json") for row in self.scores],
        }


def summarize_sweep(plans: Sequence[Plan], out: Path, outcome: SweepOutcome) -> SweepSummary:
    """Collects new results in a results folder, and reads the rows of the plans' runs.

    Args:
        plans: Plans of the requested runs.
        out: Root of the results folder.
        outcome: What this sweep did.
    """
    from imitbench.store import database
    from imitbench.store.collector import collect

    left_out = collect(out).quarantined
    wanted = {spec.run_id for plan in plans for spec in plan}
    cells = {(plan.suite.name, env_id) for plan in plans for env_id in plan.environments}
    with database.reader(out) as connection:
        return SweepSummary(
            out=out,
            outcome=outcome,
            scores=tuple(row for row in database.read_scores(connection) if row.run_id in wanted),
            failures=tuple(
                row for row in database.read_failures(connection) if row.run_id in wanted
            ),
            references=tuple(
                row for row in database.read_references(connection) if (row.suite, row.env) in cells
            ),
            not_applicable=tuple(pair for plan in plans for pair in plan.not_applicable),
            left_out=tuple(left_out),
        )
