"""Writes the report as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from imitbench.report import text
from imitbench.report.model import Report, Section, Table
from imitbench.report.report_tables import report_tables, section_tables

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARKUP = re.compile(
    r"[\\`*\[\]|~$!#]"  # code, emphasis, links, table cells, strikethrough, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is not
    r"|:(?=//)|(?<=www)\."  # addresses that would become links automatically
)


def render_markdown(report: Report) -> str:
    """Writes the report as Markdown.

    Names and messages from runs are escaped: they cannot contain markup or HTML.
    """
    blocks = ["# imitbench report"]
    if not report.sections:
        blocks.append(text.EMPTY)
    for section in report.sections:
        blocks += _section(section, report)
    for given in report_tables(report):
        blocks += [f"## {escape(given.title)}", *laid_out(given)]
    return "\n\n".join(blocks) + "\n"


def escape(value: str) -> str:
    """Returns one line that renders as an untrusted text, in table cells, too."""
    return _MARKUP.sub(lambda mark: "\\" + mark[0], text.one_line(value).translate(_ENTITIES))


def _section(section: Section, report: Report) -> list[str]:
    blocks = [f"## {escape(section.title)}"]
    for given in section_tables(section, report):
        blocks += [f"### {escape(given.title)}", *laid_out(given)]
    if section.notes:
        blocks += ["### Notes", "\n".join(f"- {escape(note)}" for note in section.notes)]
    return blocks


def laid_out(given: Table) -> list[str]:
    """Returns a table and its caption; numbers are formatted here and need no escapes."""
    rows = [
        [
            cell.shown if column.right else _linked(escape(cell.shown), cell.href)
            for column, cell in zip(given.columns, row, strict=True)
        ]
        for row in given.rows
    ]
    texts = sum(not column.right for column in given.columns)
    caption = [escape(given.caption)] if given.caption else []
    return [table([escape(column.heading) for column in given.columns], rows, texts), *caption]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """Returns a table whose first `names` columns have text and the others numbers."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])


def _linked(shown: str, href: str) -> str:
    return f"[{shown}]({href})" if href else shown
