"""What a leaderboard says, before it is written in any format."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from imitbench.published.results_sources import ResultsSource
from imitbench.records.published import PublishedRun
from imitbench.records.runs import FailureRow, ScoreRow
from imitbench.report import text
from imitbench.report.model import AlgorithmResult, Section, StatisticsSettings
from imitbench.stats.intervals import Interval
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


_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[a-z0-9_][a-z0-9_-]{0,59}")


def slug(text: str) -> str:
    """A name for a file that leads nowhere else; other texts have others."""
    if _PLAIN.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else f"x-{digest}"


def page_of(suite: str, algorithm: str) -> str:
    """Page of an algorithm on a suite, below the site."""
    return f"algorithms/{slug(suite)}/{slug(algorithm)}.html"


def external_page(label: str, suite: str, algorithm: str) -> str:
    """Page of an imported algorithm on a suite, below the site."""
    return f"external/{slug(label)}/{slug(suite)}/{slug(algorithm)}.html"


def episodes_folder(submitter: str, suite: str) -> str:
    """Folder of a submitter's evaluation episodes, below the site."""
    return f"episodes/{slug(submitter) if submitter else 'own'}/{slug(suite)}"


OWN = "own runs"
UNTOLD = "not told"


def submitter_text(row: BoardRow) -> str:
    """Who submitted a row, or where else it comes from."""
    if row.imported is not None:
        return row.imported.said
    return ", ".join(name or OWN for name in row.submitters) or "the suite"


def seeds(row: BoardRow) -> str:
    """Seeds per environment; imported means do not say how many are behind them."""
    return UNTOLD if _is_means(row) else text.seeds(row.result)


def interval(value: Interval | None, row: BoardRow) -> str:
    """A point estimate with its interval; imported means have none."""
    if value is not None and _is_means(row):
        return text.score(value.point)
    return text.interval(value, row.result)


def _is_means(row: BoardRow) -> bool:
    return row.imported is not None and all(run.seed is None for run in row.imported.runs)
