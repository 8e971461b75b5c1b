"""What `imitbench.race` returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from imitbench.race.driver import RaceResult
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.report.race_tables import RaceVerdict, verdicts_of
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class RaceSummary:
    """The state of a race.

    Attributes:
        id: Id of the registered design.
        over: Whether all is decided, or the limit of seeds is reached. Otherwise the same call goes
            on: the race was stopped, its runs are in a queue, or all runs of a method failed.
        verdicts: Verdict on each pair, overall and by environment.
        seeds: Number of seeds used, by method and environment.
        failures: Failed runs.
    """

    id: str
    over: bool
    verdicts: tuple[RaceVerdict, ...]
    seeds: dict[tuple[str, str], int]
    failures: tuple[tuple[RunSpec, RunFailure], ...]

    @classmethod
    def of(cls, result: RaceResult) -> RaceSummary:
        """Summarizes a race."""
        standing = result.standing
        return cls(
            id=result.race.id,
            over=standing.over,
            verdicts=tuple(verdicts_of(standing.design, standing.found)),
            seeds=standing.design.used(standing.found),
            failures=tuple(standing.failures),
        )

    def to_frame(self) -> pandas.DataFrame:
        """Returns the verdicts as a table, one row per comparison."""
        pd = import_extra("pandas", "pandas", "a table of verdicts in Python")
        frame: pandas.DataFrame = pd.DataFrame([asdict(each) for each in self.verdicts])
        return frame

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(index=False, float_format="%.3f", na_rep="")
        return html
