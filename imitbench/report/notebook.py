"""Shows results in notebooks, which call `_repr_html_` of a value at the end of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from imitbench.bench.summary import SweepSummary
from imitbench.report import pairwise_text, text
from imitbench.report.html_markup import Markup, join, tag
from imitbench.report.model import Report, Section
from imitbench.report.pairwise import PairwiseComparison, PairwiseOptions
from imitbench.report.report_tables import score_table
from imitbench.report.tables import build_report


class ShownReport(Report):
    """A report that notebooks show as tables of scores."""

    @classmethod
    def of(cls, report: Report) -> ShownReport:
        """Returns the same report."""
        return cls(**{field.name: getattr(report, field.name) for field in fields(report)})

    def _repr_html_(self) -> str:
        return report_html(self)


class NotebookSummary(SweepSummary):
    """The summary of a sweep, which notebooks show as tables of scores."""

    @classmethod
    def of(cls, summary: SweepSummary) -> NotebookSummary:
        """Returns the same summary."""
        return cls(**{field.name: getattr(summary, field.name) for field in fields(summary)})

    def _repr_html_(self) -> str:
        outcome = self.outcome
        counts = {
            "done": outcome.done,
            "already there": outcome.already_done,
            "failed": len(self.failures),
            "left": outcome.left,
            "queued": outcome.queued,
            "lost": outcome.lost,
        }
        counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        report = build_report(self.scores, self.failures, self.references)
        return join(tag("p", f"{counted or 'no runs'}; results in {self.out}"), report_html(report))


def report_html(report: Report) -> Markup:
    """Returns a table for each section: algorithms by their scores on each environment."""
    if not report.sections:
        return tag("p", text.EMPTY)
    parts = [part for section in report.sections for part in _section(section)]
    return tag("div", *parts, tag("p", text.protocol(report)))


def comparison_html(found: Sequence[PairwiseComparison], options: PairwiseOptions) -> Markup:
    """Returns verdicts, each with its table of environments."""
    parts: list[Markup] = []
    for comparison in found:
        title, *notes = pairwise_text.heading(comparison)
        parts += [tag("h4", title), *(tag("p", note) for note in notes)]
        for verdict in comparison.verdicts:
            first, *lines = pairwise_text.summary(comparison, verdict)
            broken = [join(tag("br"), line.strip()) for line in lines]
            parts.append(tag("p", tag("strong", first), *broken))
            columns, rows = pairwise_text.environment_table(comparison, verdict)
            if rows:
                parts.append(_table([column.name for column in columns], rows))
    return tag("div", *parts, tag("p", pairwise_text.method_text(options, found)))


def _section(section: Section) -> Iterable[Markup]:
    table = score_table(section)
    yield tag("h4", table.title)
    rows = [[cell.shown for cell in row] for row in table.rows]
    yield _table([column.heading for column in table.columns], rows)
    if section.notes:
        yield tag("ul", *(tag("li", note) for note in section.notes))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    return tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name) for name in header))),
        tag("tbody", *(tag("tr", *(tag("td", entry) for entry in row)) for row in rows)),
    )
