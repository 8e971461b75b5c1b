"""Writes the site's first page: a table for each group of comparable runs."""

from __future__ import annotations

from dataclasses import astuple, replace

from imitbench.published.results_sources import ResultsSource
from imitbench.report import html_tables, text
from imitbench.report.html_charts import AxisScale, axis, strip
from imitbench.report.html_markup import Markup, fact, html_document, join, named, tag, theme_picker
from imitbench.report.html_tables import Column, TableCell
from imitbench.report.leaderboard import model
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.model import Report
from imitbench.stats.intervals import Interval
from imitbench.version import __version__

STYLES = ("report.css", "board.css")
SCRIPTS = ("theme.js", "elements.js", "tables.js", "board.js")


def render_index(board: Board) -> str:
    """Writes the page with all tables.

    Args:
        board: The whole leaderboard.

    Returns:
        Self-contained HTML, which links to other pages of the site.
    """
    main = [_filters(board), *(_table(n, part, board) for n, part in enumerate(board.sections))]
    if not board.sections:
        main = [tag("p", text.EMPTY)]
    main.append(_submissions(board))
    body = join(
        tag("a", "Skip to the results", href="#results", class_="skip"),
        _header(board),
        tag("main", *main, id="results"),
        footer(board),
    )
    return html_document(board.title, body, styles=STYLES, scripts=SCRIPTS)


def footer(board: Board) -> Markup:
    """Returns the footer of every page, with the methods behind the numbers."""
    sections = tuple(part.section for part in board.sections)
    said = text.protocol(Report(board.method, sections, ()))
    return tag("footer", tag("p", f"Made by imitbench {__version__}. {said[0].upper()}{said[1:]}."))


def row_name(row: BoardRow) -> Markup:
    """Returns an algorithm's name with a spot of its color, and its marks."""
    name = named(row.name, "spotted", "" if row.color is None else f"c{row.color}")
    marks = [
        (row.kind == "external", "external"),
        (row.kind == "reference" or row.result.role == "reference", "reference"),
        (row.result.uses_reward, "uses reward"),
        (row.result.role == "control", "control"),
        (row.kind in ("run", "external") and row.result.partial, "partial"),
        (row.raced, "registered race"),
    ]
    shown = [tag("span", mark, class_="mark") for holds, mark in marks if holds]
    if not row.checked:
        shown.append(tag("span", "checks failed", class_="mark bad"))
    return join(name, *shown)


def interval(value: Interval | None, row: BoardRow) -> Markup | str:
    """Returns a point estimate, strong, with its interval."""
    if value is None:
        return text.NOTHING
    point, _, ends = model.interval(value, row).partition(" ")
    strong = tag("strong", point)
    return join(strong, " ", tag("span", ends, class_="ends")) if ends else strong


def _header(board: Board) -> Markup:
    runs = {run.row.run_id for part in board.sections for row in part.rows for run in row.runs}
    failed = {each.row.run_id for part in board.sections for row in part.rows
              for each in row.failures}  # fmt: skip
    contenders = {
        (part.section.suite, row.result.algorithm)
        for part in board.sections
        for row in part.rows
        if row.kind == "run" and row.result.role == "method"
    }
    environments = {(part.section.suite, env) for part in board.sections
                    for env in part.section.environments}  # fmt: skip
    facts = [
        fact(len(contenders), "algorithm"),
        fact(len(environments), "environment"),
        fact(len(runs), "completed run"),
        fact(len(failed), "failed run", bad=bool(failed)),
        fact(len(board.sources), "submission"),
    ]
    files = [
        tag("a", "JSON", href="leaderboard.json"),
        tag("a", "CSV", href="leaderboard.csv"),
        tag("a", "Markdown", href="leaderboard.md"),
        tag("a", "Submissions", href="#submissions"),
    ]
    return tag(
        "header",
        tag("div", tag("p", "imitbench", class_="brand"), theme_picker(), class_="bar"),
        tag("h1", board.title),
        tag("ul", *facts, class_="facts"),
        tag("nav", *files, aria_label="Files"),
        class_="top",
    )


def _facets(part: BoardSection) -> dict[str, str]:
    """Returns the values of a table that filters compare, as text."""
    suite, budget, n_demos, source = astuple(part.section.conditions)
    return {
        "suite": suite,
        "source": source or "none",
        "demonstrations": "none" if n_demos is None else str(n_demos),
        "budget": budget or "none",
    }


def _filters(board: Board) -> Markup:
    """Returns the filters, hidden until the script activates them."""
    facets = [_facets(part) for part in board.sections]
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
        *(
            Column(label, number=True)
            for label in (
                "IQM score",
                "Mean score",
                "Environments",
                "Seeds",
                "Failed runs",
                "Steps per run",
                "Minutes per run",
            )
        ),
    ]
    rows = [_row(row, part, scale) for row in part.rows]
    level = f"{board.method.level:.0%}"
    caption = (
        f"Dot and bar: IQM and its {level} interval; tick: mean. Ranks order the IQM of algorithms "
        "that have runs on every environment here; where intervals overlap, the order is "
        "uncertain. Seeds are per environment; numbers link to their runs. "
        f"{text.conditions(section, report)}"
    )
    if any(row.kind == "external" for row in part.rows):
        caption += " External rows are imported numbers, which are neither ranked nor averaged."
    whole = html_tables.table(
        columns, rows, label=section.title, caption=caption, classes="board", names=3
    )
    shared = section.title.removeprefix(section.suite).removeprefix(": ")
    chips = tag("span", shared, class_="shared") if shared else Markup("")
    heading = tag("h2", section.suite, " ", chips, id=f"s{number}-title")
    parts = [heading, whole]
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


def _row(row: BoardRow, part: BoardSection, scale: AxisScale) -> list[TableCell]:
    result = row.result
    place = None if row.page is None else f"{row.page}#{row.anchor}"

    def linked(shown: str, part_of_page: str = "") -> str:
        if place is None or shown == text.NOTHING:
            return shown
        return tag("a", shown, href=f"{place}{part_of_page}")

    failed = result.failures
    count: str = tag("span", str(failed), class_="bad") if failed else "0"
    is_run = row.kind in ("run", "external")
    steps, wall, mean = row.env_steps, row.wall_s, _point(result.mean)
    return [
        TableCell("" if row.rank is None else str(row.rank), _key(row.rank)),
        TableCell(row_name(row), row.name),
        TableCell(named(model.submitter_text(row)), model.submitter_text(row)),
        TableCell(strip(result.iqm, result.mean, scale, row.name, row.color)),
        TableCell(linked(interval(result.iqm, row)), _point(result.iqm)),
        TableCell(linked(text.score(mean)), mean),
        TableCell(
            linked(f"{len(result.covered)} of {len(part.section.environments)}", "-cells"),
            float(len(result.covered)),
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
    ]


def _key(rank: int | None) -> float | None:
    return None if rank is None else float(rank)


def _point(value: Interval | None) -> float | None:
    return html_tables.finite(value.point) if value is not None else None


def _checks(source: ResultsSource) -> tuple[str, str]:
    """Returns the result of the checks on a submission's runs, and a text to sort by."""
    if not source.name:
        return "not checked", "not checked"
    alarms = len(source.alarms)
    warned = f"{alarms} warning{'s' * (alarms > 1)}" * bool(alarms)
    if source.failed:
        said = f"fails {', '.join(source.failed)}" + f"; {warned}" * bool(alarms)
        return tag("span", said, class_="bad"), said
    said = warned or "passed"
    return tag("span", said, title="\n".join(map(str, source.alarms)) or None), said


def _submissions(board: Board) -> Markup:
    columns = [
        Column("Submitted by"),
        Column("Completed runs", number=True),
        Column("Failed runs", number=True),
        Column("Checks"),
        Column("Digest"),
    ]
    rows = []
    for source in board.sources:
        done = sum(run.result is not None for run in source.runs)
        failed = len(source.runs) - done
        rows.append(
            [
                TableCell(named(source.name or model.OWN), source.name or model.OWN),
                TableCell(str(done), float(done)),
                TableCell(str(failed), float(failed)),
                TableCell(*_checks(source)),
                TableCell(
                    tag("code", source.digest or text.NOTHING, class_="digest"), source.digest
                ),
            ]
        )
    caption = (
        "Whose results these are, and whether their budgets, protocols, settings and seeds are "
        "those of the cards. The digest is over all that a submission holds. “imitbench "
        "leaderboard validate” checks all of it."
    )
    block = html_tables.table(columns, rows, label="Submissions", caption=caption)
    heading = tag("h2", "Submissions", id="submissions-title")
    return tag(
        "section",
        heading,
        block,
        id="submissions",
        aria_labelledby="submissions-title",
        class_="block",
    )
