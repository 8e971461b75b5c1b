"""Writes the report as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from imitbench.report import text
from imitbench.report.model import Report, Section
from imitbench.report.text_tables import TextTable, extra_table, failures_table, section_tables

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARKUP = re.compile(
    r"[\\`*\[\]|~$!#]"  # code, emphasis, links, table cells, strikethrough, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is not
    r"|:(?=//)|(?<=www)\."  # addresses that would become links automatically
)


def render_markdown(report: Report) -> str:
    """Writes the report as Markdown.

    Args:
        report: The report to write.

    Returns:
        Markdown, ending in a newline. Names and messages from runs are escaped: they cannot
        contain markup or HTML.
    """
    blocks = ["# imitbench report"]
    if not report.sections:
        blocks.append(text.EMPTY)
    for section in report.sections:
        blocks += _section(section, report)
    for extra in report.extra:
        blocks += [f"## {escape(extra.title)}", *_table(extra_table(extra))]
    if report.failures:
        failed = failures_table(report.failures)
        blocks += [f"## {failed.title}", *_table(failed)]
    return "\n\n".join(blocks) + "\n"


def escape(value: str) -> str:
    """Escapes untrusted text for Markdown, table cells included.

    Args:
        value: Any text.

    Returns:
        One line that renders as that text.
    """
    return _MARKUP.sub(lambda mark: "\\" + mark[0], text.one_line(value).translate(_ENTITIES))


def _section(section: Section, report: Report) -> list[str]:
    blocks = [f"## {escape(section.title)}"]
    for each in section_tables(section, report):
        blocks += [f"### {escape(each.title)}", *_table(each)]
    if section.notes:
        blocks += ["### Notes", "\n".join(f"- {escape(note)}" for note in section.notes)]
    return blocks


def _table(of: TextTable) -> list[str]:
    """Returns a table and its caption; numbers are formatted here and need no escapes."""
    rows = [[*map(escape, row[: of.names]), *row[of.names :]] for row in of.rows]
    caption = [escape(of.caption)] if of.caption else []
    return [table([escape(column.name) for column in of.columns], rows, of.names), *caption]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """Returns a table whose first `names` columns have text and the others numbers."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])
