"""Writes the report as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from imitbench.records.runs import FailureRow
from imitbench.report import text
from imitbench.report.measures import MEANINGS
from imitbench.report.model import AlgorithmResult, CellResult, ExtraTable, Report, Section

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARKUP = re.compile(
    r"[\\`*\[\]|~$!#]"  # code, emphasis, links, table cells, strikethrough, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is not
    r"|:(?=//)|(?<=www)\."  # addresses that would become links automatically
)


def render_markdown(report: Report) -> str:
    """Writes the report as Markdown.

    Args:
        report: The report to write.

    Returns:
        Markdown, ending in a newline. Names and messages from runs are escaped: they cannot
        contain markup or HTML.
    """
    blocks = ["# imitbench report"]
    if not report.sections:
        blocks.append(text.EMPTY)
    for section in report.sections:
        blocks += _section(section, report)
    for extra in report.extra:
        blocks += [f"## {escape(extra.title)}", *_extra(extra)]
    if report.failures:
        blocks += ["## Failed runs", _failures(report.failures)]
    return "\n\n".join(blocks) + "\n"


def escape(value: str) -> str:
    """Escapes untrusted text for Markdown, table cells included.

    Args:
        value: Any text.

    Returns:
        One line that renders as that text.
    """
    return _MARKUP.sub(lambda mark: "\\" + mark[0], text.one_line(value).translate(_ENTITIES))


def _section(section: Section, report: Report) -> list[str]:
    caption = escape(text.conditions(section, report))
    blocks = [
        f"## {escape(section.title)}",
        "### All environments",
        _aggregates(section),
        f"Seeds are per environment. {caption}",
        "### By environment",
        _cells(section),
        f"Raw return: mean ± sample standard deviation over seeds. {text.ENDINGS} {caption}",
    ]
    for extra in section.extra:
        blocks += [f"### {escape(extra.title)}", *_extra(extra)]
    if section.measured:
        blocks += ["### Further measurements", _measured(section), _meanings(section)]
    if section.references:
        blocks += ["### References", _references(section)]
    if section.notes:
        blocks += ["### Notes", "\n".join(f"- {escape(note)}" for note in section.notes)]
    return blocks


def _aggregates(section: Section) -> str:
    header = ("Algorithm", "Environments", "Seeds", "Mean score", "IQM score", "Failed runs")
    rows = [
        (
            _label(result, result.kind == "reference"),
            text.coverage(result),
            text.seeds(result),
            text.interval(result.mean, result),
            text.interval(result.iqm, result),
            str(result.failures),
        )
        for result in section.algorithms
    ]
    return table(header, rows, names=1)


def _cells(section: Section) -> str:
    header = (
        "Environment",
        "Algorithm",
        "Seeds",
        "Raw return",
        "Score",
        "Score, deterministic",
        "Episode length",
        "Terminated",
        "Failed runs",
    )
    rows = [
        _cell(result, result.cells[position])
        for position in range(len(section.environments))
        for result in section.algorithms
    ]
    return table(header, rows, names=2)


def _cell(result: AlgorithmResult, cell: CellResult) -> tuple[str, ...]:
    return (
        escape(cell.environment),
        _label(result, cell.kind == "reference"),
        "reference" if cell.kind == "reference" else str(cell.seeds),
        text.raw_spread(cell),
        text.score(cell.score),
        text.score(cell.score_deterministic),
        text.fixed(cell.mean_length, 1),
        text.share(cell.termination_rate),
        str(cell.failures),
    )


def _label(result: AlgorithmResult, is_reference: bool) -> str:
    name = escape(text.label(result))
    return f"{name} (reference)" if is_reference else name


def _extra(extra: ExtraTable) -> list[str]:
    rows = [[escape(entry.shown) for entry in row] for row in extra.rows]
    return [
        table([escape(each) for each in extra.columns], rows, extra.names),
        escape(extra.caption),
    ]


def _measured(section: Section) -> str:
    header = ("Environment", "Algorithm", "Measure", "Runs", "Mean")
    rows = [
        (
            escape(measured.environment),
            escape(measured.algorithm),
            escape(measured.measure),
            str(measured.runs),
            text.measured_spread(measured),
        )
        for measured in section.measured
    ]
    return table(header, rows, names=3)


def _meanings(section: Section) -> str:
    names = sorted({measured.measure for measured in section.measured} & set(MEANINGS))
    sentences = [f"{escape(name)}: {MEANINGS[name]}." for name in names]
    return " ".join(["Mean ± sample standard deviation over runs.", *sentences])


def _references(section: Section) -> str:
    header = ("Environment", "Version", "Random (score 0)", text.score_one_heading(section))
    rows = [
        (escape(row.env), escape(row.version), text.raw(row.random), text.score_one_return(row))
        for row in section.references
    ]
    return table(header, rows, names=2)


def _failures(failures: Sequence[FailureRow]) -> str:
    header = ("Suite", "Environment", "Algorithm", "Seed", "Phase", "Error", "Message", "Run")
    rows = []
    for row in failures:
        message = text.message(row.message)
        values = (row.suite, row.env, row.algo, str(row.seed), row.phase, row.error_type, message)
        rows.append(tuple(escape(value) for value in (*values, row.run_id)))
    return table(header, rows, names=len(header))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """Returns a table whose first `names` columns have text and the others numbers."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])
