"""Defines the content of a leaderboard, independent of its format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from imitbench.cards.algorithm import BudgetUnit
from imitbench.cards.demonstrations import restrictions
from imitbench.published.claim_outcomes import ComparedClaim
from imitbench.published.disclosure import Disclosure, other_values
from imitbench.published.results_sources import ResultsSource
from imitbench.records.bundled_cards import card_of
from imitbench.records.published import PublishedRun
from imitbench.records.runs import FailureRow, RunSpec, ScoreRow
from imitbench.report import text
from imitbench.report.model import (
    AlgorithmResult,
    RegimeComparison,
    Section,
    StatisticsSettings,
)
from imitbench.stats.bootstrap import Interval
from imitbench.stats.decided_pairs import PairOutcome
from imitbench.store.external_results import ExternalRun

RowKind = Literal["run", "reference", "external", "missing"]

LEAST_SEEDS = 10
"""Seeds on each environment with which a row is ranked."""

_TRACK_OF: Mapping[BudgetUnit, str] = {
    "batches": "offline",
    "replay_steps": "replay",
    "env_steps": "on-policy",
}
"""Tracks by the unit of budgets, for methods that need nothing else that tells good from bad."""

TRACKS: Mapping[str, str] = {
    "offline": "offline methods",
    "replay": "replay methods",
    "on-policy": "on-policy methods",
    "given ranks": "methods that are given ranks",
    "asks the expert": "methods that ask the expert",
    "sees the reward": "methods that see the reward",
}
"""What methods of each track are called, in the order in which tracks are shown."""


@dataclass(frozen=True)
class BoardRun:
    """A completed run as the board shows it.

    Attributes:
        row: Row of the report, whose id differs between submitters.
        run: The run itself.
        submitter: Name of its submitter; empty for own runs.
        episodes: Path in the site of its file of episodes.
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
    """Source of an external row.

    Attributes:
        label: Label of the import.
        tool: Name of the importer.
        source: Base name of the imported file or folder.
        runs: The runs behind the row.
    """

    label: str
    tool: str
    source: str
    runs: tuple[ExternalRun, ...]

    @property
    def description(self) -> str:
        """The source as text."""
        return f"{self.label} ({self.tool}: {self.source})"


@dataclass(frozen=True)
class TrainedAgain:
    """Runs of a row, or of a submission, that others trained again.

    Attributes:
        agreeing: Number of runs of which every repetition agrees.
        differing: Number of runs of which a repetition differs.
        completed: Number of completed runs.
        by: Who trained them again.
    """

    agreeing: int = 0
    differing: int = 0
    completed: int = 0
    by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The numbers in words."""
        runs = f"of {self.completed} run{'s' * (self.completed != 1)} trained again"
        if self.differing:
            return f"{self.differing} differ, {self.agreeing} agree {runs}"
        return f"{self.agreeing} {runs}"


NOT_TRAINED_AGAIN = TrainedAgain()


@dataclass(frozen=True)
class BoardRow:
    """An algorithm in one of the board's tables.

    Attributes:
        rank: Rank by IQM among own results that cover every environment and are sound;
            `None` for others.
        name: The algorithm as its runs name it.
        kind: Source of the numbers.
        submitters: Submitters of these runs.
        result: Cells and aggregates.
        runs: Completed runs behind the numbers.
        failures: Failed runs.
        page: Path of its page in the site; `None` if it has no runs.
        anchor: HTML id of the table's runs on that page.
        imported: Source of an external row; `None` for other rows.
        color: Palette index; `None` for anchors and external rows.
        method_color: The same of its method, whatever its variant.
        checked: Whether all its submissions pass the checks; own runs are not checked.
        raced: Whether all its runs belong to registered races.
        refuted: Whether a run of its submissions differed when others trained it again.
        superseded_by: Submissions that have its runs with newer references.
        trained_again: Completed runs that others trained again.
        tier: Its tier among the rows of its `track` here, from 1; `None` if it is not ranked or
            `provisional`. No row of a tier is decided to be better than another one of it, after
            Holm's correction for all pairs of the table's tracks.
        disclosures: Statements of its submitters on how hyper-parameters were chosen.
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
    method_color: int | None = None
    checked: bool = True
    raced: bool = False
    refuted: bool = False
    superseded_by: tuple[str, ...] = ()
    trained_again: TrainedAgain = NOT_TRAINED_AGAIN
    tier: int | None = None
    disclosures: tuple[Disclosure, ...] = ()

    @property
    def is_method(self) -> bool:
        """Whether it has runs of a method, which has a page; controls have none."""
        return self.kind == "run" and self.result.role in ("method", "reference")

    @property
    def method(self) -> str:
        """What identifies its method: without its variant, or the import with its name."""
        if self.imported is not None:
            return f"{self.imported.label}: {self.name}"
        return self.specs[0].algo if self.specs else self.name

    @property
    def values(self) -> str:
        """Which hyper-parameters differ from the card's, as in its label: `tuned` for example."""
        return other_values(self.specs[0]) if self.specs and self.imported is None else ""

    @property
    def said(self) -> str:
        """The method as sentences name it, such as `gail (tuned)`; without training in packs."""
        return f"{self.method} ({self.values})" if self.values else self.method

    @property
    def track(self) -> str:
        """What the method needs, and so which others it is ranked with; empty without runs."""
        if not self.specs:
            return ""
        spec = self.specs[0]
        if spec.uses_reward:
            return "sees the reward"
        if spec.demos is None and spec.expert is not None:
            return "asks the expert"
        card = card_of(spec)
        if card is not None and card.needs.ranking:  # by true returns
            return "given ranks"
        return _TRACK_OF.get(spec.budget.unit, "")

    @property
    def provisional(self) -> bool:
        """Whether it has too few seeds to be ranked."""
        counts = [cell.runs + cell.failures for cell in self.result.covered]
        return min(counts, default=0) < LEAST_SEEDS

    @property
    def specs(self) -> tuple[RunSpec, ...]:
        """Specifications of its own runs, completed ones first."""
        completed = tuple(run.run.spec for run in self.runs)
        return completed + tuple(failure.run.spec for failure in self.failures)

    @property
    def isolated(self) -> bool | None:
        """Whether the method was kept from true rewards in all its runs; `None` if unknown."""
        found = {run.run.isolated for run in self.runs}
        found |= {failure.run.isolated for failure in self.failures}
        if False in found:
            return False
        return True if found == {True} else None

    @property
    def env_steps(self) -> float | None:
        """Mean environment steps of training per run."""
        return _mean([run.row.env_steps for run in self.runs])

    @property
    def n_demos(self) -> tuple[int, ...]:
        """Numbers of demonstrations of its runs, ascending; without those that use none."""
        return tuple(sorted({run.row.n_demos for run in self.runs if run.row.n_demos}))

    @property
    def wall_s(self) -> float | None:
        """Mean seconds per run, evaluation included."""
        return _mean([run.row.wall_s for run in self.runs])


def tier_text(row: BoardRow) -> str:
    """Returns the track and the tier of a row; empty for rows that are not ranked."""
    if row.rank is None or not row.track:
        return ""
    return f"{row.track} {row.tier or 'provisional'}"


@dataclass(frozen=True)
class BoardSection:
    """One table of comparable runs.

    Attributes:
        section: Section of the report with these runs.
        rows: Ranked ones first, then partial ones, external ones and anchors.
        anchor: HTML id of the table on the page of its suite, and of its runs on the pages of
            its rows. It follows from what the runs share, so that other results do not change it.
        version: Version of the suite's references, if the board has several; otherwise empty.
        pairs: Outcomes of all pairs of rows with runs and finite scores, by the names of their
            results; by sampled actions.
        likely_pairs: The same by most likely actions, of rows that have scores of them.
        decided: Pairs (better, worse) of rows of a track that are decided in both ways of acting,
            corrected for each other by Holm's method; tiers follow from them.
    """

    section: Section
    rows: tuple[BoardRow, ...]
    anchor: str = ""
    version: str = ""
    pairs: Mapping[tuple[str, str], PairOutcome] = field(default_factory=dict)
    likely_pairs: Mapping[tuple[str, str], PairOutcome] = field(default_factory=dict)
    decided: frozenset[tuple[str, str]] = frozenset()

    @property
    def title(self) -> str:
        """The suite, and what the runs share."""
        joint = ", " if ": " in self.section.title else ": "
        return f"{self.section.title}{joint}{self.version}" if self.version else self.section.title

    @property
    def shared(self) -> str:
        """What the runs share besides the suite; may be empty."""
        return self.title.removeprefix(self.section.suite).removeprefix(": ")


@dataclass(frozen=True)
class OnBoard:
    """A row with its table."""

    part: BoardSection
    row: BoardRow


@dataclass(frozen=True)
class Board:
    """A whole leaderboard.

    Attributes:
        title: Title of the board.
        method: Settings of its statistics.
        sources: Results by submitter.
        sections: By suite; of each, its headline first, and then by budget, number of
            demonstrations and source.
        submit_to: Address of the repository that takes submissions, if there is one.
        regimes: Methods in tables that differ in the demonstrations only.
        claims: Figures of papers beside the runs.
    """

    title: str
    method: StatisticsSettings
    sources: tuple[ResultsSource, ...]
    sections: tuple[BoardSection, ...]
    submit_to: str | None = None
    regimes: tuple[RegimeComparison, ...] = ()
    claims: tuple[ComparedClaim, ...] = ()

    @property
    def suites(self) -> list[str]:
        """Names of the suites, in the board's order."""
        return list(dict.fromkeys(part.section.suite for part in self.sections))

    @property
    def rows(self) -> list[OnBoard]:
        """All rows, in the board's order."""
        return [OnBoard(part, row) for part in self.sections for row in part.rows]

    def of_suite(self, suite: str) -> list[BoardSection]:
        """Returns the tables of a suite, in the board's order."""
        return [part for part in self.sections if part.section.suite == suite]

    def condition(self, part: BoardSection) -> str:
        """Returns what tells a table apart from the others of its suite, in a few words."""
        alike = self.of_suite(part.section.suite)
        given = part.section.conditions
        several = len({other.section.conditions.source for other in alike}) > 1
        parts = [
            given.demonstrations or "no demonstrations",
            f"{given.budget} budget" if given.budget else "no budget",
            f"source {given.source}" if several and given.source else "",
            part.version,
        ]
        return ", ".join(filter(None, parts))


def _mean(values: list[int] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None


_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[a-z0-9_][a-z0-9_-]{0,59}")


def slug(text: str) -> str:
    """Returns a safe file name for a text; different texts get different names."""
    if _PLAIN.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else f"x-{digest}"


def page_of(suite: str, algorithm: str) -> str:
    """Returns the path in the site of an algorithm's page for a suite."""
    return f"algorithms/{slug(suite)}/{slug(algorithm)}.html"


def suite_page(suite: str) -> str:
    """Returns the path in the site of the page with all tables of a suite."""
    return f"suites/{slug(suite)}.html"


def method_page(name: str) -> str:
    """Returns the path in the site of the page that tells what a method is."""
    return f"methods/{slug(name)}.html"


def methods(board: Board) -> dict[str, list[OnBoard]]:
    """Returns the rows of each method, by the name in its runs; controls are left out."""
    found: dict[str, list[OnBoard]] = {}
    for row in board.rows:
        if row.row.is_method:
            found.setdefault(row.row.name, []).append(row)
    return found


def external_page(label: str, suite: str, algorithm: str) -> str:
    """Returns the path in the site of an imported algorithm's page for a suite."""
    return f"external/{slug(label)}/{slug(suite)}/{slug(algorithm)}.html"


def section_anchor(section: Section, version: str = "") -> str:
    """Returns the HTML id of a table, from what its runs share."""
    given = section.conditions
    shared = [given.budget, given.n_demos, given.source]
    if given.demo_every not in (None, 1):
        shared.append(f"every-{given.demo_every}")
    shared += restrictions(None, given.demo_actions, given.mixture)
    parts = ["none" if value is None else slug(str(value)) for value in shared]
    return "--".join([*parts, *([slug(version)] if version else [])])


def row_id(part: BoardSection, row: BoardRow) -> str:
    """Returns the HTML id of a row of a table, on the page of its suite."""
    return f"{part.anchor}--{slug(row.result.algorithm)}"


def episodes_folder(submitter: str, suite: str) -> str:
    """Returns the path in the site of the folder with a submitter's evaluation episodes."""
    return f"episodes/{slug(submitter) if submitter else 'own'}/{slug(suite)}"


CLAIMS_PAGE = "claims.html"
"""Path in the site of the page of claims."""

SUBMIT_PAGE = "submit.html"
"""Path in the site of the page that tells how to submit."""

OWN = "own runs"


def submitter_text(row: BoardRow) -> str:
    """Returns the submitters of a row, or its other source."""
    if row.imported is not None:
        return row.imported.description
    return ", ".join(name or OWN for name in row.submitters) or "the suite"


def seeds(row: BoardRow) -> str:
    """Returns the seeds per environment; unknown for imported means."""
    return "not stated" if _is_means(row) else text.seeds(row.result)


def amount(count: float | None) -> str:
    """Returns a number of steps, short: 49 k, 2 M; a dash without one."""
    if not count:
        return text.NOTHING
    for unit, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= unit:
            return f"{count / unit:.3g}{sign}"
    return f"{count:.3g}"


def worst_task(row: BoardRow) -> str:
    """Returns the lowest mean score over environments, and where it is."""
    cell = row.result.worst
    if cell is None or cell.score is None:
        return text.NOTHING
    return f"{text.score(cell.score)} on {cell.environment.rpartition('/')[2]}"


def interval(value: Interval | None, row: BoardRow) -> str:
    """Returns a point estimate with its interval; imported means have no interval."""
    if value is not None and _is_means(row):
        return text.score(value.point)
    return text.interval(value, row.result)


def _is_means(row: BoardRow) -> bool:
    return row.imported is not None and all(run.seed is None for run in row.imported.runs)
