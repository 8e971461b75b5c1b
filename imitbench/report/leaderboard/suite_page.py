"""Writes a page for each suite: a table, with a column per environment, for comparable runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imitbench.records.bundled_cards import bundled_suite
from imitbench.report import html_tables, text
from imitbench.report.html_charts import reward_chart, strip, ticks
from imitbench.report.html_markup import Markup, block, escape, fact, join, tag
from imitbench.report.html_tables import HtmlColumn, TableCell
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.answers import answer_of
from imitbench.report.leaderboard.head_to_head import head_link
from imitbench.report.leaderboard.methods_table import axis_of
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.page import interval, row_name
from imitbench.report.leaderboard.regimes import regime_blocks
from imitbench.report.leaderboard.row_facts import level_text, package_versions
from imitbench.report.leaderboard.standings import CONTROLS, EXTERNAL, PARTIAL, ordered_groups
from imitbench.report.reward_board import REWARDS, reward_table, summary_table
from imitbench.report.score_axis import AxisScale, marks
from imitbench.report.success_table import success_table

_EXTERNAL = (
    "Numbers of other tools or papers, as they were imported. They are neither ranked, nor "
    "averaged with the others, nor checked here; budgets are not compared."
)
_PART = (
    "The aggregates of these rows are over the environments that they have, so they are compared "
    "with no other row."
)
_APART = (PARTIAL, CONTROLS, EXTERNAL)


def render_suite(board: Board, suite: str) -> str:
    """Writes the page of a suite: a table for each group of comparable runs."""
    parts = board.of_suite(suite)
    main = [
        *_overview(parts, board),
        _filters(parts),
        *(_table(part, board) for part in parts),
        *regime_blocks(board, suite),
        _reading(parts, board),
    ]
    card = bundled_suite(suite)
    if card is not None:
        about = tag("p", card.description, class_="lead")
        main.insert(0, tag("details", tag("summary", "About this suite"), about, class_="about"))
    rows = [row for part in parts for row in part.rows]
    runs = {run.row.run_id for row in rows for run in row.runs}
    facts = [
        fact(len({row.method for row in rows if row.rank is not None}), "ranked method"),
        fact(len({env for part in parts for env in part.section.environments}), "environment"),
        fact(len(runs), "completed run"),
    ]
    return page.render(board, model.suite_page(suite), suite, main, facts=facts)


def _overview(parts: Sequence[BoardSection], board: Board) -> list[Markup]:
    """Returns links to the tables of several conditions, and to all reward boards."""
    tables = [
        (f"#{part.anchor}", board.condition(part), " (headline)" * (not at))
        for at, part in enumerate(parts)
    ]
    rewards = [
        (f"#{_rewards_id(part)}", board.condition(part), "") for part in parts
        if part.section.rewards
    ]  # fmt: skip
    shown = {"Conditions": tables if len(tables) > 1 else [], "Reward board": rewards}
    return [
        tag(
            "nav",
            tag("span", f"{caption}:"),
            tag("ul", *(tag("li", tag("a", name, href=to), mark) for to, name, mark in links)),
            class_="conditions",
            aria_label=caption,
        )
        for caption, links in shown.items()
        if links
    ]


def _rewards_id(part: BoardSection) -> str:
    """Returns the HTML id of the reward board of a table."""
    return f"{REWARDS}--{part.anchor}"


def _facets(part: BoardSection) -> dict[str, str]:
    """Returns the values of a table that filters compare, as text."""
    given = part.section.conditions
    return {
        "source": given.source or "none",
        # "all" and "10" in place of "all demonstrations" and "10 demonstrations"
        "demonstrations": given.regime or "none",
        "budget": given.budget or "none",
    }


def _filters(parts: Sequence[BoardSection]) -> Markup:
    """Returns the filters, hidden until the script activates them."""
    facets = [_facets(part) for part in parts]
    choices = []
    for name in facets[0] if facets else ():
        values = dict.fromkeys(facet[name] for facet in facets)
        if len(values) < 2:
            continue
        options = {f"={value}": value for value in values}
        choices.append(page.choice(name.capitalize(), "any", options, data_facet=name))
    field = tag("input", type="search", id="algorithm", placeholder="name or submitter")
    choices.append(tag("label", "Algorithm ", field))
    choices += page.save_buttons()
    return tag("div", *choices, class_="filters", role="search", hidden=True)


def _reading(parts: Sequence[BoardSection], board: Board) -> Markup:
    """Returns how to read the tables, once for all of them."""
    caption = (
        f"Dot and bar: IQM and its {board.method.level:.0%} interval; tick: mean; dashed: the "
        "scores 0 and 1. Where an axis has the sign //, it is squeezed beyond. "
        f"{page.TIERS} Environments have mean scores. Likely: the IQM of most likely actions, "
        "those of the expert having score 1. Seeds are per environment. Numbers link to their "
        f"runs. {board.method.failed_runs.statement}"
    )
    if any(row.kind == "external" for part in parts for row in part.rows):
        caption += " External rows are imported numbers, which are neither ranked nor averaged."
    return block("reading", "How to read these tables", tag("p", caption, class_="lead"))


def short_names(environments: Sequence[str]) -> dict[str, str]:
    """Returns environments without their namespaces, where that leaves them different."""
    short = [name.rpartition("/")[2] for name in environments]
    return {
        name: name if not plain or short.count(plain) > 1 else plain
        for name, plain in zip(environments, short, strict=True)
    }


def _table(part: BoardSection, board: Board) -> Markup:
    section = part.section
    scale = axis_of(part)
    columns = [
        HtmlColumn("Algorithm"),
        HtmlColumn("Tier", number=True),
        HtmlColumn("Values"),
        HtmlColumn("IQM score", number=True, drawing=ticks(scale, marks(scale, apart=0.25))),
        *(
            HtmlColumn(short, number=True, title=environment)
            for environment, short in short_names(section.environments).items()
        ),
        HtmlColumn("Seeds", number=True),
        HtmlColumn("Cost", number=True),
        HtmlColumn("Checks"),
    ]

    def table(rows: Sequence[BoardRow], kind: str, label: str = "", caption: str = "") -> Markup:
        return html_tables.table(
            columns,
            [_row(row, scale) for row in rows],
            label=f"{part.title}, {label}" if label else part.title,
            caption=caption,
            classes=f"board cards {kind}",
            ids=[model.row_id(part, row) for row in rows],
        )

    groups = dict(ordered_groups(part))
    compared = [entry for name, own in groups.items() if name not in _APART for entry in own]
    compared.sort(key=lambda entry: entry.row.rank or math.inf)
    last = [row for entry in groups.get(CONTROLS, []) for row in (entry.row, *entry.others)]
    folded = [row for entry in compared for row in entry.others]
    others = [row for row in folded if not row.result.partial]
    partial = [row for entry in groups.get(PARTIAL, []) for row in (entry.row, *entry.others)]
    partial += [row for row in folded if row.result.partial]
    imported = [entry.row for entry in groups.get(EXTERNAL, [])]
    details = f"{part.shared}, " * bool(part.shared) + text.reference_versions(section)
    heading = join(section.suite, " ", tag("span", details, class_="shared"))
    compare = tag("a", "Compare head to head", href=f"../{head_link(part)}")
    answer = answer_of(part, board.method)
    parts = [
        *page.answered(answer),
        table([*(entry.row for entry in compared), *last], "main"),
    ]
    if others:
        count = f"{len(others)} other row{'s' * (len(others) > 1)} of these methods"
        summary = tag("summary", f"{count}: of other values, or of other submitters")
        parts.append(tag("details", summary, table(others, "others", "others"), class_="variants"))
    if partial:
        parts += [tag("h3", "Not on all environments"), table(partial, "partial", "partial", _PART)]
    parts.append(tag("p", compare, class_="beside"))
    if imported:
        heading_there = tag("h3", "External, imported numbers")
        parts += [heading_there, table(imported, "external", "external", _EXTERNAL)]
    success = success_table([row.result for row in part.rows], board.method.episodes)
    if success.rows:
        parts += [tag("h3", success.title), html_tables.laid_out(success)]
    if section.rewards:
        heading_there = tag("h3", "Reward board", id=_rewards_id(part))
        over = summary_table(section.reward_summaries)
        above = [html_tables.laid_out(over)] if over.rows else []
        drawn = html_tables.laid_out(reward_table(section.rewards))
        parts += [heading_there, *above, reward_chart(section.rewards), drawn]
    full = [alarm.text for alarm in answer.alarms if alarm.kind == "saturated"]
    if len(full) > 1:
        summary = tag("summary", f"Who is as good as the expert on {len(full)} environments")
        parts.append(tag("details", summary, page.bullets(full), class_="notes"))
    if section.notes:
        count = f"{len(section.notes)} note{'s' * (len(section.notes) > 1)}"
        caption = f"{count} on reading these numbers"
        notes = page.bullets(section.notes)
        parts.append(tag("details", tag("summary", caption), notes, class_="notes"))
    facets = {f"data_{name}": f"={value}" for name, value in _facets(part).items()}
    return block(part.anchor, heading, *parts, classes="table", **facets)


def _row(row: BoardRow, scale: AxisScale) -> list[TableCell]:
    result = row.result
    address = None if row.page is None else f"../{row.page}#{row.anchor}"

    def linked(shown: str, part_of_page: str = "") -> Markup:
        if address is None or shown == text.NOTHING:
            return escape(shown)
        return tag("a", shown, href=f"{address}{part_of_page}")

    failed = result.failures
    broken = Markup("")
    if failed:
        broken = linked(tag("span", f"{failed} failed", class_="bad"), "-failures")
    is_run = row.kind in ("run", "external")
    steps, wall = row.env_steps, row.wall_s
    cost = text.NOTHING if wall is None else f"{text.fixed(wall / 60, 1)} min"
    drawn = strip(result.iqm, result.mean, scale, row.said, row.method_color)
    who = page.below(model.submitter_text(row))
    ends = page.ends(result.iqm)
    checks, versions = level_text(row), ", ".join(package_versions((*row.runs, *row.failures)))
    return [
        TableCell(join(row_name(row, "../", as_method=row.imported is None), who), row.name),
        page.tier_cell(row),
        page.values_cell(row),
        TableCell(join(linked(interval(result.iqm, row)), drawn, _mean(row)), ends["point"], ends),
        *(
            TableCell(
                linked(text.score(html_tables.finite(cell.score)), f"-e{at}" * bool(cell.runs)),
                html_tables.finite(cell.score),
            )
            for at, cell in enumerate(result.cells)
        ),
        TableCell(
            join(linked(model.seeds(row), "-runs"), page.below(broken)) if is_run else text.NOTHING,
            float(result.seeds[0]) if is_run else None,
            {"fewest": result.seeds[0], "most": result.seeds[1], "failed runs": failed}
            if is_run
            else {},
        ),
        TableCell(
            join(
                linked(cost, "-runs"), page.below(f"{model.amount(steps)} steps" if steps else "")
            ),
            wall,
            {"seconds": wall, "environment steps": steps},
        ),
        TableCell(join(checks or text.NOTHING, page.below(versions)), checks),
    ]


def _mean(row: BoardRow) -> Markup:
    mean, likely = (page.ends(one)["point"] for one in (row.result.mean, row.result.iqm_likely))
    return join(
        page.below("" if likely is None else f"likely {text.score(likely)}"),
        page.below("" if mean is None else f"mean {text.score(mean)}"),
    )
