"""Builds the tables of the HTML report: sortable and scrollable, with explaining captions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imitbench.records.runs import FailureRow, Provenance
from imitbench.report import text
from imitbench.report.html_charts import AxisScale, axis, strip
from imitbench.report.html_data import published
from imitbench.report.html_markup import Markup, join, named, tag
from imitbench.report.model import AlgorithmResult, CellResult, ExtraTable, Section
from imitbench.stats.bootstrap import Interval
from imitbench.stats.coverage import FailurePolicy

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
class Column:
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
    columns: Sequence[Column],
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
    for place, row in enumerate(rows):
        made = [_cell(c, e, p < names) for p, (c, e) in enumerate(zip(columns, row, strict=True))]
        own = ids[place] if ids else None
        if own is not None:
            made[max(0, names - 1)] = linked_to_itself(made[max(0, names - 1)], own)
        body.append(tag("tr", *made, id=own))
    whole = tag(
        "table",
        captioned(caption) if caption else Markup(""),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_=f"sortable {classes}".strip(),
        aria_label=None if caption else label,
    )
    return tag("div", whole, class_="scroll", role="region", aria_label=label, tabindex="0")


def _heading(column: Column) -> Markup:
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


def captioned(said: str) -> Markup:
    """Returns a caption that stays visible while the table scrolls."""
    return tag("caption", tag("span", said))


def _cell(column: Column, entry: TableCell, naming: bool) -> Markup:
    key = entry.content if entry.key == "" else entry.key
    sorted_by = None if key is None else format(key, ".10g") if isinstance(key, float) else key
    classes = "number" if column.number else "plot" if column.heading is not None else None
    label = None if naming else column.label
    values = None if entry.values is None else json.dumps(entry.values)
    attributes = {"class_": classes, "data_key": sorted_by, "data_label": label,
                  "data_value": values}  # fmt: skip
    if naming:
        return tag("th", entry.content, scope="row", **attributes)
    return tag("td", entry.content, **attributes)


def name_of(result: AlgorithmResult, color: int | None) -> Markup:
    """Returns an algorithm's name, with a spot of its color."""
    name = named(result.algorithm, "spotted", "" if color is None else f"c{color}")
    return join(name, *marks_of(result))


def marks_of(result: AlgorithmResult) -> list[Markup]:
    """Returns the marks after an algorithm's name: `reference`, `uses reward`."""
    marks = [result.role] * (result.role == "reference") + ["uses reward"] * result.uses_reward
    marks += [result.role] * (result.role == "control")
    return [tag("span", mark, class_="mark") for mark in marks]


def aggregates(
    section: Section, colors: dict[str, int], scale: AxisScale, ids: Sequence[str]
) -> Markup:
    """Returns the table of aggregates: one row per algorithm, with its interval drawn.

    Args:
        section: Section of the report.
        colors: Number of each method, see `method_colors`.
        scale: Axis of the drawings.
        ids: HTML ids of the rows.
    """
    columns = [
        Column("Algorithm"),
        Column("Interval", heading=axis(scale)),
        Column("IQM score", number=True),
        Column("Mean score", number=True),
        Column("Environments", number=True),
        Column("Seeds", number=True),
        Column("Failed runs", number=True),
    ]
    rows = []
    for result in section.algorithms:
        color = colors.get(result.algorithm)
        covered = text.coverage(result)
        rows.append(
            [
                TableCell(_labelled(result, result.kind == "reference", color), result.algorithm),
                TableCell(strip(result.iqm, result.mean, scale, result.algorithm, color)),
                _interval(result.iqm, result),
                _interval(result.mean, result),
                TableCell(covered, float(len(result.covered))),
                TableCell(text.seeds(result), _seed_key(result)),
                _count(result.failures),
            ]
        )
    return table(columns, rows, label="All environments", caption="", classes="overview", ids=ids)


def _labelled(result: AlgorithmResult, is_reference: bool, color: int | None) -> Markup:
    mark = tag("span", "reference", class_="mark") if is_reference else Markup("")
    return join(name_of(result, color), mark)


def _interval(value: Interval | None, result: AlgorithmResult) -> TableCell:
    if value is None:
        return TableCell(text.NOTHING, None)
    point, _, ends = text.interval(value, result).partition(" ")
    shown = join(tag("strong", point), " ", tag("span", ends, class_="ends"))
    return TableCell(shown, float(value.point))


def _seed_key(result: AlgorithmResult) -> Key:
    return None if result.kind == "reference" else float(result.seeds[0])


def _count(failures: int) -> TableCell:
    shown = tag("span", str(failures), class_="bad") if failures else "0"
    return TableCell(shown, float(failures))


def cells(section: Section, colors: dict[str, int]) -> Markup:
    """Returns the table of cells: raw returns and scores of each algorithm per environment."""
    columns = [
        Column("Environment"),
        Column("Algorithm"),
        *(
            Column(label, number=True)
            for label in (
                "Seeds",
                "Raw return",
                "Score",
                "Score, deterministic",
                "Episode length",
                "Terminated",
                "Failed runs",
            )
        ),
    ]
    rows = [
        _cell_row(result, result.cells[position], colors.get(result.algorithm))
        for position in range(len(section.environments))
        for result in section.algorithms
    ]
    return table(columns, rows, label="By environment", caption="", classes="cells", names=2)


def _cell_row(result: AlgorithmResult, cell: CellResult, color: int | None) -> list[TableCell]:
    is_reference = cell.kind == "reference"
    return [
        TableCell(named(cell.environment), cell.environment),
        TableCell(_labelled(result, is_reference, color), result.algorithm),
        TableCell("reference", None)
        if is_reference
        else TableCell(str(cell.seeds), float(cell.seeds)),
        TableCell(text.raw_spread(cell), finite(cell.raw_mean)),
        TableCell(text.score(cell.score), finite(cell.score)),
        TableCell(text.score(cell.score_deterministic), finite(cell.score_deterministic)),
        TableCell(text.fixed(cell.mean_length, 1), finite(cell.mean_length)),
        TableCell(text.share(cell.termination_rate), finite(cell.termination_rate)),
        _count(cell.failures),
    ]


def finite(value: float | None) -> float | None:
    """Returns a finite number to sort by; `None` otherwise, which is sorted last."""
    return value if value is not None and math.isfinite(value) else None


def measured(section: Section) -> Markup:
    """Returns the table of further measurements of methods, controls included."""
    columns = [
        Column("Environment"),
        Column("Algorithm"),
        Column("Measure"),
        Column("Runs", number=True),
        Column("Mean", number=True),
    ]
    rows = [
        [
            TableCell(named(row.environment), row.environment),
            TableCell(named(row.algorithm), row.algorithm),
            TableCell(row.measure),
            TableCell(str(row.runs), float(row.runs)),
            TableCell(text.measured_spread(row), finite(row.mean)),
        ]
        for row in section.measured
    ]
    return table(columns, rows, label="Further measurements", caption="", names=3)


def references(section: Section) -> Markup:
    """Returns the table of references: the raw returns of scores 0 and 1."""
    columns = [
        Column("Environment"),
        Column("Version"),
        Column("Random (score 0)", number=True),
        Column(text.score_one_heading(section), number=True),
    ]
    rows = [
        [
            TableCell(named(row.env), row.env),
            TableCell(row.version),
            TableCell(text.raw(row.random), finite(row.random)),
            TableCell(text.score_one_return(row), finite(row.expert)),
        ]
        for row in section.references
    ]
    return table(columns, rows, label="References", caption="")


def extra(given: ExtraTable) -> Markup:
    """Returns an `ExtraTable`, whose content is the same in all formats."""
    columns = [
        Column(label, number=place >= given.names) for place, label in enumerate(given.columns)
    ]
    rows = [
        [
            TableCell(named(entry.shown), entry.shown)
            if place < given.names
            else TableCell(entry.shown, finite(entry.key))
            for place, entry in enumerate(row)
        ]
        for row in given.rows
    ]
    return table(columns, rows, label=given.title, caption=given.caption, names=given.names)


def failures(rows: Sequence[FailureRow], policy: FailurePolicy) -> Markup:
    """Returns the table of failed runs."""
    columns = [
        Column("Suite"),
        Column("Environment"),
        Column("Algorithm"),
        Column("Seed", number=True),
        Column("Phase"),
        Column("Error"),
        Column("Message"),
        Column("Run"),
    ]
    found = [
        [
            TableCell(row.suite),
            TableCell(named(row.env), row.env),
            TableCell(named(row.algo), row.algo),
            TableCell(str(row.seed), float(row.seed)),
            TableCell(row.phase),
            TableCell(row.error_type),
            TableCell(text.message(row.message)),
            TableCell(tag("code", row.run_id), row.run_id),
        ]
        for row in rows
    ]
    caption = (
        f"{policy.statement} Tables count them. "
        "The command “imitbench logs” shows what a run wrote."
    )
    return table(columns, found, label="Failed runs", caption=caption, classes="failures", names=3)


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
        Column("Runs", number=True),
        Column("imitbench"),
        Column("Commit"),
        Column("Python"),
        Column("Packages"),
        Column("Hardware"),
        Column("Command"),
    ]
    rows = [
        _row(each, count, ids[each] if ids else None)
        for each, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    caption = "Provenance of the runs, as recorded with each result."
    return table(columns, rows, label="Provenance", caption=caption, classes="provenance", names=0)


def _row(serialized: str, count: int, id_: str | None) -> list[TableCell]:
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
