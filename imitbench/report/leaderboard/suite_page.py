"""Writes a page for each suite: a table, with a column per environment, for comparable runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace

from imitbench.records.bundled_cards import bundled_suite
from imitbench.report import html_tables, text
from imitbench.report.html_charts import AxisScale, axis, strip
from imitbench.report.html_markup import Markup, fact, named, tag
from imitbench.report.html_tables import Column, TableCell
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.head_to_head import head_link
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.page import interval, place_text, row_name
from imitbench.report.leaderboard.table_alarms import table_alarms
from imitbench.report.leaderboard.trust import level_text, package_versions
from imitbench.report.leaderboard.tuning import tuning_text
from imitbench.report.model import Report
from imitbench.stats.intervals import Interval


def render_suite(board: Board, suite: str) -> str:
    """Writes the page of a suite: a table for each group of comparable runs.

    Args:
        board: The whole leaderboard.
        suite: Name of the suite.

    Returns:
        Self-contained HTML, which links to other pages of the site.
    """
    shown = [(n, part) for n, part in enumerate(board.sections) if part.section.suite == suite]
    parts = [part for _, part in shown]
    main = [_filters(parts), *(_table(n, part, board) for n, part in shown)]
    card = bundled_suite(suite)
    if card is not None:
        main.insert(0, tag("p", card.description, class_="lead"))
    rows = [row for part in parts for row in part.rows]
    runs = {run.row.run_id for row in rows for run in row.runs}
    facts = [
        fact(len({row.name for row in rows if row.rank is not None}), "ranked method"),
        fact(len({env for part in parts for env in part.section.environments}), "environment"),
        fact(len(runs), "completed run"),
    ]
    return page.render(board, model.suite_page(suite), suite, main, facts=facts)


def _facets(part: BoardSection) -> dict[str, str]:
    """Returns the values of a table that filters compare, as text."""
    suite, budget, n_demos, source = astuple(part.section.conditions)
    return {
        "suite": suite,
        "source": source or "none",
        "demonstrations": "none" if n_demos is None else str(n_demos),
        "budget": budget or "none",
    }


def _filters(parts: Sequence[BoardSection]) -> Markup:
    """Returns the filters, hidden until the script activates them."""
    facets = [_facets(part) for part in parts]
    choices = []
    for name in facets[0] if facets else ():
        values = dict.fromkeys(each[name] for each in facets)
        options = [tag("option", "all", value="")]
        options += [tag("option", value, value=f"={value}") for value in values]
        select = tag("select", *options, data_facet=name)
        choices.append(tag("label", f"{name.capitalize()} ", select))
    field = tag("input", type="search", id="algorithm", placeholder="name or submitter")
    choices.append(tag("label", "Algorithm ", field))
    count = tag("output", aria_live="polite")
    return tag("div", *choices, count, class_="filters", role="search", hidden=True)


def _table(number: int, part: BoardSection, board: Board) -> Markup:
    section = part.section
    report = Report(board.method, (), ())
    scale = AxisScale.of(replace(section, algorithms=tuple(row.result for row in part.rows)))
    columns = [
        Column("Rank", number=True),
        Column("Algorithm"),
        Column("Submitted by"),
        Column("Interval", heading=axis(scale)),
        Column("IQM score", number=True),
        *(Column(environment, number=True) for environment in section.environments),
        Column("Seeds", number=True),
        Column("Failed runs", number=True),
        Column("Steps per run", number=True),
        Column("Minutes per run", number=True),
        Column("Tuning"),
        Column("Checks"),
        Column("Version"),
    ]
    imported = [row for row in part.rows if row.kind == "external"]
    rows = [_row(row, part, scale) for row in part.rows if row.kind != "external"]
    level = f"{board.method.level:.0%}"
    caption = (
        f"Dot and bar: IQM and its {level} interval; tick: mean. A rank is 1 + the number of "
        "algorithms that are decided to be better, as by “imitbench compare”; “=” marks ranks that "
        "several share. Environments have mean scores. Seeds are per environment; numbers "
        "link to their runs. "
        f"{text.conditions(section, report)}"
    )
    caption += (
        " Tuning is what was spent to find tuned values. Version is that of imitbench which made "
        "the runs: their specifications, not the version, say which numbers compare."
    )
    whole = html_tables.table(
        columns, rows, label=part.title, caption=caption, classes="board cards", names=3
    )
    shared = part.title.removeprefix(section.suite).removeprefix(": ")
    chips = tag("span", shared, class_="shared") if shared else Markup("")
    link = tag("a", "#", href=f"#s{number}", class_="link", aria_label="Link to this table")
    heading = tag("h2", section.suite, " ", chips, " ", link, id=f"s{number}-title")
    found = [("", each) for each in table_alarms(part, board.method)]
    compare = tag("a", "Compare head to head", href=f"../{head_link(part)}")
    parts = [
        heading,
        page.alarms(found),
        whole,
        tag("p", compare, class_="beside"),
    ]
    if imported:
        parts += [
            tag("h3", "External, imported numbers"),
            _external(imported, columns, part, scale),
        ]
    if section.notes:
        notes = tag("ul", *(tag("li", note) for note in section.notes))
        count = len(section.notes)
        said = f"{count} note{'' if count == 1 else 's'} on reading these numbers"
        parts.append(tag("details", tag("summary", said), notes, class_="notes"))
    facets = {f"data_{name}": f"={value}" for name, value in _facets(part).items()}
    return tag(
        "section",
        *parts,
        id=f"s{number}",
        aria_labelledby=f"s{number}-title",
        class_="block table",
        **facets,
    )


def _external(
    rows: Sequence[BoardRow], columns: Sequence[Column], part: BoardSection, scale: AxisScale
) -> Markup:
    caption = (
        "Numbers of other tools or papers, as they were imported. They are neither ranked, nor "
        "averaged with the others, nor checked here; budgets are not compared."
    )
    return html_tables.table(
        columns,
        [_row(row, part, scale) for row in rows],
        label=f"{part.title}, external",
        caption=caption,
        classes="board cards external",
        names=3,
    )


def _row(row: BoardRow, part: BoardSection, scale: AxisScale) -> list[TableCell]:
    result = row.result
    place = None if row.page is None else f"../{row.page}#{row.anchor}"

    def linked(shown: str, part_of_page: str = "") -> str:
        if place is None or shown == text.NOTHING:
            return shown
        return tag("a", shown, href=f"{place}{part_of_page}")

    failed = result.failures
    count: str = tag("span", str(failed), class_="bad") if failed else "0"
    is_run = row.kind in ("run", "external")
    steps, wall = row.env_steps, row.wall_s
    rank = place_text(row.place, tied=[each.place for each in part.rows].count(row.place) > 1)
    about = row.kind == "run" and result.role in ("method", "reference")
    return [
        TableCell(rank, _key(row.place)),
        TableCell(row_name(row, f"../{model.method_page(row.name)}" if about else None), row.name),
        TableCell(named(model.submitter_text(row)), model.submitter_text(row)),
        TableCell(strip(result.iqm, result.mean, scale, row.name, row.color)),
        TableCell(linked(interval(result.iqm, row)), _point(result.iqm)),
        *(
            TableCell(
                linked(text.score(html_tables.finite(cell.score)), f"-e{at}" * bool(cell.runs)),
                html_tables.finite(cell.score),
            )
            for at, cell in enumerate(result.cells)
        ),
        TableCell(
            linked(model.seeds(row), "-runs") if is_run else text.NOTHING,
            float(result.seeds[0]) if is_run else None,
        ),
        TableCell(linked(count, "-failures") if failed else count, float(failed)),
        TableCell(linked(text.NOTHING if steps is None else f"{steps:,.0f}", "-runs"), steps),
        TableCell(
            linked(text.NOTHING if wall is None else text.fixed(wall / 60, 1), "-runs"), wall
        ),
        TableCell(*tuning_text(row.specs)),
        TableCell(level_text(row) or text.NOTHING),
        TableCell(named(", ".join(package_versions((*row.runs, *row.failures))) or text.NOTHING)),
    ]


def _key(rank: int | None) -> float | None:
    return None if rank is None else float(rank)


def _point(value: Interval | None) -> float | None:
    return html_tables.finite(value.point) if value is not None else None
