"""Builds the tables of the HTML report: sortable and scrollable, with explaining captions."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imitbench.records.runs import Provenance
from imitbench.report import model, text
from imitbench.report.html_charts import axis, strip
from imitbench.report.html_data import published
from imitbench.report.html_markup import Markup, join, named, tag
from imitbench.report.model import Cell, ColumnKind, Section, Table
from imitbench.report.reward_board import REWARDS, SUMMARY
from imitbench.report.score_axis import AxisScale

Key = float | str | None


@dataclass(frozen=True)
class TableCell:
    """Content and sort key of one table cell.

    Attributes:
        content: Text, which is escaped, or markup.
        key: Number or text to sort by; `None` is always last. The default is the content.
        values: What is saved of this cell, by name, if it is more than its key.
    """

    content: str
    key: Key = ""
    values: Mapping[str, object] | None = None


@dataclass(frozen=True)
class HtmlColumn:
    """A column of a table.

    Attributes:
        label: Text of the heading.
        number: Whether it has numbers: right-aligned, and sorted in descending order first.
        heading: Markup to show instead of the label; the column is then not sortable.
        title: Longer text, shown when pointed at.
        drawing: Drawing below the label: the axis of the drawings in its cells.
    """

    label: str
    number: bool = False
    heading: Markup | None = None
    title: str | None = None
    drawing: Markup | None = None


def table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[TableCell]],
    *,
    label: str,
    caption: str,
    classes: str = "",
    names: int = 1,
    ids: Sequence[str] = (),
) -> Markup:
    """Returns a sortable table in a box that scrolls in narrow windows.

    Args:
        columns: Headings and kinds of the columns, from left to right.
        rows: Cells of each row, one per column.
        label: Name of the table for screen readers.
        caption: Explanation of the numbers.
        classes: CSS classes.
        names: Number of leading columns that are row headings.
        ids: HTML ids of the rows, to which the last of these columns then links.
    """
    head = [_heading(column) for column in columns]
    body = []
    last_name = max(0, names - 1)
    for row, id_ in zip(rows, ids or itertools.repeat(None), strict=False):
        cells = [
            _cell(column, cell, index < names)
            for index, (column, cell) in enumerate(zip(columns, row, strict=True))
        ]
        if id_ is not None:
            cells[last_name] = linked_to_itself(cells[last_name], id_)
        body.append(tag("tr", *cells, id=id_))
    whole = tag(
        "table",
        captioned(caption) if caption else Markup(""),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_=f"sortable {classes}".strip(),
        aria_label=None if caption else label,
    )
    return tag("div", whole, class_="scroll", role="region", aria_label=label, tabindex="0")


def _heading(column: HtmlColumn) -> Markup:
    if column.heading is not None:
        return tag("th", column.heading, scope="col", class_="plot", data_fixed=True)
    kinds = ["number"] * column.number + ["drawn"] * (column.drawing is not None)
    drawing = column.drawing if column.drawing is not None else Markup("")
    return tag("th", column.label, drawing, scope="col", class_=" ".join(kinds) or None,
               title=column.title)  # fmt: skip


def linked_to_itself(cell: Markup, id_: str) -> Markup:
    """Returns a table cell with a link to its row at its end; the style sheet shows a sign."""
    link = tag("a", href=f"#{id_}", class_="link", aria_label="Link to this row")
    ending = cell[cell.rindex("</") :]
    return Markup(f"{cell[: -len(ending)]}{link}{ending}")


def captioned(caption: str) -> Markup:
    """Returns a caption that stays visible while the table scrolls."""
    return tag("caption", tag("span", caption))


def _cell(column: HtmlColumn, cell: TableCell, is_name: bool) -> Markup:
    key = cell.content if cell.key == "" else cell.key
    attributes = {
        "class_": "number" if column.number else "plot" if column.heading is not None else None,
        "data_key": format(key, ".10g") if isinstance(key, float) else key,
        "data_label": None if is_name else column.label,
        "data_value": None if cell.values is None else json.dumps(cell.values),
    }
    if is_name:
        return tag("th", cell.content, scope="row", **attributes)
    return tag("td", cell.content, **attributes)


_CLASSES = {
    "aggregate": "overview",
    "cells": "cells",
    "failures": "failures",
    REWARDS: "rewards",
    SUMMARY: "rewards",
}


def laid_out(given: Table, colors: Mapping[str, int] | None = None) -> Markup:
    """Returns a table of a report.

    Args:
        given: The table.
        colors: Number of each method, see `method_colors`.
    """
    rows = [_cells(given.columns, row, colors or {}) for row in given.rows]
    return _laid_out(given, [_column(column) for column in given.columns], rows)


def overview(
    given: Table, section: Section, colors: Mapping[str, int], scale: AxisScale, ids: Sequence[str]
) -> Markup:
    """Returns the table of all environments, with the interval of each algorithm drawn.

    Args:
        given: The table; it has a row per algorithm of the section.
        section: Section of the report.
        colors: Number of each method, see `method_colors`.
        scale: Axis of the drawings.
        ids: HTML ids of the rows.
    """
    count = len(given.columns)
    # The drawn intervals and the IQM come first.
    order = (0, *range(4, count - 1), 3, 1, 2, count - 1)
    columns = [_column(given.columns[index]) for index in order]
    columns.insert(1, HtmlColumn("Interval", heading=axis(scale)))
    rows = []
    for result, row in zip(section.algorithms, given.rows, strict=True):
        cells = _cells(given.columns, row, colors)
        name, color = result.algorithm, colors.get(result.algorithm)
        drawn = TableCell(strip(result.iqm, result.mean, scale, name, color))
        first, *others = [cells[index] for index in order]
        rows.append([first, drawn, *others])
    return _laid_out(given, columns, rows, ids)


def _laid_out(
    given: Table,
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[TableCell]],
    ids: Sequence[str] = (),
) -> Markup:
    caption = given.caption if given.page_caption is None else given.page_caption
    classes = f"folded {_CLASSES.get(given.label, '')}".strip()
    return table(columns, rows, label=given.title, caption=caption, classes=classes,
                 names=given.names, ids=ids)  # fmt: skip


def _column(column: model.Column) -> HtmlColumn:
    return HtmlColumn(column.heading, number=column.right or column.kind == "id")


def _cells(
    columns: Sequence[model.Column], row: Sequence[Cell], colors: Mapping[str, int]
) -> list[TableCell]:
    return [
        _table_cell(column.kind, cell, colors) for column, cell in zip(columns, row, strict=True)
    ]


def _table_cell(kind: ColumnKind, cell: Cell, colors: Mapping[str, int]) -> TableCell:
    shown = cell.shown
    if cell.href:
        return TableCell(tag("a", shown, href=cell.href, rel="noreferrer"), shown)
    if cell.algorithm:
        color = colors.get(cell.algorithm)
        name = named(cell.algorithm, "spotted", "" if color is None else f"c{color}")
        return TableCell(join(name, *mark_spans(cell.marks)), cell.algorithm)
    if kind == "text":
        return TableCell(shown)
    if kind in ("name", "code"):
        return TableCell(named(shown) if kind == "name" else tag("code", shown), shown)
    if kind == "interval" and cell.key is not None:
        point, _, ends = shown.partition(" ")
        shown = join(tag("strong", point), " ", tag("span", ends, class_="ends"))
    if kind == "failures" and cell.key:
        shown = tag("span", shown, class_="bad")
    return TableCell(shown, finite(cell.key))


def mark_spans(marks: Iterable[str]) -> list[Markup]:
    """Returns the marks after an algorithm's name, such as `uses reward`."""
    return [tag("span", mark, class_="mark") for mark in marks]


def finite(value: float | None) -> float | None:
    """Returns a finite number to sort by; `None` otherwise, which is sorted last."""
    return value if value is not None and math.isfinite(value) else None


def origin(provenance: Provenance, device: str) -> str:
    """Returns the provenance of a run as JSON, so that equal provenances can be counted."""
    return json.dumps({**published(provenance), "device": device}, sort_keys=True)


def provenance_table(counts: Mapping[str, int], ids: Mapping[str, str] | None = None) -> Markup:
    """Returns the table of versions, hardware and commands, with the number of runs of each.

    Args:
        counts: Number of runs by `origin`.
        ids: Ids of the rows, for links to them.
    """
    columns = [
        HtmlColumn("Runs", number=True),
        HtmlColumn("imitbench"),
        HtmlColumn("Commit"),
        HtmlColumn("Python"),
        HtmlColumn("Packages"),
        HtmlColumn("Hardware"),
        HtmlColumn("Command"),
    ]
    rows = [
        _provenance_row(serialized, count, ids[serialized] if ids else None)
        for serialized, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    caption = "Provenance of the runs, as recorded with each result."
    return table(columns, rows, label="Provenance", caption=caption, classes="folded provenance",
                 names=0)  # fmt: skip


def _provenance_row(serialized: str, count: int, id_: str | None) -> list[TableCell]:
    origin = json.loads(serialized)
    versions = [f"{name} {version}" for name, version in sorted(origin["packages"].items())]
    hardware = f"{origin['cpu']}{', ' + origin['gpu'] if origin['gpu'] else ''}"
    shown = str(count) if id_ is None else tag("span", str(count), id=id_)
    return [
        TableCell(shown, float(count)),
        TableCell(origin["imitbench"] or text.NOTHING),
        TableCell(tag("code", (origin["git_sha"] or text.NOTHING)[:10]), origin["git_sha"]),
        TableCell(origin["python"] or text.NOTHING),
        TableCell(", ".join(versions)),
        TableCell(f"{hardware} ({origin['device']})"),
        TableCell(tag("code", origin["command"] or ""), origin["command"]),
    ]
