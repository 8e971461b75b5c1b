"""Writes the first page's table of one condition: a row for each method, grouped by track."""

from __future__ import annotations

import json
from collections.abc import Sequence

from imitbench.records.bundled_cards import card_of
from imitbench.report import html_tables, text
from imitbench.report.html_charts import strip, ticks
from imitbench.report.html_markup import Markup, join, tag
from imitbench.report.html_tables import linked_to_itself
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.answers import Answer
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.row_facts import level, level_text, tuning_text, values_text
from imitbench.report.leaderboard.standings import (
    CONTROLS,
    EXTERNAL,
    OTHER,
    PARTIAL,
    MethodEntry,
    ordered_groups,
)
from imitbench.report.score_axis import AxisScale, marks, zoomed
from imitbench.stats.bootstrap import Interval

_GROUPS = {
    "offline": "no steps in the environment",
    "replay": "few steps in the environment, kept in a buffer",
    "on-policy": "as many steps in the environment as on-policy methods",
    "asks the expert": "queries during training",
    "sees the reward": "learns from the environment's own reward",
    OTHER: "methods of no track",
    PARTIAL: "not on all environments, so compared with no other row",
    CONTROLS: "controls and references, which are not ranked",
    EXTERNAL: "imported numbers, neither ranked nor checked here",
}
_LEVELS = ("differs", "checks failed", "not checked", "validated", "verified", "external", "")
_SCORE = "IQM score"


def methods_table(part: BoardSection, answer: Answer) -> Markup:
    """Returns the table of a condition.

    Args:
        part: The condition's table of the board.
        answer: What it says; groups of methods have the answers of their tracks.
    """
    groups = ordered_groups(part)
    scale = axis_of(part)
    head = [
        tag("th", "Method", scope="col"),
        tag("th", "Tier", scope="col", class_="number"),
        tag("th", "Values", scope="col"),
        tag("th", _SCORE, ticks(scale, marks(scale)), scope="col", class_="number drawn"),
        tag("th", "Seeds", scope="col", class_="number"),
        tag("th", "Minutes", scope="col", class_="number"),
        tag("th", "Checks", scope="col"),
    ]
    said = {track.track: track.lead for track in answer.compared}
    bodies = []
    for name, entries in groups:
        parts = [tag("span", name, class_="track"), f": {_GROUPS[name]}"]
        if name in said:
            parts += [". ", tag("strong", said[name])]
        label = tag("th", join(*parts), colspan=str(len(head)), scope="rowgroup")
        rows = [_row(entry, part, scale) for entry in entries]
        bodies.append(tag("tbody", tag("tr", label, class_="group"), *rows, data_group=name))
    whole = tag(
        "table",
        tag("thead", tag("tr", *head)),
        *bodies,
        class_="sortable landing cards",
        id=f"t-{model.slug(part.section.suite)}--{part.anchor}",
        aria_label=part.title,
    )
    return tag("div", whole, class_="scroll", role="region", aria_label=part.title, tabindex="0")


def axis_of(part: BoardSection) -> AxisScale:
    """Returns the axis of the drawings of a table, stretched where its methods are."""
    methods = [row for row in part.rows if row.kind == "run" and row.result.role == "method"]
    others = [row for row in part.rows if row not in methods]
    return zoomed(_estimates(methods), _estimates(others))


def _estimates(rows: Sequence[BoardRow]) -> list[Interval | None]:
    results = [row.result for row in rows]
    return [estimate for own in results for estimate in (own.iqm, own.iqm_likely)]


def reading(board: Board) -> str:
    """Returns how to read the tables, as sentences."""
    return (
        f"Interquartile mean of the score, with its {board.method.level:.0%} interval. The drawing "
        "shows the same; dashed lines are the scores 0 and 1, and where an axis has the sign //, "
        f"it is squeezed beyond. {page.TIERS} Rows stand by tier, then by the score with sampled "
        "actions. A method's row is that with the best tier; those of other values and other "
        "submitters are folded below its name. Training in packs is no other value. Minutes are of "
        f"a run, on average. {board.method.failed_runs.statement}"
    )


def _row(entry: MethodEntry, part: BoardSection, scale: AxisScale) -> Markup:
    row = entry.row
    few = row.rank is not None and row.provisional
    tier = page.tier_cell(row, track=False)
    minutes = None if row.wall_s is None else row.wall_s / 60
    checks = _checked([row, *entry.others])
    chosen, cost = values_text(row), tuning_text(row.specs, row.disclosures)[0]
    cells = [
        tag("td", tier.content, class_="number", data_key=tier.key, data_label="Tier"),
        tag("td", chosen or "-", page.below("" if cost == text.NOTHING else cost),
            data_key=chosen, data_label="Values"),
        _score(row, scale),
        _number(_seeds(row), float(row.result.seeds[0]) if row.kind == "run" else None, "Seeds"),
        _number(text.fixed(minutes, 1) if minutes is not None else "-", minutes, "Minutes"),
        tag("td", checks, data_key=checks, data_label="Checks"),
    ]  # fmt: skip
    id_ = "--".join((f"m-{model.slug(part.section.suite)}", model.row_id(part, row)))
    name = tag("th", _name(entry), scope="row", data_key=row.method)
    return tag("tr", linked_to_itself(name, id_), *cells, id=id_, class_="few" if few else None)


def _number(shown: str, key: float | None, label: str) -> Markup:
    return tag("td", shown, class_="number", data_key="" if key is None else key, data_label=label)


def _seeds(row: BoardRow) -> str:
    return "-" if row.kind not in ("run", "external") else model.seeds(row)


def _name(entry: MethodEntry) -> Markup:
    row = entry.row
    shown: list[str] = [page.row_name(row, "", as_method=True)]
    card = card_of(row.specs[0]) if row.specs else None
    if row.imported is not None:
        shown.append(page.below(model.submitter_text(row)))
    elif card is not None and card.paper is not None:
        paper = card.paper
        title = f"{paper.title} ({paper.year})"
        shown.append(tag("a", title, href=paper.url, rel="noreferrer", class_="how"))
    if row.kind in ("run", "external") and row.result.partial:
        shown.append(page.below(_coverage(row)))
    if entry.others:
        count = len(entry.others)
        summary = tag("summary", f"{count} other row{'s' * (count > 1)}")
        items = [tag("li", _other(row)) for row in entry.others]
        shown.append(tag("details", summary, tag("ul", *items), class_="variants"))
    return join(*shown)


def _other(row: BoardRow) -> Markup:
    """Returns a row that does not stand for its method, in a line."""
    tier = f"tier {row.tier}" if row.tier else "provisional" if row.rank is not None else "no rank"
    facts = [
        tier,
        f"{model.seeds(row)} seeds" if row.kind == "run" else "",
        values_text(row),
        model.submitter_text(row),
        level_text(row),
    ]
    if row.result.partial:
        facts.append(_coverage(row))
    details = page.below("; ".join(filter(None, facts)))
    return join(tag("strong", row.values or "default"), " ", _ways(row), details)


def _coverage(row: BoardRow) -> str:
    return f"{len(row.result.covered)} of {len(row.result.cells)} environments"


def _ways(row: BoardRow, scale: AxisScale | None = None) -> Markup:
    """Returns the score of each way of acting, of which the style sheet shows the chosen one."""
    found = []
    for acting, value in (("sampled", row.result.iqm), ("likely", row.result.iqm_likely)):
        parts = [page.linked(value, row, "")]
        if scale is not None and value is not None and html_tables.finite(value.point) is not None:
            parts.append(strip(value, None, scale, None, row.method_color))
        found.append(tag("span", *parts, class_=f"acting {acting}"))
    return join(*found)


def _score(row: BoardRow, scale: AxisScale) -> Markup:
    sampled, likely = page.ends(row.result.iqm), page.ends(row.result.iqm_likely)
    keys = ["" if ends["point"] is None else format(ends["point"], ".10g")
            for ends in (sampled, likely)]  # fmt: skip
    data = {**sampled, **{f"{name}, most likely actions": end for name, end in likely.items()},
            "tier": row.tier, "track": row.track or None}  # fmt: skip
    return tag(
        "td",
        _ways(row, scale),
        class_="number standing",
        data_key=keys[0],
        data_sampled=keys[0],
        data_likely=keys[1],
        data_label=_SCORE,
        data_value=json.dumps(data),
    )


def _checked(rows: Sequence[BoardRow]) -> str:
    """Returns the checks of a method's rows: of the least checked one."""
    worst = min(rows, key=lambda row: _LEVELS.index(level(row)))
    agreeing = sum(row.trained_again.agreeing for row in rows)
    if level(worst) in ("verified", "validated") and agreeing:
        completed = sum(row.trained_again.completed for row in rows)
        return f"verified ({agreeing} of {completed} runs trained again)"
    return level_text(worst) or "-"
