"""Writes the report as one self-contained HTML file, which works offline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from imitbench.report import html_tables, report_tables, text
from imitbench.report.html_charts import (
    legend,
    profile_chart,
    race_charts,
    regime_chart,
    reward_chart,
)
from imitbench.report.html_data import json_element, payload
from imitbench.report.html_markup import (
    Markup,
    block,
    fact,
    html_document,
    join,
    named,
    tag,
    theme_picker,
)
from imitbench.report.html_tables import mark_spans, origin, provenance_table
from imitbench.report.measures import MEANINGS
from imitbench.report.model import Report, Section, Table, color_numbers
from imitbench.report.reward_board import REWARDS, SUMMARY
from imitbench.report.score_axis import AxisScale, zoomed
from imitbench.report.section_comparison import SectionComparison, compare_section
from imitbench.stats.bootstrap import Interval
from imitbench.stats.improvement import ImprovementMatrix
from imitbench.store.run_details import ReportDetails
from imitbench.version import __version__

STYLES = ("report.css",)
SHADES = 10
SCRIPTS = ("theme.js", "elements.js", "tables.js", "charts.js", "drill.js", "start.js")


def render_html(report: Report, details: ReportDetails | None = None) -> str:
    """Writes the report as a page for browsers.

    The same results give the same page: it contains no creation time. It loads nothing. Its
    security policy forbids loading, and any script but its own. Names and messages from runs are
    escaped.

    Args:
        report: The report to write.
        details: Single runs and learning curves; without them, the page has only the scores.
    """
    known = details if details is not None else ReportDetails()
    colors = color_numbers(report)
    main: list[Markup] = []
    if not report.sections:
        main.append(tag("p", text.EMPTY))
    for index, section in enumerate(report.sections):
        main.append(_section(index, section, report, colors))
    for index, race in enumerate(report.races):
        main.append(block(f"r{index}", f"Race: {race.design.title}", race_charts(race)))
    for index, comparison in enumerate(report.regimes):
        heading = f"Score by regime: {comparison.title}"
        main.append(block(f"g{index}", heading, regime_chart(comparison, colors)))
    for id_, table in _tables(report).items():
        main.append(block(id_, table.title, html_tables.laid_out(table, colors)))
    if report.sections:
        main.append(_reading(report))
    if known.runs:
        counts = Counter(origin(run.provenance, run.spec.device) for run in known.runs.values())
        main.append(block("provenance", "Provenance", provenance_table(counts)))
    protocol = text.protocol(report)
    protocol = protocol[0].upper() + protocol[1:]
    body = join(
        tag("a", "Skip to the results", href="#results", class_="skip"),
        _header(report, bool(known.runs)),
        tag("main", *main, id="results"),
        tag("footer", tag("p", f"Made by imitbench {__version__}. {protocol}.")),
        tag("dialog", id="run", aria_labelledby="run-title"),
        json_element(payload(report, known, colors)),
    )
    suites = dict.fromkeys(section.suite for section in report.sections)
    title = " · ".join(["imitbench report", *suites])
    return html_document(title, body, styles=STYLES, scripts=SCRIPTS)


def _tables(report: Report) -> dict[str, Table]:
    """Returns the tables after the sections, by HTML id."""
    tables = enumerate(report_tables.report_tables(report))
    return {table.label or f"x{index}": table for index, table in tables}


def _header(report: Report, has_provenance: bool) -> Markup:
    links = []
    for index, section in enumerate(report.sections):
        links.append(tag("a", section.title, href=f"#s{index}"))
        if section.rewards:
            first = SUMMARY if section.reward_summaries else REWARDS
            links.append(tag("a", "Reward board", href=f"#s{index}-{first}"))
    links += [
        tag("a", f"Score by regime: {comparison.title}", href=f"#g{index}")
        for index, comparison in enumerate(report.regimes)
    ]
    links += [tag("a", table.title, href=f"#{id_}") for id_, table in _tables(report).items()]
    if has_provenance:
        links.append(tag("a", "Provenance", href="#provenance"))
    runs = {row.run_id for section in report.sections for row in section.runs}
    algorithms = {
        result.algorithm
        for section in report.sections
        for result in section.algorithms
        if result.role == "method"
    }
    environments = {env for section in report.sections for env in section.environments}
    facts = [
        fact(len(runs), "completed run"),
        fact(len(report.failures), "failed run", bad=bool(report.failures)),
        fact(len(algorithms), "algorithm"),
        fact(len(environments), "environment"),
    ]
    return tag(
        "header",
        tag("div", tag("p", "imitbench", class_="brand"), theme_picker(), class_="bar"),
        tag("h1", "Report"),
        tag("ul", *facts, class_="facts"),
        tag("nav", *links, aria_label="Sections"),
        class_="top",
    )


def _section(
    index: int,
    section: Section,
    report: Report,
    colors: dict[str, int],
) -> Markup:
    """Returns the block of one section: its tables, charts and notes."""
    overview, cells, *others = report_tables.section_tables(section, report)
    comparison = compare_section(section, report.method)
    scale = _axis_of(section)
    made = f"Seeds: {text.all_seeds(section)}. {text.conditions(section, report)}"
    ids = [f"s{index}-a{number}" for number in range(len(section.algorithms))]
    parts = [
        tag("p", made, class_="lead"),
        _notes(section),
        html_tables.overview(overview, section, colors, scale, ids),
        tag("h3", "Scores at a glance"),
        _score_matrix(section, index),
    ]
    if comparison is not None and (comparison.profiles or comparison.improvement):
        parts.append(tag("div", *_comparison(comparison, colors), class_="pair"))
    if comparison is not None and len(section.acting) > 1:
        quiet = compare_section(section, report.method, "likely")
        if quiet is not None and quiet.improvement is not None:
            parts.append(tag("h3", "Probability of improvement with most likely actions"))
            parts.append(_improvement_matrix(quiet.improvement))
    parts += [
        tag("h3", cells.title),
        _filter(f"s{index}-cells"),
        tag("div", html_tables.laid_out(cells, colors), id=f"s{index}-cells"),
        tag("h3", "Curves and single runs"),
        *(_drill(index, number, section) for number in range(len(section.environments))),
    ]
    for table in others:
        parts.append(tag("h3", table.title, id=f"s{index}-{table.label}" if table.label else None))
        if table.label == REWARDS:
            parts.append(reward_chart(section.rewards))
        parts.append(html_tables.laid_out(table))
    return block(f"s{index}", _heading(section), *parts)


def _axis_of(section: Section) -> AxisScale:
    """Returns the axis of the drawn intervals, stretched where the methods are."""
    methods: list[Interval | None] = []
    others: list[Interval | None] = []
    for result in section.algorithms:
        compared = result.kind == "run" and result.role == "method"
        (methods if compared else others).extend((result.iqm, result.mean))
    return zoomed(methods, others)


def _heading(section: Section) -> Markup:
    """Returns the heading: the suite, and as labels what its runs share; also readable as text."""
    shared = section.title.removeprefix(f"{section.suite}: ")
    if shared == section.title:
        return join(section.title, " ")
    return join(section.suite, " ", tag("span", shared, class_="shared"))


def _reading(report: Report) -> Markup:
    """Returns how to read the tables and charts, once for the whole page."""
    measures = {row.measure for section in report.sections for row in section.measured}
    kinds = {kind for section in report.sections for kind in section.score_one}
    every = [result for section in report.sections for result in section.algorithms]
    likely = any(result.iqm_likely is not None for result in every)
    quiet = [report_tables.LIKELY] if likely else []
    entries = [
        (
            "Scores",
            text.scale(kinds),
        ),
        (
            "Intervals",
            f"Dot and bar: IQM and its {report.method.level:.0%} interval; tick: mean. Dashed "
            "lines are the scores 0 and 1; where an axis has the sign //, it is squeezed beyond. "
            "Seeds are per environment.",
        ),
        *quiet,
        (
            "Scores at a glance",
            "Mean score of each algorithm on each environment. Environments link to their runs "
            "and curves.",
        ),
        (
            "Performance profiles",
            "Share of runs that score above τ, over the environments that all of these algorithms "
            "have runs on, which weigh equally. Bands are pointwise.",
        ),
        (
            "Probability of improvement",
            "Probability that a run of the row's algorithm scores above a run of the column's, "
            "ties counting half, averaged over the environments that the two share. Each interval "
            "is for its pair alone; bold where 0.5 is outside.",
        ),
        (
            "By environment",
            f"Raw return: mean ± sample standard deviation over seeds. {text.ENDINGS}",
        ),
        (
            "Curves",
            "Thin lines are runs, thick ones their mean. Dashed lines are the returns of the "
            "scores 0 and 1.",
        ),
        *((name, MEANINGS[name]) for name in sorted(measures & set(MEANINGS))),
    ]
    pairs = [part for name, meaning in entries for part in (tag("dt", name), tag("dd", meaning))]
    return block("reading", "How to read this page", tag("dl", *pairs))


def _notes(section: Section) -> Markup:
    if not section.notes:
        return Markup("")
    notes = tag("ul", *(tag("li", note) for note in section.notes))
    count = len(section.notes)
    summary = tag("summary", f"{count} note{'' if count == 1 else 's'} on reading these numbers")
    return tag("details", summary, notes, class_="notes", open=True)


def _filter(target: str) -> Markup:
    """Returns a filter field, hidden until the script activates it."""
    field = tag("input", type="search", data_filter=target, placeholder="environment or algorithm")
    count = tag("output", aria_live="polite")
    return tag("p", tag("label", "Filter ", field), " ", count, class_="filter", hidden=True)


def _drill(index: int, number: int, section: Section) -> Markup:
    """Returns a closed element for the runs on one environment; the script fills it on opening."""
    environment = section.environments[number]
    runs = sum(row.env == environment for row in section.runs)
    failed = sum(result.cells[number].failures for result in section.algorithms)
    counted = f"{runs} run{'' if runs == 1 else 's'}"
    parts: list[str] = [named(environment), " ", tag("span", counted, class_="ends")]
    if failed:
        parts += [" ", tag("span", f"{failed} failed", class_="bad")]
    content = tag(
        "div",
        tag("noscript", "Curves and single runs are drawn by the script in this page."),
        class_="drill",
        data_section=index,
        data_environment=number,
    )
    summary = tag("summary", *parts)
    return tag("details", summary, content, id=f"s{index}-e{number}", class_="environment")


def _comparison(comparison: SectionComparison, colors: dict[str, int]) -> Iterator[Markup]:
    """Yields the performance profiles and the probabilities of improvement."""
    if comparison.profiles:
        over = len(comparison.environments)
        title = f"Performance profiles over {over} environment{'' if over == 1 else 's'}"
        chart = tag("div", profile_chart(comparison.profiles, colors), class_="scroll",
                    tabindex="0", role="region", aria_label="Performance profiles")  # fmt: skip
        figure = tag("figure", legend(comparison.profiles, colors), chart)
        yield tag("div", tag("h3", title), figure)
    if comparison.improvement is not None:
        pairs = _improvement_matrix(comparison.improvement)
        yield tag("div", tag("h3", "Probability of improvement"), pairs)


def _score_matrix(section: Section, number: int) -> Markup:
    """Returns the matrix of mean scores, a row per environment and a column per algorithm.

    Cells are shaded by score from 0 to 1. Each environment links to its single runs.
    """
    head = [
        [named(result.algorithm), *mark_spans(text.marks(result))] for result in section.algorithms
    ]
    rows = []
    for index, environment in enumerate(section.environments):
        row = [tag("a", named(environment), href=f"#s{number}-e{index}")]
        for result in section.algorithms:
            cell = result.cells[index]
            shown: str = text.score(cell.score)
            if cell.failures:
                shown = join(shown, " ", tag("span", f"{cell.failures} failed", class_="bad"))
            row.append(tag("td", shown, class_=_shade(cell.score)))
        rows.append(row)
    label = "Scores at a glance"
    matrix = _matrix(label, "Environment", head, rows, "matrix")
    return tag("div", matrix, class_="scroll", role="region", aria_label=label, tabindex="0")


def _improvement_matrix(matrix: ImprovementMatrix) -> Markup:
    """Returns the probabilities of improvement of all pairs."""
    names = matrix.algorithms
    rows = [[named(first), *(_pair(matrix, first, second) for second in names)] for first in names]
    head = [[named(name)] for name in names]
    label = "Probability of improvement"
    pairs = _matrix(label, "Row better than column", head, rows, "matrix pairs")
    return tag("div", pairs, class_="scroll", role="region", tabindex="0", aria_label=label)


def _pair(matrix: ImprovementMatrix, first: str, second: str) -> Markup:
    if first == second:
        return tag("td", "—", class_="self")
    pair = matrix.of(first, second)
    probability = pair.probability
    if not math.isfinite(probability.point):
        return tag("td", text.NOTHING, title="no environment has runs of both")
    decided = probability.known and not probability.low <= 0.5 <= probability.high
    ends = (
        f"[{text.fixed(probability.low, 2)}, {text.fixed(probability.high, 2)}]"
        if probability.known
        else f"[{text.NOTHING}]"
    )
    over = len(pair.coverage.environments)
    return tag(
        "td",
        tag("strong" if decided else "span", text.fixed(probability.point, 2)),
        tag("br"),
        tag("span", ends, class_="ends"),
        class_=_shade(probability.point),
        title=f"over {over} environment{'' if over == 1 else 's'}",
    )


def _matrix(
    label: str,
    corner: str,
    head: Iterable[Iterable[Markup]],
    rows: Iterable[Sequence[Markup]],
    classes: str,
) -> Markup:
    """Returns a table with headings above and at the left."""
    above = [tag("th", corner, scope="col"), *(tag("th", *name, scope="col") for name in head)]
    body = [tag("tr", tag("th", first, scope="row"), *cells) for first, *cells in rows]
    return tag(
        "table",
        tag("thead", tag("tr", *above)),
        tag("tbody", *body),
        class_=classes,
        aria_label=label,
    )


def _shade(value: float | None) -> str | None:
    """Returns the CSS class of a share: from `h0` for 0 and below to `h10` for 1 and above."""
    if value is None or not math.isfinite(value):
        return None
    return f"h{round(SHADES * min(1.0, max(0.0, value)))}"
