"""Writes a page for each suite on which readers choose methods and compare them."""

from __future__ import annotations

from urllib.parse import urlencode

from imitbench.report import text
from imitbench.report.html_data import json_element
from imitbench.report.html_markup import Markup, block, fact, tag
from imitbench.report.leaderboard import head_to_head_data as data
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.model import Board, BoardSection

SCRIPTS = (
    "theme.js", "elements.js", "tables.js", "views.js", "charts.js", "xy_chart.js",
    "head_to_head_views.js", "head_to_head.js",
)  # fmt: skip
STYLES = (*page.STYLES, "head_to_head.css")


def head_page(suite: str) -> str:
    """Returns the path in the site of the page on which a suite's methods are compared."""
    return f"head-to-head/{model.slug(suite)}.html"


def head_link(part: BoardSection, *names: str) -> str:
    """Returns the address, from the site's first page, of a comparison in a table.

    Args:
        part: The table.
        *names: Names of results that are chosen.
    """
    view = [("runs", data.conditions(part)), *(("m", name) for name in names)]
    return f"{head_page(part.section.suite)}#{urlencode(view)}"


def render_head_to_head(board: Board, suite: str) -> str:
    """Writes the page of comparisons of a suite.

    Args:
        board: The whole leaderboard.
        suite: Name of the suite.

    Returns:
        Self-contained HTML, which links to other pages of the site.
    """
    parts = board.of_suite(suite)
    rows = [row for part in parts for row in data.compared_rows(part).values()]
    facts = [
        fact(len({row.name for row in rows if row.result.role == "method"}), "method"),
        fact(len(parts), "table"),
        tag("li", tag("a", f"all results of {suite}", href=f"../{model.suite_page(suite)}")),
    ]
    main = [
        tag("noscript", tag("p", "Choosing methods needs this page's own script.", class_="lead")),
        _choice(),
        *_views(board, parts),
        json_element(data.payload(board, suite), digits=data.DIGITS),
    ]
    return page.render(
        board,
        head_page(suite),
        f"Head to head: {suite}",
        main,
        facts=facts,
        scripts=SCRIPTS,
        styles=STYLES,
    )


def _choice() -> Markup:
    runs = tag("select", data_choice="runs")
    field = tag("input", type="search", data_choice="filter", placeholder="name or submitter")
    controls = tag(
        "div",
        tag("label", "Runs ", runs),
        tag("label", "Find ", field),
        tag("button", "Best three", type="button", data_choice="best"),
        tag("button", "None", type="button", data_choice="none"),
        tag("output", aria_live="polite"),
        class_="filters",
    )
    picks = tag("fieldset", tag("legend", "Methods to compare"), class_="picks")
    said = tag(
        "p", "The choice is part of the address, so a comparison can be cited.", class_="said"
    )
    return tag(
        "section", tag("h2", "Choose", id="choice-title"), controls, picks, said,
        id="choice", aria_labelledby="choice-title", class_="block", hidden=True,
    )  # fmt: skip


def _views(board: Board, parts: list[BoardSection]) -> list[Markup]:
    """Returns the places of the drawings, with what a reader must know about each."""
    method = board.method
    level = f"{method.level:.0%}"
    owners = text.score_one_owner({kind for part in parts for kind in part.section.score_one})
    most = max((len(data.compared_rows(part)) for part in parts), default=0)
    drawn = data.replicates(most, method)
    views = [
        (
            "verdicts",
            "Verdicts",
            f"Row against column, by the rule of “imitbench compare” for one pair at {level}: the "
            "test of means and the interval of the interquartile mean must agree, with failed runs "
            "counted and without. Below the verdict, the difference of the "
            "interquartile means with its interval.",
        ),
        (
            "improvement",
            "Probability of improvement",
            "Probability that a run of the row scores above a run of the column, ties counting "
            "half, averaged over the environments that both have. "
            f"{level} percentile intervals of {drawn:,} resamples.",
        ),
        (
            "profile",
            "Performance profile",
            "Share of runs that score above τ; environments weigh equally. Bands are pointwise. "
            "Methods without runs on every environment are left out.",
        ),
        (
            "curves",
            "Learning curves",
            "Mean score of training episodes over the seeds whose learning curves are published, "
            f"with pointwise {level} t intervals. Training episodes explore, so a curve may end "
            "below the final score.",
        ),
        (
            "environments",
            "Differences by environment",
            f"Difference of mean scores, with Welch's {level} interval for one difference. Of many "
            "intervals that exclude 0, some do so by chance; the verdict stands above.",
        ),
        (
            "demonstrations",
            "Score by number of demonstrations",
            "Interquartile mean at the budget that is chosen above, and other numbers of "
            "demonstrations that are published.",
        ),
        (
            "cost",
            "Score by cost",
            "Interquartile mean and mean cost of one run, at every published budget. Gray points "
            "are methods that are not chosen. The line joins the frontier: ranked methods that no "
            "other one beats at their cost or less.",
        ),
    ]
    scale = f"Score 0 is the random reference, score 1 the {owners}. {method.failed_runs.statement}"
    blocks = [
        block(
            name,
            title,
            tag("div", class_="view", data_view=name),
            tag("p", said, class_="said"),
        )
        for name, title, said in views
    ]
    return [
        tag("div", *blocks, class_="views"),
        tag("p", scale, class_="said", id="scale", data_one=owners),
    ]
