"""Writes the page of claims: figures of papers beside the board's runs."""

from __future__ import annotations

from imitbench.report.claims_table import RULE, claims_summary, claims_tables
from imitbench.report.html_markup import Markup, block, tag
from imitbench.report.html_tables import laid_out
from imitbench.report.leaderboard import page
from imitbench.report.leaderboard.model import CLAIMS_PAGE, Board, slug

_HOW = (
    "imitbench claims check N",
    " trains the method of claim N on its task, and says what came out. A share is the return "
    "divided by the expert's; a score is 0 for random actions and 1 for the expert.",
)


def render_claims(board: Board) -> str:
    """Writes the page of claims."""
    main: list[Markup] = [
        tag("p", claims_summary(board.claims), class_="lead"),
        tag("p", RULE),
        tag("p", tag("code", _HOW[0]), _HOW[1]),
    ]
    for algo, table in claims_tables(board.claims).items():
        main.append(block(slug(algo), table.title, laid_out(table)))
    return page.render(board, CLAIMS_PAGE, "Claims of papers", main, facts=[])
