"""Writes the site's first page: one table of methods by suites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from imitbench.published.results_sources import ResultsSource
from imitbench.records.bundled_cards import card_of
from imitbench.report import html_tables, text
from imitbench.report.html_charts import AxisScale, strip, ticks
from imitbench.report.html_markup import Markup, block, fact, join, named, tag
from imitbench.report.html_tables import TableCell, linked_to_itself
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.head_to_head import head_page
from imitbench.report.leaderboard.model import Board, BoardRow, OnBoard, SuiteColumn
from imitbench.report.leaderboard.page import row_name
from imitbench.report.leaderboard.row_facts import level, level_text, trained_again
from imitbench.report.leaderboard.standings import entry_name
from imitbench.report.leaderboard.table_alarms import TableAlarm, table_alarms

_ROWS = (
    ("methods", "Methods"),
    ("controls", "Controls and references"),
    ("external", "External, imported numbers: neither ranked nor checked here"),
)


def render_index(board: Board) -> str:
    """Writes the first page."""
    main = [tag("p", text.EMPTY)]
    if board.columns:
        main = [
            _filters(board),
            block("methods", "Methods by suite", _table(board), _comparisons(board)),
        ]
        if found := _alarms(board):
            main.append(block("alarms", "Read with care", page.alarms(found)))
    main.append(_submissions(board))
    return page.render(board, "index.html", board.title, main, facts=_facts(board))


def _alarms(board: Board) -> list[tuple[str, TableAlarm]]:
    """Returns the alarms of all tables, with links, the title of the table first."""
    return [
        (
            f"{model.suite_page(part.section.suite)}#{part.anchor}",
            replace(table_alarm, text=f"{part.title}: {table_alarm.text}"),
        )
        for part in board.sections
        for table_alarm in table_alarms(part, board.method)
    ]


def _comparisons(board: Board) -> Markup:
    """Returns links to the pages on which methods are compared."""
    links = [tag("a", suite, href=head_page(suite)) for suite in board.suites]
    parts = [part for link in links for part in (", ", link)][1:]
    return tag("p", "Compare methods head to head: ", *parts, class_="beside")


def _facts(board: Board) -> list[Markup]:
    rows = [row.row for row in board.rows]
    runs = {run.row.run_id for row in rows for run in row.runs}
    failed = {failure.row.run_id for row in rows for failure in row.failures}
    methods = {spec.algo for row in rows if _kind(row) == "methods" for spec in row.specs}
    environments = {(part.section.suite, env) for part in board.sections
                    for env in part.section.environments}  # fmt: skip
    files = [
        tag("a", name, href=f"leaderboard.{ending}")
        for name, ending in (("JSON", "json"), ("CSV", "csv"), ("Markdown", "md"))
    ]
    return [
        fact(len(methods), "algorithm"),
        fact(len(environments), "environment"),
        fact(len(runs), "completed run"),
        fact(len(failed), "failed run", bad=bool(failed)),
        fact(len(board.sources), "submission"),
        tag("li", "all data: ", files[0], " ", files[1], " ", files[2]),
    ]


def _filters(board: Board) -> Markup:
    """Returns the choices, hidden until the script activates them."""
    suites = {column.title: column.title for column in board.columns}
    kinds = {kind: name.partition(",")[0] for kind, name in _ROWS}
    field = tag("input", type="search", data_view="q", placeholder="name, year or paper")
    return tag(
        "div",
        page.choice("Suite", "all", suites, data_view="suite"),
        page.choice("Rows", "all", kinds, data_view="rows"),
        tag("label", "Method ", field),
        *page.save_buttons(),
        class_="filters",
        role="search",
        id="filters",
        hidden=True,
    )


def _kind(row: BoardRow) -> str:
    if row.kind == "external":
        return "external"
    return "methods" if row.result.role == "method" and row.kind == "run" else "controls"


def _table(board: Board) -> Markup:
    main = max(board.columns, key=lambda column: len(_ranked(column)))
    names = dict.fromkeys(name for column in board.columns for name in column.shown)
    order = sorted(names, key=lambda name: (*_order(main.shown.get(name)), name))
    scales = [_scale(column) for column in board.columns]
    rows: dict[str, list[Markup]] = {kind: [] for kind, _ in _ROWS}
    for name in order:
        held = [column.shown.get(name) for column in board.columns]
        [first, *_] = [found for found in held if found is not None]
        rows[_kind(first.row)].append(_row(name, held, board.columns, scales))
    head = [tag("th", "Method", scope="col")]
    head += [
        tag(
            "th",
            column.title,
            ticks(scales[index], (0.0, 1.0)),
            scope="col",
            class_="number standing drawn",
            data_suite=str(index),
        )
        for index, column in enumerate(board.columns)
    ]
    head += [tag("th", label, scope="col", class_="number") for label in ("Year", "Minutes")]
    head += [tag("th", "Checks", scope="col")]
    bodies = [
        tag(
            "tbody",
            tag("tr", tag("th", label, colspan=str(len(head)), scope="rowgroup"), class_="group"),
            *rows[kind],
            data_rows=kind,
        )
        for kind, label in _ROWS
        if rows[kind]
    ]
    caption = (
        "Interquartile mean of the score on each suite, with its "
        f"{board.method.level:.0%} interval, at the default budget if the method has a tier there. "
        f"The drawing shows the same between the scores 0 and 1 (dashed). {page.TIERS} Minutes are "
        f"of a run, on average. {board.method.failed_runs.statement}"
    )
    whole = tag(
        "table",
        html_tables.captioned(caption),
        tag("thead", tag("tr", *head)),
        *bodies,
        class_="sortable landing cards",
        id="landing",
    )
    return tag("div", whole, class_="scroll", role="region", aria_label="Methods by suite",
               tabindex="0")  # fmt: skip


def _ranked(column: SuiteColumn) -> list[OnBoard]:
    return [found for found in column.shown.values() if found.row.rank is not None]


def _order(found: OnBoard | None) -> tuple[bool, float]:
    if found is None or found.row.result.iqm is None:
        return True, 0.0
    return found.row.rank is None, -found.row.result.iqm.point


def _scale(column: SuiteColumn) -> AxisScale:
    ends = [0.0, 1.0]
    for found in column.shown.values():
        iqm = found.row.result.iqm
        if iqm is not None:
            ends += [iqm.point, *((iqm.low, iqm.high) if iqm.known else ())]
    known = [end for end in map(html_tables.finite, ends) if end is not None]
    margin = 0.05 * (max(known) - min(known))
    return AxisScale(min(known) - margin, max(known) + margin)


def _row(
    name: str,
    held: Sequence[OnBoard | None],
    columns: Sequence[SuiteColumn],
    scales: Sequence[AxisScale],
) -> Markup:
    known = [found for found in held if found is not None]
    row = known[0].row
    card = card_of(row.specs[0]) if row.specs else None
    paper = card.paper if card else None
    shown: list[str] = [row_name(replace(row, name=entry_name(row)), "")]
    if row.imported is not None:
        shown.append(tag("span", model.submitter_text(row), class_="how"))
    elif paper is not None:
        shown.append(tag("a", paper.title, href=paper.url, rel="noreferrer", class_="how"))
    id_ = f"m-{model.slug(name)}"
    cells = [linked_to_itself(tag("th", join(*shown), scope="row", data_key=name), id_)]
    for index, (found, column) in enumerate(zip(held, columns, strict=True)):
        cells.append(_standing(found, column, scales[index], index))
    walls = [found.row.wall_s for found in known]
    minutes = [wall / 60 for wall in walls if wall is not None]
    mean = sum(minutes) / len(minutes) if minutes else None
    year = str(paper.year) if paper else ""
    cells.append(tag("td", year or "-", class_="number", data_key=year, data_label="Year"))
    cells.append(
        tag("td", text.fixed(mean, 1) if mean is not None else "-", class_="number",
            data_key="" if mean is None else mean, data_label="Minutes")
    )  # fmt: skip
    checked = _checked(known)
    cells.append(tag("td", checked, data_key=checked, data_label="Checks"))
    return tag("tr", *cells, id=id_)


def _checked(known: Sequence[OnBoard]) -> str:
    """Returns the checks of a method's rows: of the least checked one."""
    rows = [found.row for found in known]
    worst = min(rows, key=lambda row: _LEVELS.index(level(row)))
    agreeing = sum(row.trained_again.agreeing for row in rows)
    if level(worst) in ("verified", "validated") and agreeing:
        completed = sum(row.trained_again.completed for row in rows)
        return f"verified ({agreeing} of {completed} runs trained again)"
    return level_text(worst) or "-"


_LEVELS = ("differs", "checks failed", "not checked", "validated", "verified", "external", "")


def _standing(found: OnBoard | None, column: SuiteColumn, scale: AxisScale, index: int) -> Markup:
    if found is None:
        return tag("td", "-", class_="number standing", data_suite=str(index), data_key="",
                   data_label=column.title)  # fmt: skip
    row, iqm = found.row, found.row.result.iqm
    budget = found.part.section.conditions.budget
    details = [budget or "no budget"] if row.kind == "run" else []
    if variant := row.name.partition("[")[2] * (row.imported is None):
        details.append(variant.removesuffix("]").replace(",", ", "))
    if row.kind == "run":
        details.append(f"{text.seeds(row.result)} seeds")
    if row.kind in ("run", "external") and row.result.partial:
        details.append(f"{len(row.result.covered)} of {len(row.result.cells)} environments")
    rank = model.tier_text(row)
    ends = page.ends(iqm)
    point = ends.pop("point")
    data = {"iqm": point, **ends, "rank": rank or None, "budget": budget}
    return tag(
        "td",
        tag("span", rank, class_="rank") if rank else Markup(""),
        page.linked_iqm(row, ""),
        strip(iqm, None, scale, None, row.color) if point is not None else Markup(""),
        tag("span", ", ".join(details), class_="how"),
        class_="number standing",
        data_suite=str(index),
        data_key="" if point is None else format(point, ".10g"),
        data_label=column.title,
        data_value=json.dumps(data),
    )


def _checks(source: ResultsSource) -> tuple[str, str]:
    """Returns the result of the checks on a submission's runs, and a text to sort by."""
    if not source.name:
        return "not checked", "not checked"
    alarms = len(source.alarms)
    warned = f"{alarms} warning{'s' * (alarms > 1)}" * bool(alarms)
    if source.failed:
        caption = f"fails {', '.join(source.failed)}" + f"; {warned}" * bool(alarms)
        return tag("span", caption, class_="bad"), caption
    caption = warned or "passed"
    return tag("span", caption, title="\n".join(map(str, source.alarms)) or None), caption


def _submitter(source: ResultsSource, board: Board) -> Markup:
    """Returns the name of a submission, and what it supersedes or is superseded by."""
    name = named(source.name or model.OWN)
    details = [f"superseded by {source.superseded_by}"] if source.superseded_by else []
    details += [f"supersedes {other.name}" for other in board.sources
             if source.name and other.superseded_by == source.name]  # fmt: skip
    return join(name, *(tag("span", detail, class_="how") for detail in details))


def _trained_again(source: ResultsSource) -> TableCell:
    """Returns how many of a submission's runs others trained again, and by whom."""
    if not source.verifications:
        return TableCell(text.NOTHING, None)
    own = [run.spec.run_id for run in source.runs if run.result is not None]
    found = trained_again(source, own)
    caption = f"{found.text}, by {', '.join(found.by)}" if found.by else "no run could be trained"
    seeds = [record.public_seed for record in source.verifications if record.public_seed]
    title = "\n".join(f"public seed: {seed}" for seed in seeds) or None
    class_ = "bad" if source.refuted else None
    return TableCell(tag("span", named(caption), title=title, class_=class_), caption)


def _submissions(board: Board) -> Markup:
    columns = [
        *page.text_columns("Submitted by"),
        *page.number_columns("Completed runs", "Failed runs"),
        *page.text_columns("Checks", "Trained again", "Digest"),
    ]
    rows = [
        [
            TableCell(_submitter(source, board), source.name or model.OWN),
            page.count_cell(sum(run.result is not None for run in source.runs)),
            page.count_cell(sum(run.failure is not None for run in source.runs)),
            TableCell(*_checks(source)),
            _trained_again(source),
            TableCell(tag("code", source.digest or text.NOTHING, class_="digest"), source.digest),
        ]
        for source in board.sources
    ]
    caption = (
        "Whose results these are, and whether their budgets, protocols, settings and seeds are "
        "those of the cards. The digest is over all that a submission holds. “imitbench "
        "leaderboard validate” checks all of it. Runs are trained again by others than the "
        "submitter, after a public draw where the table says so."
    )
    ids = [f"from-{model.slug(source.name or 'own')}" for source in board.sources]
    whole = html_tables.table(columns, rows, label="Submissions", caption=caption, ids=ids)
    return block("submissions", "Submissions", whole)
