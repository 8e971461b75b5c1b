"""Builds the parts of the HTML report that compare algorithms."""

from __future__ import annotations

import math

from imitbench.report import text
from imitbench.report.html_charts import legend, profile_chart
from imitbench.report.html_markup import Markup, join, named, tag
from imitbench.report.html_tables import mark_spans
from imitbench.report.model import Section
from imitbench.report.section_comparison import SectionComparison
from imitbench.stats.improvement import Improvement

SHADES = 10


def score_matrix(section: Section, place: int) -> Markup:
    """Returns the matrix of mean scores, a row per environment and a column per algorithm.

    Cells are shaded by score from 0 to 1. Each environment links to its single runs.
    """
    head = [tag("th", "Environment", scope="col")]
    head += [
        tag("th", named(result.algorithm), *mark_spans(text.marks(result)), scope="col")
        for result in section.algorithms
    ]
    rows = []
    for number, environment in enumerate(section.environments):
        link = tag("a", named(environment), href=f"#s{place}-e{number}")
        row = [tag("th", link, scope="row")]
        for result in section.algorithms:
            cell = result.cells[number]
            shown: str = text.score(cell.score)
            if cell.failures:
                shown = join(shown, " ", tag("span", f"{cell.failures} failed", class_="bad"))
            row.append(tag("td", shown, class_=shade(cell.score)))
        rows.append(tag("tr", *row))
    whole = tag(
        "table",
        tag("thead", tag("tr", *head)),
        tag("tbody", *rows),
        class_="matrix",
        aria_label="Scores at a glance",
    )
    return tag(
        "div", whole, class_="scroll", role="region", aria_label="Scores at a glance", tabindex="0"
    )


def shade(value: float | None) -> str | None:
    """Returns the CSS class of a share: from `h0` for 0 and below to `h10` for 1 and above."""
    if value is None or not math.isfinite(value):
        return None
    return f"h{round(SHADES * min(1.0, max(0.0, value)))}"


def profiles(comparison: SectionComparison, colors: dict[str, int]) -> Markup:
    """Returns the chart of performance profiles, with its legend."""
    chart = tag("div", profile_chart(comparison.profiles, colors), class_="scroll", tabindex="0",
                role="region", aria_label="Performance profiles")  # fmt: skip
    return tag(
        "figure",
        legend(comparison.profiles, colors),
        chart,
    )


def improvements(comparison: SectionComparison) -> Markup:
    """Returns the matrix of the probabilities of improvement of all pairs."""
    matrix = comparison.improvement
    assert matrix is not None
    head = [tag("th", "Row better than column", scope="col")]
    head += [tag("th", named(name), scope="col") for name in matrix.algorithms]
    rows = []
    for first in matrix.algorithms:
        row = [tag("th", named(first), scope="row")]
        for second in matrix.algorithms:
            if first == second:
                row.append(tag("td", "—", class_="self"))
            else:
                row.append(_pair(matrix.of(first, second)))
        rows.append(tag("tr", *row))
    whole = tag(
        "table",
        tag("thead", tag("tr", *head)),
        tag("tbody", *rows),
        class_="matrix pairs",
        aria_label="Probability of improvement",
    )
    return tag("div", whole, class_="scroll", role="region", tabindex="0",
               aria_label="Probability of improvement")  # fmt: skip


def _pair(pair: Improvement) -> Markup:
    seen = pair.probability
    if not math.isfinite(seen.point):
        return tag("td", text.NOTHING, title="no environment has runs of both")
    decided = seen.known and not seen.low <= 0.5 <= seen.high
    ends = (
        f"[{text.fixed(seen.low, 2)}, {text.fixed(seen.high, 2)}]"
        if seen.known
        else f"[{text.NOTHING}]"
    )
    over = len(pair.coverage.environments)
    return tag(
        "td",
        tag("strong" if decided else "span", text.fixed(seen.point, 2)),
        Markup("<br>"),
        tag("span", ends, class_="ends"),
        class_=shade(seen.point),
        title=f"over {over} environment{'' if over == 1 else 's'}",
    )
