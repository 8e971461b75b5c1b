"""Writes the report as LaTeX tables in the style of the booktabs package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from imitbench.report import text
from imitbench.report.measures import MEANINGS
from imitbench.report.model import AlgorithmResult, CellResult, ExtraTable, Report, Section

PREAMBLE = r"""% Tables of imitbench, to be put in by \input. They need in the preamble:
%   \usepackage[T1]{fontenc}
%   \usepackage{booktabs,longtable}
% and LuaLaTeX or XeLaTeX where names have letters beyond those of the font."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"{`}",
    "±": r"$\pm$",
    "τ": r"$\tau$",
    "…": r"\ldots{}",
}
# Also doubled characters, which form ligatures, and a leading `[` or `*`, which the end of the
# previous row would read as an argument.
_SPECIALS = re.compile(rf"[{re.escape(''.join(_SPECIAL))}]|(?<=([-,']))\1|^[\[*]")
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


def render_latex(report: Report) -> str:
    r"""Writes the report as LaTeX.

    Args:
        report: The report to write.

    Returns:
        Content of a file for `\input`, ending in a newline. A comment names the required
        packages. Names and messages from runs are escaped: they cannot contain commands.
    """
    blocks = [PREAMBLE]
    if not report.sections:
        blocks.append(escape(text.EMPTY))
    for number, section in enumerate(report.sections, start=1):
        blocks += [_aggregates(section, report, number), _cells(section, report, number)]
        blocks += [
            _extra(table, f"extra-{number}-{place}", f"{section.title}. ")
            for place, table in enumerate(section.extra, start=1)
        ]
        if section.measured:
            blocks.append(_measured(section, number))
        if section.references:
            blocks.append(_references(section, number))
        if section.notes:
            items = "\n".join(rf"  \item {escape(note)}" for note in section.notes)
            blocks.append(f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
    blocks += [_extra(table, f"extra-{place}") for place, table in enumerate(report.extra, start=1)]
    if report.failures:
        blocks.append(_failures(report))
    return "\n\n".join(blocks) + "\n"


def escape(value: str) -> str:
    """Escapes untrusted text for LaTeX.

    Args:
        value: Any text.

    Returns:
        One line, valid in text, cells and captions.
    """
    return _SPECIALS.sub(lambda mark: _SPECIAL.get(mark[0], f"{{{mark[0]}}}"), text.one_line(value))


def number(value: str) -> str:
    """Returns a printed number with minus signs instead of hyphens."""
    parts = _NEGATIVE.split(value)
    return r"$-$".join(escape(part) for part in parts)


def _aggregates(section: Section, report: Report, place: int) -> str:
    header = ("Algorithm", "Environments", "Seeds", "Mean score", "IQM score", "Failed")
    rows = [
        (
            _label(result, result.kind == "reference"),
            number(text.coverage(result)),
            number(text.seeds(result)),
            number(text.interval(result.mean, result)),
            number(text.interval(result.iqm, result)),
            str(result.failures),
        )
        for result in section.algorithms
    ]
    caption = f"{section.title}. All environments; seeds are per environment. "
    return _float(header, rows, 1, caption + text.conditions(section, report), f"aggregate-{place}")


def _label(result: AlgorithmResult, is_reference: bool) -> str:
    name = escape(text.label(result))
    return f"{name} (reference)" if is_reference else name


def _cells(section: Section, report: Report, place: int) -> str:
    header = (
        "Environment",
        "Algorithm",
        "Seeds",
        "Raw return",
        "Score",
        "Score, det.",
        "Length",
        "Terminated",
        "Failed",
    )
    groups = [
        [
            _cell(result, result.cells[position], first=not rank)
            for rank, result in enumerate(section.algorithms)
        ]
        for position in range(len(section.environments))
    ]
    caption = (
        f"{section.title}. By environment; raw return: mean ± sample standard deviation over "
        f"seeds; det.: deterministic policy. {text.ENDINGS} "
    )
    return _long(header, groups, 2, caption + text.conditions(section, report), f"cells-{place}")


def _cell(result: AlgorithmResult, cell: CellResult, *, first: bool) -> tuple[str, ...]:
    is_reference = cell.kind == "reference"
    return (
        escape(cell.environment) if first else "",
        _label(result, is_reference),
        "reference" if is_reference else str(cell.seeds),
        number(text.raw_spread(cell)),
        number(text.score(cell.score)),
        number(text.score(cell.score_deterministic)),
        number(text.fixed(cell.mean_length, 1)),
        number(text.share(cell.termination_rate)),
        str(cell.failures),
    )


def _measured(section: Section, place: int) -> str:
    header = ("Environment", "Algorithm", "Measure", "Runs", "Mean")
    rows = [
        (
            escape(row.environment),
            escape(row.algorithm),
            escape(row.measure),
            str(row.runs),
            number(text.measured_spread(row)),
        )
        for row in section.measured
    ]
    names = sorted({row.measure for row in section.measured} & set(MEANINGS))
    said = [f"{name}: {MEANINGS[name]}." for name in names]
    caption = " ".join([f"{section.title}. Mean ± sample standard deviation over runs.", *said])
    return _long(header, [rows], 3, caption, f"measures-{place}")


def _references(section: Section, place: int) -> str:
    header = ("Environment", "Version", "Random (score 0)", text.score_one_heading(section))
    rows = [
        (
            escape(row.env),
            escape(row.version),
            number(text.raw(row.random)),
            number(text.score_one_return(row)),
        )
        for row in section.references
    ]
    caption = f"{section.title}. References: mean raw returns that are scores 0 and 1."
    return _float(header, rows, 2, caption, f"references-{place}")


def _extra(table: ExtraTable, label: str, title: str = "") -> str:
    header = [escape(each) for each in table.columns]
    caption = f"{title}{table.title}. {table.caption}"
    return _long(header, [extra_rows(table)], table.names, caption, label)


def extra_rows(table: ExtraTable) -> list[list[str]]:
    """Returns the cells of a table, escaped; numbers in mathematical mode."""
    return [
        [
            escape(entry.shown) if place < table.names else number(entry.shown)
            for place, entry in enumerate(row)
        ]
        for row in table.rows
    ]


def _failures(report: Report) -> str:
    header = ("Suite", "Environment", "Algorithm", "Seed", "Phase", "Error", "Message", "Run")
    rows = [
        tuple(
            escape(value)
            for value in (
                row.suite,
                row.env,
                row.algo,
                str(row.seed),
                row.phase,
                row.error_type,
                text.message(row.message),
                row.run_id,
            )
        )
        for row in report.failures
    ]
    layout = r"llllllp{0.3\linewidth}l"
    return _long(
        header, [rows], 8, f"Failed runs. {report.method.failed_runs.statement}", "failures", layout
    )


def _float(
    header: Sequence[str], rows: Iterable[Sequence[str]], names: int, caption: str, label: str
) -> str:
    """Returns a floating table; its first `names` columns have text, the others numbers."""
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(caption)}}}",
        rf"  \label{{tab:imitbench-{label}}}",
        rf"  \begin{{tabular}}{{{column_layout(header, names)}}}",
        r"    \toprule",
        f"    {table_row(header)}",
        r"    \midrule",
        *(f"    {table_row(row)}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _long(
    header: Sequence[str],
    groups: Sequence[Sequence[Sequence[str]]],
    names: int,
    caption: str,
    label: str,
    layout: str = "",
) -> str:
    """Returns a table that may span pages, with a line between groups of rows."""
    body: list[str] = []
    for place, group in enumerate(groups):
        body += [r"  \midrule"] if place else []
        body += [f"  {table_row(row)}" for row in group]
    lines = [
        r"\begingroup",
        r"\setlength{\LTcapwidth}{\linewidth}",
        rf"\begin{{longtable}}{{{layout or column_layout(header, names)}}}",
        rf"  \caption{{{escape(caption)}}}\label{{tab:imitbench-{label}}}\\",
        r"  \toprule",
        f"  {table_row(header)}",
        r"  \midrule",
        r"  \endhead",
        r"  \bottomrule",
        r"  \endfoot",
        *body,
        r"\end{longtable}",
        r"\endgroup",
    ]
    return "\n".join(lines)


def column_layout(header: Sequence[str], names: int) -> str:
    """Returns the columns of a table: the first `names` have text, the others numbers."""
    return "l" * names + "r" * (len(header) - names)


def table_row(cells: Sequence[str]) -> str:
    """Returns a row of cells that are LaTeX already."""
    return " & ".join(cells) + r" \\"
