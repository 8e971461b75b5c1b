"""What a leaderboard says, before it is written in any format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from imitbench.published.results_folder import PublishedRun
from imitbench.published.results_sources import ResultsSource
from imitbench.records.runs import FailureRow, ScoreRow
from imitbench.report.model import AlgorithmResult, Section, StatisticsSettings
from imitbench.store.external_results import ExternalRun

RowKind = Literal["run", "reference", "external", "missing"]


@dataclass(frozen=True)
class BoardRun:
    """A completed run as the board shows it.

    Attributes:
        row: Its row, whose id tells submitters apart.
        run: The run itself.
        submitter: Who submitted it.
        episodes: Its file of episodes, below the site.
    """

    row: ScoreRow
    run: PublishedRun
    submitter: str
    episodes: str


@dataclass(frozen=True)
class BoardFailure:
    """A failed run as the board shows it."""

    row: FailureRow
    run: PublishedRun
    submitter: str


@dataclass(frozen=True)
class ImportSource:
    """Where an external row comes from.

    Attributes:
        label: Label of the import.
        tool: Importer that made it.
        source: Base name of what was imported.
        runs: The runs behind the row.
    """

    label: str
    tool: str
    source: str
    runs: tuple[ExternalRun, ...]

    @property
    def said(self) -> str:
        """In words."""
        return f"{self.label} ({self.tool}: {self.source})"


@dataclass(frozen=True)
class BoardRow:
    """An algorithm in one of the board's tables.

    Attributes:
        rank: Place by IQM among own results that cover every environment and pass the checks;
            `None` for others.
        name: The algorithm as its runs name it.
        kind: Where the numbers come from.
        submitters: Whose runs these are.
        result: Cells and aggregates.
        runs: The runs that the numbers are made of.
        failures: Failed runs, which they are not made of.
        page: Its page, below the site; `None` if it has no runs.
        anchor: Where on that page the table's runs are.
        imported: Where an external row comes from.
        color: Place in the palette; anchors and external rows have none.
        checked: Whether all submissions that it is made of pass the checks; own runs are not
            checked.
    """

    rank: int | None
    name: str
    kind: RowKind
    submitters: tuple[str, ...]
    result: AlgorithmResult
    runs: tuple[BoardRun, ...] = ()
    failures: tuple[BoardFailure, ...] = ()
    page: str | None = None
    anchor: str = ""
    imported: ImportSource | None = None
    color: int | None = None
    checked: bool = True

    @property
    def env_steps(self) -> float | None:
        """Mean environment steps of training per run."""
        return _mean([run.row.env_steps for run in self.runs])

    @property
    def wall_s(self) -> float | None:
        """Mean seconds per run, evaluation included."""
        return _mean([run.row.wall_s for run in self.runs])


@dataclass(frozen=True)
class BoardSection:
    """One table: runs that may be compared.

    Attributes:
        section: The report's section.
        rows: Ranked ones first, then partial ones, external ones and anchors.
    """

    section: Section
    rows: tuple[BoardRow, ...]


@dataclass(frozen=True)
class Board:
    """A whole leaderboard.

    Attributes:
        title: What to call it.
        method: How its numbers were made.
        sources: Whose results it is made of.
        sections: By suite, budget, number of demonstrations and source.
    """

    title: str
    method: StatisticsSettings
    sources: tuple[ResultsSource, ...]
    sections: tuple[BoardSection, ...]


def _mean(values: list[int] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None
