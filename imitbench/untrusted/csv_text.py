"""Parses CSV tables with bounds on columns and rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from imitbench.errors import InputError
from imitbench.untrusted.files import open_ordinary
from imitbench.untrusted.limits import beyond, limits
from imitbench.untrusted.messages import error_line

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_LONGEST_HEADER = 2**22


def csv_rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields rows with the number of their first line.

    Args:
        text: Table separated by commas.
        path: Its file, for messages.

    Raises:
        InputError: It is not a table, or has more columns or rows than the limits.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    bounds = limits()
    line = 1
    try:
        for number, cells in enumerate(reader):
            _check_columns(len(cells), path, line)
            if number > bounds.table_rows:
                raise InputError(f"{path}: {beyond('table_rows', 'has more rows')}")
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        why = error_line(str(error), 160)
        raise InputError(f"{path}, line {line}: is not a CSV table ({why})") from error


def check_header(path: Path) -> None:
    """Checks the number of columns in the first line, before a library reads the whole table.

    Raises:
        OSError: The file cannot be read.
        InputError: There are too many.
    """
    with open_ordinary(path) as stream:
        first = stream.readline(_LONGEST_HEADER)
    if len(first) == _LONGEST_HEADER:
        raise InputError(f"{path}, line 1: has more than {_LONGEST_HEADER:,} characters")
    _check_columns(first.count(b",") + 1, path, 1)


def spreadsheet_text(text: str) -> str:
    """Returns a text that spreadsheets show, and do not compute as a formula.

    Args:
        text: Text of a cell, perhaps a name that someone else chose. Numbers stay as they are;
            other text that starts like a formula gets an apostrophe in front.
    """
    if not text.startswith(_FORMULAS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text if text.isprintable() else f"'{text}"


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, str | float | None]]) -> str:
    """Writes a table with a header and single newlines as line ends.

    Args:
        columns: Names of the columns.
        rows: Cells by column; missing ones and `None` are empty. Texts are written as of
            `spreadsheet_text`, and floats with ten significant digits. A return in a cell is put in
            quotes, which Python's writer leaves out: the rest of the cell would begin a line.
    """
    sink = io.StringIO()
    lines = []
    writer = csv.DictWriter(sink, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    for row in (None, *rows):
        if row is not None:
            writer.writerow({name: _cell_text(value) for name, value in row.items()})
        lines.append(sink.getvalue().removesuffix("\r\n") + "\n")
        sink.seek(0)
        sink.truncate()
    return "".join(lines)


def _cell_text(value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return spreadsheet_text(value)
    return format(value, ".10g") if isinstance(value, float) else str(value)


def _check_columns(count: int, path: Path, line: int) -> None:
    if count > limits().table_columns:
        raise InputError(f"{path}, line {line}: {beyond('table_columns', f'{count:,} columns')}")
