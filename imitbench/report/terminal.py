"""Writes the report for terminals: aligned tables that fit their width."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from imitbench.report import text
from imitbench.report.model import Column, Report, Section, Table
from imitbench.report.report_tables import report_tables, section_tables, short_table
from imitbench.util.text_table import TextColumn, format_table, format_text, nonzero, painted

_HEADING = "bold cyan"
_FAILED = nonzero("red")


def render_terminal(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """Writes the whole report as text with aligned columns.

    Control characters in names are dropped, so that they cannot control the terminal.

    Args:
        report: The report to write.
        width: Width of the terminal in columns, which no line exceeds; `None` for any.
        color: Whether there are ANSI escape sequences for color.
    """
    page = _Page(width, color)
    blocks = [] if report.sections else [page.text(text.EMPTY)]
    for section in report.sections:
        blocks.append(page.heading(section.title, rule="="))
        for table in section_tables(section, report):
            blocks += page.table(table)
        if section.notes:
            blocks += [page.heading("Notes"), page.notes(section)]
    for table in report_tables(report):
        blocks += page.table(table)
    return "\n\n".join(blocks) + "\n"


def render_short(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """Writes the aggregates alone, as `imitbench run` prints them; see `render_terminal`."""
    page = _Page(width, color)
    if not report.sections:
        return page.text(text.EMPTY) + "\n"
    blocks = [page.short(section) for section in report.sections]
    return "\n\n".join([*blocks, page.text(text.protocol(report))]) + "\n"


def text_columns(columns: Iterable[Column]) -> list[TextColumn]:
    """Returns the columns of a report's table as terminals show them."""
    return [
        TextColumn(
            column.heading,
            column.rank,
            column.below,
            column.above,
            column.right,
            _FAILED if column.kind == "failures" else None,
        )
        for column in columns
    ]


@dataclass(frozen=True)
class _Page:
    """Writes the blocks of a page, without the empty lines between them."""

    width: int | None
    color: bool

    def text(self, value: str) -> str:
        return format_text(text.one_line(value), width=self.width)

    def heading(self, title: str, *, rule: str = "") -> str:
        lines = self.text(title).split("\n")
        lines += [rule * max(map(len, lines))] if rule else []
        return "\n".join(painted(line, _HEADING) if self.color else line for line in lines)

    def table(self, table: Table) -> list[str]:
        caption = [self.text(table.caption)] if table.caption else []
        return [self.heading(table.title), self._aligned(table), *caption]

    def short(self, section: Section) -> str:
        table = short_table(section)
        notes = [self.notes(section)] if section.notes else []
        return "\n".join([self.heading(table.title), self._aligned(table), *notes])

    def notes(self, section: Section) -> str:
        lines = [f"- {text.one_line(note)}" for note in section.notes]
        return format_text("\n".join(lines), width=self.width, indent=2)

    def _aligned(self, table: Table) -> str:
        rows = [[text.one_line(cell.shown) for cell in row] for row in table.rows]
        columns = text_columns(table.columns)
        return format_table(columns, rows, width=self.width, color=self.color).rstrip("\n")
