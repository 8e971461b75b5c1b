"""Writes the report as LaTeX tables in the style of the booktabs package."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from imitbench.report import text
from imitbench.report.model import Report, Table
from imitbench.report.report_tables import report_tables, section_tables

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
    r"""Writes the report as a file for `\input`; a comment in it names the required packages.

    Names and messages from runs are escaped: they cannot contain commands.
    """
    blocks = [PREAMBLE]
    if not report.sections:
        blocks.append(escape(text.EMPTY))
    for number, section in enumerate(report.sections, start=1):
        tables = section_tables(section, report)
        labels = _labels(tables, f"-{number}")
        blocks += [
            _table(table, label, f"{section.title}. ")
            for table, label in zip(tables, labels, strict=True)
        ]
        if section.notes:
            items = "\n".join(rf"  \item {escape(note)}" for note in section.notes)
            blocks.append(f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
    tables = report_tables(report)
    blocks += [_table(table, label) for table, label in zip(tables, _labels(tables), strict=True)]
    return "\n\n".join(blocks) + "\n"


def escape(value: str) -> str:
    """Returns an untrusted text as one line for LaTeX's text, cells and captions."""
    return _SPECIALS.sub(lambda mark: _SPECIAL.get(mark[0], f"{{{mark[0]}}}"), text.one_line(value))


def number(value: str) -> str:
    """Returns a printed number with minus signs instead of hyphens."""
    parts = _NEGATIVE.split(value)
    return r"$-$".join(escape(part) for part in parts)


def _labels(tables: Sequence[Table], section: str = "") -> Iterator[str]:
    """Yields the label of each table: its own, or the number among those without one."""
    numbers = itertools.count(1)
    for table in tables:
        yield f"{table.label}{section}" if table.label else f"extra{section}-{next(numbers)}"


def _table(table: Table, label: str, title: str = "") -> str:
    caption = table.print_caption
    if caption is None:
        caption = f"{table.title}. {table.caption}"
    if table.floating:
        return floating(f"{title}{caption}", label, tabular(table, indent="  "))
    return _long(table, f"{title}{caption}", label)


def _heading(table: Table) -> str:
    return table_row([escape(column.short or column.heading) for column in table.columns])


def _rows(table: Table) -> Iterator[str]:
    """Yields the rows; numbers are in mathematical mode, and a line is between groups."""
    group = None
    for row in table.rows:
        cells = [
            number(cell.shown) if column.right else escape(cell.shown)
            for column, cell in zip(table.columns, row, strict=True)
        ]
        if table.grouped:
            if group == row[0].shown:
                cells[0] = ""
            elif group is not None:
                yield r"\midrule"
            group = row[0].shown
        yield table_row(cells)


def tabular(table: Table, *, indent: str = "") -> list[str]:
    """Returns the lines of a table without its caption."""
    return [
        rf"\begin{{tabular}}{{{_layout(table)}}}",
        rf"{indent}\toprule",
        f"{indent}{_heading(table)}",
        rf"{indent}\midrule",
        *(f"{indent}{row}" for row in _rows(table)),
        rf"{indent}\bottomrule",
        r"\end{tabular}",
    ]


def floating(caption: str, label: str, lines: Iterable[str]) -> str:
    """Returns a floating table with these lines."""
    parts = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(caption)}}}",
        rf"  \label{{tab:imitbench-{label}}}",
        *(f"  {line}" for line in lines),
        r"\end{table}",
    ]
    return "\n".join(parts)


def _long(table: Table, caption: str, label: str) -> str:
    """Returns a table that may span pages."""
    lines = [
        r"\begingroup",
        r"\setlength{\LTcapwidth}{\linewidth}",
        rf"\begin{{longtable}}{{{_layout(table)}}}",
        rf"  \caption{{{escape(caption)}}}\label{{tab:imitbench-{label}}}\\",
        r"  \toprule",
        f"  {_heading(table)}",
        r"  \midrule",
        r"  \endhead",
        r"  \bottomrule",
        r"  \endfoot",
        *(f"  {row}" for row in _rows(table)),
        r"\end{longtable}",
        r"\endgroup",
    ]
    return "\n".join(lines)


def _layout(table: Table) -> str:
    return "".join(
        r"p{0.3\linewidth}" if column.below else "r" if column.right else "l"
        for column in table.columns
    )


def table_row(cells: Sequence[str]) -> str:
    """Returns a row of cells that are LaTeX already."""
    return " & ".join(cells) + r" \\"
