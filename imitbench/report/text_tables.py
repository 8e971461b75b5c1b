"""Builds the tables of a report as text, for Markdown and for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imitbench.records.runs import FailureRow
from imitbench.report import text
from imitbench.report.measures import MEANINGS
from imitbench.report.model import AlgorithmResult, CellResult, ExtraTable, Report, Section
from imitbench.util.text_table import Column, nonzero

_FAILED = nonzero("red")
_REPEATED_ENVIRONMENT = Column("Environment", 1, above=True, right=False)


@dataclass(frozen=True)
class TextTable:
    """A table of texts, which are not escaped.

    Attributes:
        title: Heading above the table.
        columns: Names are left-aligned and come first; numbers are right-aligned. The ranks are
            for narrow terminals.
        rows: Cells of each row, one per column. Names may come from files of other people.
        caption: Explanation of the numbers, in whole sentences; may be empty.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    @property
    def names(self) -> int:
        """Number of leading columns that hold names; the others hold numbers."""
        return sum(not column.right for column in self.columns)


def section_tables(section: Section, report: Report) -> list[TextTable]:
    """Returns the tables of a section, in the order of the report."""
    conditions = text.conditions(section, report)
    tables = [_aggregates(section, conditions), _cells(section, conditions)]
    tables += [extra_table(extra) for extra in section.extra]
    tables += [_measured(section)] if section.measured else []
    tables += [_references(section)] if section.references else []
    return tables


def _name(name: str, rank: int = 0) -> Column:
    return Column(name, rank, right=False)


def _number(name: str, rank: int = 0) -> Column:
    return Column(name, rank, right=True, color=_FAILED if name == "Failed runs" else None)


def _label(result: AlgorithmResult, is_reference: bool) -> str:
    name = text.label(result)
    return f"{name} (reference)" if is_reference else name


def _aggregates(section: Section, conditions: str) -> TextTable:
    return TextTable(
        "All environments",
        (
            _name("Algorithm"),
            _number("Environments", 2),
            _number("Seeds", 3),
            _number("Mean score", 4),
            _number("IQM score"),
            _number("Failed runs", 1),
        ),
        tuple(
            (
                _label(result, result.kind == "reference"),
                text.coverage(result),
                text.seeds(result),
                text.interval(result.mean, result),
                text.interval(result.iqm, result),
                str(result.failures),
            )
            for result in section.algorithms
        ),
        f"Seeds are per environment. {conditions}",
    )


def _cells(section: Section, conditions: str) -> TextTable:
    return TextTable(
        "By environment",
        (
            _REPEATED_ENVIRONMENT,
            _name("Algorithm"),
            _number("Seeds", 3),
            _number("Raw return", 1),
            _number("Score"),
            _number("Score, deterministic", 6),
            _number("Episode length", 5),
            _number("Terminated", 4),
            _number("Failed runs", 2),
        ),
        tuple(
            _cell(result, result.cells[position])
            for position in range(len(section.environments))
            for result in section.algorithms
        ),
        f"Raw return: mean ± sample standard deviation over seeds. {text.ENDINGS} {conditions}",
    )


def _cell(result: AlgorithmResult, cell: CellResult) -> tuple[str, ...]:
    return (
        cell.environment,
        _label(result, cell.kind == "reference"),
        "reference" if cell.kind == "reference" else str(cell.seeds),
        text.raw_spread(cell),
        text.score(cell.score),
        text.score(cell.score_deterministic),
        text.fixed(cell.mean_length, 1),
        text.share(cell.termination_rate),
        str(cell.failures),
    )


def extra_table(extra: ExtraTable) -> TextTable:
    """Returns an extra table as text."""
    by_place = [0 if place < extra.names else place for place in range(len(extra.columns))]
    return TextTable(
        extra.title,
        tuple(
            Column(name, rank, right=place >= extra.names)
            for place, (name, rank) in enumerate(
                zip(extra.columns, extra.ranks or by_place, strict=True)
            )
        ),
        tuple(tuple(entry.shown for entry in row) for row in extra.rows),
        extra.caption,
    )


def _measured(section: Section) -> TextTable:
    names = sorted({measured.measure for measured in section.measured} & set(MEANINGS))
    sentences = [f"{name}: {MEANINGS[name]}." for name in names]
    return TextTable(
        "Further measurements",
        (
            _REPEATED_ENVIRONMENT,
            _name("Algorithm"),
            _name("Measure"),
            _number("Runs", 1),
            _number("Mean"),
        ),
        tuple(
            (
                measured.environment,
                measured.algorithm,
                measured.measure,
                str(measured.runs),
                text.measured_spread(measured),
            )
            for measured in section.measured
        ),
        " ".join(["Mean ± sample standard deviation over runs.", *sentences]),
    )


def _references(section: Section) -> TextTable:
    return TextTable(
        "References",
        (
            _name("Environment"),
            _name("Version", 1),
            _number("Random (score 0)"),
            _number(text.score_one_heading(section)),
        ),
        tuple(
            (row.env, row.version, text.raw(row.random), text.score_one_return(row))
            for row in section.references
        ),
    )


def failures_table(failures: Sequence[FailureRow]) -> TextTable:
    """Returns the table of failed runs."""
    return TextTable(
        "Failed runs",
        (
            Column("Suite", 1, above=True, right=False),
            _name("Environment"),
            _name("Algorithm"),
            _name("Seed", 1),
            _name("Phase", 4),
            _name("Error", 2),
            Column("Message", below=True, right=False),
            _name("Run", 5),
        ),
        tuple(
            (
                *(row.suite, row.env, row.algo, str(row.seed), row.phase, row.error_type),
                *(text.message(row.message), row.run_id),
            )
            for row in failures
        ),
    )
