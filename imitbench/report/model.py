"""Defines the content of a report, independent of its format."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from imitbench.cards.algorithm import Role
from imitbench.cards.suite import ScoreOne
from imitbench.records.race_design import RaceDesign
from imitbench.records.runs import FailureRow, ReferenceRow, ScoreRow
from imitbench.records.selection import Acting, ActingChoice
from imitbench.stats.bootstrap import Interval
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.rank_changes import RankChanges
from imitbench.stats.sequential import Race
from imitbench.store.comparability import Conditions

RANDOM, EXPERT = "random", "expert"
ANCHORS = (EXPERT, RANDOM)
"""Reference policies of the scores 1 and 0, which every section shows last, in this order."""

DEMONSTRATIONS = "demonstrations"
"""Row of the demonstrators' own return, where a suite has demonstrations without an expert."""

Kind = Literal["run", "reference", "missing"]
"""Source of numbers: completed runs, the suite's references, or none."""


def plain_name(algorithm: str) -> str:
    """Returns `name` for `name[variant]`, and for a leaderboard's `name (submitter)`."""
    return algorithm.partition("[")[0].partition(" (")[0]


@dataclass(frozen=True)
class StatisticsSettings:
    """Settings of the statistics of a report.

    Attributes:
        episodes: Evaluation episodes per run; `None` if unknown.
        replicates: Number of bootstrap replicates.
        seed: Seed of the bootstrap.
        level: Confidence level of the intervals, in (0, 1).
        failed_runs: How failed runs count.
        acting: Ways of acting to show; `None` for both where the scores of both are known.
    """

    episodes: int | None
    replicates: int
    seed: int
    level: float
    failed_runs: FailurePolicy = FailurePolicy.EXCLUDE
    acting: ActingChoice | None = None


@dataclass(frozen=True)
class CellResult:
    """One algorithm on one environment.

    Attributes:
        kind: Source of the numbers, which are `None` for `missing`.
        seeds: Number of different seeds.
        runs: Number of runs averaged; more than `seeds` if runs share a seed.
        failures: Number of failed runs, which are not among `runs`.
        raw_mean: Mean raw return over runs.
        raw_std: Sample standard deviation over runs (ddof 1); `None` for fewer than two.
        score: Mean score of the stochastic policy, over failed runs as well where these count as
            random.
        score_deterministic: Mean score of the deterministic policy, on the same scale.
        score_likely: The same on the scale of the expert's most likely actions, if it is known.
        mean_length: Mean episode length in steps.
        termination_rate: Share of episodes that ended by termination, not by a time limit.
        success: Shares of successful episodes of its runs, where all measured them; else `None`.
    """

    environment: str
    kind: Kind
    seeds: int = 0
    runs: int = 0
    failures: int = 0
    raw_mean: float | None = None
    raw_std: float | None = None
    score: float | None = None
    score_deterministic: float | None = None
    score_likely: float | None = None
    mean_length: float | None = None
    termination_rate: float | None = None
    success: tuple[float, ...] | None = None

    @property
    def success_rate(self) -> float | None:
        """Mean share of successful episodes over runs; `None` if it is not measured."""
        return None if self.success is None else sum(self.success) / len(self.success)


@dataclass(frozen=True)
class MeasureSummary:
    """Mean of one measurement, other than the return, of an algorithm on one environment.

    Attributes:
        measure: Name, see `imitbench.report.measures`.
        runs: Number of runs with this measurement.
        mean: Mean over these runs.
        std: Sample standard deviation over these runs (ddof 1); `None` for fewer than two.
    """

    environment: str
    algorithm: str
    measure: str
    runs: int
    mean: float
    std: float | None


@dataclass(frozen=True)
class RunCost:
    """Costs of an algorithm: means over environments of means over runs.

    Attributes:
        core_hours: Hours of training, on one core per run.
        env_steps: Environment steps of training.
        demos: Number of demonstrations; `None` for none.
    """

    core_hours: float
    env_steps: float
    demos: float | None


ColumnKind = Literal["name", "text", "code", "id", "number", "interval", "failures"]
"""Content of a column: a `name` from a run, other `text`, `code`, a number that is an `id`, another
`number`, a number with its `interval`, or a number of `failures`, which should be zero."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: Text above the column.
        kind: What its cells contain.
        rank: How dispensable it is in a narrow terminal, as in `TextColumn`.
        above: Whether neighbouring rows have equal values, as there.
        below: Whether it has long texts, as there.
        short: Heading in print, if it differs.
    """

    heading: str
    kind: ColumnKind = "number"
    rank: int = 0
    above: bool = False
    below: bool = False
    short: str = ""

    @property
    def right(self) -> bool:
        """Whether cells are numbers, which are right-aligned; ids are not."""
        return self.kind in ("number", "interval", "failures")


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        shown: Text to show, not escaped. It may come from files of other people.
        key: Number to sort by; `None` in columns of text, and if it is unknown.
        algorithm: Name of an algorithm that has a color; the text is this name and the marks.
        marks: What is special about this algorithm, such as `control`.
        href: Address that the text links to, on pages and in Markdown; empty for no link.
    """

    shown: str
    key: float | None = None
    algorithm: str = ""
    marks: tuple[str, ...] = ()
    href: str = ""

    @classmethod
    def count(cls, value: int) -> Cell:
        """Returns the cell of a whole number."""
        return cls(str(value), value)


@dataclass(frozen=True)
class Table:
    """A table of a report, independent of the format.

    Attributes:
        title: Heading above the table.
        columns: Texts come first, then numbers.
        rows: Cells of each row, one per column.
        names: Number of leading columns that name a row.
        caption: Explanation of the numbers, in whole sentences; may be empty.
        page_caption: Caption on pages, if it differs. Pages explain common tables elsewhere.
        print_caption: Title and caption in print, if they differ.
        label: Name for references to the table; empty for a number.
        floating: Whether it fits on one page in print.
        grouped: Whether rows with the same first cell form groups in print.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1
    caption: str = ""
    page_caption: str | None = None
    print_caption: str | None = None
    label: str = ""
    floating: bool = False
    grouped: bool = False


def make_columns(
    headings: Sequence[str], names: int, ranks: Sequence[int] = ()
) -> tuple[Column, ...]:
    """Returns columns of which the first ones have names, and the others numbers.

    Args:
        headings: Headings of the columns.
        names: Number of columns with names.
        ranks: Rank of each column; by default, names stay, and numbers are left out from the right.
    """
    by_position = [0 if index < names else index for index in range(len(headings))]
    return tuple(
        Column(heading, "name" if index < names else "number", rank)
        for index, (heading, rank) in enumerate(zip(headings, ranks or by_position, strict=True))
    )


@dataclass(frozen=True)
class AlgorithmResult:
    """One algorithm over the environments of a section.

    Attributes:
        cells: One per environment of the section, in its order.
        mean: Mean score over the cells of `kind`; `None` if none or not finite.
        iqm: Interquartile mean over the same cells; `None` as for `mean`.
        iqm_likely: The same of most likely actions; also `None` if their scores are unknown.
        role: Role on the card, e.g. method or control.
        uses_reward: Whether the algorithm learns from the environment's own reward.
        median: Median over the environments' mean scores; `None` as for `mean`.
        gap: Optimality gap: mean shortfall of runs below score 1; `None` as for `mean`.
        cost: Mean costs of its runs; `None` without completed runs.
    """

    algorithm: str
    cells: tuple[CellResult, ...]
    mean: Interval | None
    iqm: Interval | None
    role: Role = "method"
    uses_reward: bool = False
    median: Interval | None = None
    gap: Interval | None = None
    cost: RunCost | None = None
    iqm_likely: Interval | None = None

    @property
    def kind(self) -> Kind:
        """Source of the aggregate: runs if there are any, else references."""
        kinds = {cell.kind for cell in self.cells}
        return "run" if "run" in kinds else "reference" if "reference" in kinds else "missing"

    @property
    def covered(self) -> tuple[CellResult, ...]:
        """Cells that the aggregate covers."""
        if self.kind == "missing":
            return ()
        return tuple(cell for cell in self.cells if cell.kind == self.kind)

    @property
    def partial(self) -> bool:
        """Whether the aggregate excludes an environment of the section."""
        return len(self.covered) < len(self.cells)

    @property
    def worst(self) -> CellResult | None:
        """Covered cell with the lowest mean score; `None` without finite scores."""
        scores = {
            cell.environment: cell.score
            for cell in self.covered
            if cell.score is not None and math.isfinite(cell.score)
        }
        worst = min(scores, key=lambda name: scores[name], default=None)
        return next((cell for cell in self.covered if cell.environment == worst), None)

    @property
    def seeds(self) -> tuple[int, int]:
        """Fewest and most seeds among the covered cells; (0, 0) without runs."""
        counts = [cell.seeds for cell in self.covered] or [0]
        return min(counts), max(counts)

    @property
    def mean_length(self) -> float | None:
        """Mean episode length over the covered environments, in steps; `None` without runs."""
        return _mean([cell.mean_length for cell in self.covered])

    @property
    def termination_rate(self) -> float | None:
        """Mean share of terminated episodes over the covered environments; `None` without runs."""
        return _mean([cell.termination_rate for cell in self.covered])

    @property
    def failures(self) -> int:
        """Number of failed runs over all environments."""
        return sum(cell.failures for cell in self.cells)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class RewardBoardRow:
    """The rewards of one algorithm in one environment.

    Attributes:
        environment: Where they were learned.
        algorithm: What learned them.
        optimizer: What trained the fresh policies.
        tested_in: Environment with other dynamics; `None` for the same.
        rewards: Number of learned rewards.
        scores: Mean score of policies by what they are: `learner`, `reoptimized`, `true_reward`;
            `gain`, the mean difference of the second and the first of the same reward;
            `hacking_gap`, and `learned_score`.
    """

    environment: str
    algorithm: str
    optimizer: str
    tested_in: str | None
    rewards: int
    scores: Mapping[str, Interval]


@dataclass(frozen=True)
class RewardSummary:
    """The rewards of one algorithm over environments, which weigh equally.

    Attributes:
        algorithm: What learned them.
        optimizer: What trained the fresh policies.
        environments: Number of environments where rewards were learned.
        rewards: Number of learned rewards.
        scores: Means by what they are. Where the rewards were learned: `learner`, `reoptimized` and
            `true_reward`, as in `RewardBoardRow.scores`. With other dynamics, each reward counting
            with its mean over them: `unchanged`, the policies that came along; `transferred`,
            policies that were trained there on the rewards; `gain`, the mean difference of the
            second and the first of the same reward; and `true_reward_there`.
        gain_p: p of Student's test that `gain` is 0; NaN if it could not be made.
    """

    algorithm: str
    optimizer: str
    environments: int
    rewards: int
    scores: Mapping[str, Interval]
    gain_p: float


@dataclass(frozen=True)
class Section:
    """Comparable runs of one suite.

    Attributes:
        conditions: Suite, budget, demonstrations and source that the runs share; the suite is
            always given.
        environments: Environment ids, sorted.
        algorithms: Methods by IQM, best first; then references, controls, and the anchors last.
        references: Returns that map to 0 and 1, by environment and version.
        notes: Sentences on facts that the tables do not show.
        measured: Further measurements by environment, algorithm and name.
        runs: The completed runs behind the numbers, by environment, algorithm and seed.
        extra: Tables beside those that every section has.
        acting: Ways of acting by which algorithms are compared.
        rewards: What learned rewards are worth to policies that were trained on them.
        reward_summaries: The same over environments; empty if rewards were learned in one only.
    """

    conditions: Conditions
    environments: tuple[str, ...]
    algorithms: tuple[AlgorithmResult, ...]
    references: tuple[ReferenceRow, ...]
    notes: tuple[str, ...]
    measured: tuple[MeasureSummary, ...] = ()
    runs: tuple[ScoreRow, ...] = ()
    extra: tuple[Table, ...] = ()
    acting: tuple[Acting, ...] = ("sampled",)
    rewards: tuple[RewardBoardRow, ...] = ()
    reward_summaries: tuple[RewardSummary, ...] = ()

    @property
    def suite(self) -> str:
        """Name of its suite."""
        assert self.conditions.suite is not None
        return self.conditions.suite

    @property
    def score_one(self) -> frozenset[ScoreOne]:
        """Whose returns are score 1 in this section."""
        return frozenset(row.score_one for row in self.references)

    @property
    def title(self) -> str:
        """The suite, and the conditions that its runs share."""
        return self.conditions.title


@dataclass(frozen=True)
class ReportedRace:
    """A registered race, with the looks and decisions from the runs of the results."""

    design: RaceDesign
    found: Race


@dataclass(frozen=True)
class RegimeComparison:
    """Methods in several regimes, all else being equal.

    Attributes:
        conditions: Suite, budget and source, which all regimes share.
        regimes: Names of the regimes.
        results: Results of each method by regime; `None` where it has no finite scores.
        changes: How ranks change between two regimes, by their indices in `regimes`; pairs of
            regimes without two methods on a common environment are left out.
        version: Version of the suite's references, if there are several; otherwise empty.
        score_one: Whose returns are score 1.
    """

    conditions: Conditions
    regimes: tuple[str, ...]
    results: Mapping[str, tuple[AlgorithmResult | None, ...]]
    changes: Mapping[tuple[int, int], RankChanges]
    version: str = ""
    score_one: frozenset[ScoreOne] = frozenset()

    @property
    def title(self) -> str:
        """What the regimes share."""
        return ", ".join(filter(None, (self.conditions.title, self.version)))

    def joined(self, method: str) -> list[tuple[int, int]]:
        """Returns the indices of neighboring results of a method that are on the same environments.

        Only these can be compared, and are joined by lines in figures.
        """
        found = [
            (index, {cell.environment for cell in result.covered})
            for index, result in enumerate(self.results[method])
            if result is not None
        ]
        return [(one, other) for (one, own), (other, its) in pairwise(found) if own == its]


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        sections: By suite, budget, number of demonstrations and source; empty without rows.
        failures: Every failed run, sorted.
        extra: Tables that span several sections; may be empty.
        races: Registered races; their tables are among `extra`.
        regimes: Methods in several regimes; their tables are among `extra`.
    """

    method: StatisticsSettings
    sections: tuple[Section, ...]
    failures: tuple[FailureRow, ...]
    extra: tuple[Table, ...] = ()
    races: tuple[ReportedRace, ...] = ()
    regimes: tuple[RegimeComparison, ...] = ()


PALETTE = (
    "#0072b2",
    "#d55e00",
    "#00875f",
    "#b1478a",
    "#a67c00",
    "#5b4bb7",
    "#2b8a9d",
    "#8c4a2f",
    "#4d7c0f",
    "#be123c",
)
"""Colors by Okabe and Ito, which most people can distinguish; `report.css` has the same."""


SHAPES = ("circle", "square", "diamond", "triangle", "cross")
"""Shapes of spots and dots: with the palette, 50 methods that can be told apart."""

KNOWN = (
    "bc", "gail", "airl", "dagger", "sqil", "density", "preference_comparisons", "iq_learn", "dac",
    "mce_irl", "adril", "bc_ensemble", "bc_flow", "bc_gmm", "bc_mse", "cpl", "csil",
    "ensemble_dagger", "hype", "ls_iq", "novelty_dagger", "pebble", "pwil", "value_dice",
    "f_irl", "ml_irl", "gaifo", "bco", "dac_obs", "ls_iq_obs", "pwil_obs", "opolo", "trex", "drex",
    "iswbc", "bc_all", "dwbc", "demodice", "smodice", "maxent_irl", "bc_rnn", "act",
    "diffusion_policy", "flow_policy",
)  # fmt: skip
"""Methods whose number is their index here, so that they look the same on every page."""


def method_colors(names: Iterable[str]) -> dict[str, int]:
    """Returns a number for each method, which belongs to its name as far as possible.

    The number's remainder by the length of the palette is its color, and the rest its shape. Other
    names than `KNOWN` have the number of their hash among those that are left, or the next one
    that is free. Methods beyond all combinations share them.
    """
    wanted = set(names)
    given = {name: KNOWN.index(name) for name in wanted if name in KNOWN}
    left = range(len(KNOWN), len(PALETTE) * len(SHAPES))
    for name in sorted(wanted - given.keys()):
        first = int(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16)
        turned = [left[(first + step) % len(left)] for step in range(len(left))]
        taken = set(given.values())
        free = (number for number in (*turned, *range(len(KNOWN))) if number not in taken)
        given[name] = next(free, turned[0])
    return given


def shape_of(number: int) -> str:
    """Returns the shape, one of `SHAPES`, of a number of `method_colors`."""
    return SHAPES[number // len(PALETTE)]


def color_numbers(report: Report) -> dict[str, int]:
    """Returns the number of each method, see `method_colors`; controls and anchors have none."""
    return method_colors(
        result.algorithm
        for section in report.sections
        for result in section.algorithms
        if result.role == "method"
    )
