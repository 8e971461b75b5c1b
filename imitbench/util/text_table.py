"""Lays out tables and paragraphs as text for a terminal of a given width.

A table that is too wide is changed in this order, until it fits:

1. Columns of long texts (`below`) move below their rows, indented.
2. Columns whose values repeat (`above`) move above their rows, one line for equal values: first
   those of a `rank` above 0, and the others if the columns of rank 0 have no room otherwise.
3. Columns of a `rank` above 0 are left out, except those for which, in the order of their ranks,
   there is room; a line below the table names the columns that are left out.
4. Each row becomes a block with one line per column; all columns are shown.

No cell is ever broken or shortened. Only the texts of 1, 2 and 4, which have lines to themselves,
continue on the next line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from imitbench.util.text_line import printable

GAP = "  "
INDENT = "  "
_LEAST_TEXT = 10

Color = Callable[[object], str | None]


@dataclass(frozen=True)
class TextColumn:
    """A column of a table.

    Attributes:
        name: Heading.
        rank: How dispensable the column is; columns of rank 0 are never left out. Of equal ranks,
            the left one stays.
        below: Whether the column has long texts, which move below their rows if there is no room.
        above: Whether neighbouring rows have equal values, which move above them if there is no
            room.
        right: Whether cells are right-aligned; `None` if they are when all of them are numbers.
        color: Returns the color of a value, such as `red` or `bold green`; `None` for none.
    """

    name: str
    rank: int = 0
    below: bool = False
    above: bool = False
    right: bool | None = None
    color: Color | None = None


def by_word(**colors: str) -> Color:
    """Returns colors by the first word of a cell, e.g. `better="green"`."""
    return lambda value: colors.get(str(value).partition(" ")[0].rstrip(":,"))


def nonzero(color: str) -> Color:
    """Returns a color for all values but zero, as a number or as text."""
    return lambda value: None if str(value) in ("", "0", "None") else color


def format_table(
    columns: Sequence[str | TextColumn],
    rows: Iterable[Sequence[object]],
    *,
    width: int | None = None,
    color: bool = False,
) -> str:
    """Lays out a table.

    Args:
        columns: Headings or columns.
        rows: Values of each row, one per column. Floats have six significant digits, `None` is
            empty, and control characters become spaces.
        width: Largest number of columns of the terminal that a line may have; `None` for any.
        color: Whether there are ANSI escape sequences for color.

    Returns:
        Lines, each ending in a newline.
    """
    table = _Table([_column(column) for column in columns], rows, color)
    everything = _Layout(tuple(range(len(table.columns))))
    if width is None or table.needs(everything.inline) <= width:
        lines = table.lines(everything)
    else:
        layout = table.fitted(width)
        lines = table.blocks(width) if layout is None else table.lines(layout, width)
    return "".join(f"{line}\n" for line in lines)


def format_text(text: str, *, width: int | None = None, indent: int = 0) -> str:
    """Breaks each line of a text at spaces, where it is wider than the terminal.

    Args:
        text: The text; control characters in it become spaces.
        width: Largest number of columns of a line; `None` for any.
        indent: Characters at the start of each line, such as a bullet, that stand alone: what
            follows them continues below itself.

    Returns:
        The text, without a newline at its end.
    """
    lines = []
    for line in printable(text).split("\n"):
        if width is None or _width(line) <= width:
            lines.append(line)
            continue
        body = line[indent:].lstrip(" ")
        head = line[: len(line) - len(body)]
        first, *others = _filled(body, max(_LEAST_TEXT, width - _width(head)))
        space = " " * _width(head)
        lines += [head + first, *(space + other for other in others)]
    return "\n".join(lines)


def painted(text: str, color: str | None) -> str:
    """Returns text with the ANSI escape sequences of a color, such as `red`; `None` for none."""
    if not color or not text.strip():
        return text
    from rich.style import Style

    return Style.parse(color).render(text)


def _filled(text: str, width: int) -> list[str]:
    """Returns lines of as many words as fit; a word that is wider than a line is broken."""
    lines = [""]
    for whole in text.split():
        word = whole
        if lines[-1] and _width(lines[-1]) + 1 + _width(word) <= width:
            lines[-1] += f" {word}"
            continue
        while _width(word) > width:
            start = _fitting(word, width)
            lines.append(word[:start])
            word = word[start:]
        lines.append(word)
    return [line for line in lines if line] or [""]


def _fitting(word: str, width: int) -> int:
    """Returns how many characters of a word fit, at least one."""
    count = 1
    while count < len(word) and _width(word[: count + 1]) <= width:
        count += 1
    return count


def _column(column: str | TextColumn) -> TextColumn:
    found = column if isinstance(column, TextColumn) else TextColumn(column)
    return found if found.name.isprintable() else replace(found, name=_cell(found.name))


@dataclass(frozen=True)
class _Layout:
    """Indices of the columns that are shown in rows, below them, above them, and not at all."""

    inline: tuple[int, ...]
    below: tuple[int, ...] = ()
    above: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()


class _Table:
    """A table with its texts, their widths and their alignment."""

    def __init__(
        self, columns: list[TextColumn], rows: Iterable[Sequence[object]], color: bool
    ) -> None:
        self.columns = columns
        self.values = [list(row) for row in rows]
        self.texts = [[_cell(value) for value in row] for row in self.values]
        self.color = color
        self.widths = [
            max([_width(column.name), *(_width(row[index]) for row in self.texts)])
            for index, column in enumerate(columns)
        ]
        self.right = [
            bool(self.values) and all(_is_number(row[index]) for row in self.values)
            if column.right is None
            else column.right
            for index, column in enumerate(columns)
        ]

    def needs(self, shown: Sequence[int]) -> int:
        """Returns the width of a table with some of the columns."""
        return sum(self.widths[index] for index in shown) + len(GAP) * (len(shown) - 1)

    def fitted(self, width: int) -> _Layout | None:
        """Returns a layout of rows that fits; `None` if there is none."""
        indices = range(len(self.columns))
        below = tuple(index for index in indices if self.columns[index].below)
        inline = [index for index in indices if index not in below]
        above: tuple[int, ...] = ()
        for least, needed in ((1, inline), (0, [p for p in inline if not self.columns[p].rank])):
            if self.needs(needed) > width:
                moved = [
                    p for p in inline if self.columns[p].above and self.columns[p].rank >= least
                ]
                above = tuple(sorted({*above, *moved}))
                inline = [index for index in inline if index not in moved]
        by_rank = sorted(inline, key=lambda index: (self.columns[index].rank, index))
        shown: list[int] = []
        for index in by_rank:
            if not self.columns[index].rank or self.needs([*shown, index]) <= width:
                shown.append(index)
        if not shown or self.needs(shown) > width:
            return None
        left_out = tuple(index for index in inline if index not in shown)
        return _Layout(tuple(sorted(shown)), below, above, left_out)

    def painted(self, text: str, color: str | None) -> str:
        """Returns text in a color, if this table has colors."""
        return painted(text, color) if self.color else text

    def lines(self, layout: _Layout, width: int | None = None) -> list[str]:
        """Returns heading, rule, rows, and the names of the columns that are left out."""
        inline = layout.inline
        names = [column.name for column in self.columns]
        rule = GAP.join(self.painted("-" * self.widths[index], "dim") for index in inline)
        lines = [self._line(inline, names, ["bold"] * len(inline))]
        if len(layout.below) == 1:  # several have their names at each text
            lines += self._text(INDENT + names[layout.below[0]], width, "bold")
        lines.append(rule)
        group = None
        for values, texts in zip(self.values, self.texts, strict=True):
            if layout.above and group != (group := [texts[index] for index in layout.above]):
                told = [f"{names[index]}: {texts[index]}" for index in layout.above]
                lines += self._text(", ".join(told), width, "bold")
            lines.append(self._line(inline, texts, [self._color(at, values) for at in inline]))
            for index in layout.below:
                if texts[index]:
                    name = f"{names[index]}: " if len(layout.below) > 1 else ""
                    told_below = f"{INDENT}{name}{texts[index]}"
                    lines += self._text(told_below, width, self._color(index, values))
        if layout.left_out:
            missing = "; ".join(names[index] for index in layout.left_out)
            lines += self._text(f"not shown in {width} columns: {missing}", width, "dim")
        return lines

    def _text(self, text: str, width: int | None, color: str | None) -> list[str]:
        indent = len(text) - len(text.lstrip(" "))
        lines = format_text(text, width=width, indent=indent).split("\n")
        return [self.painted(line, color) for line in lines]

    def blocks(self, width: int) -> list[str]:
        """Returns one block per row, with one line per column and an empty line in between."""
        names = [column.name for column in self.columns]
        margin = max(_width(name) for name in names)
        lines: list[str] = []
        for values, texts in zip(self.values, self.texts, strict=True):
            lines += [""] if lines else []
            for index, name in enumerate(names):
                if len(GAP) + margin > width // 2:
                    lines += self._text(name, width, "bold")
                    lines += self._text(INDENT + texts[index], width, self._color(index, values))
                    continue
                head = name + " " * (margin - _width(name)) + GAP
                shown = format_text(head + texts[index], width=width, indent=len(head))
                color = self._color(index, values)
                start = self.painted(name, "bold") + head[len(name) :]
                first, *others = shown.split("\n")
                lines.append((start + self.painted(first[len(head) :], color)).rstrip())
                lines += [self.painted(other, color) for other in others]
        return lines or [line for name in names for line in self._text(name, width, "bold")]

    def _color(self, index: int, values: Sequence[object]) -> str | None:
        paint = self.columns[index].color
        return paint(values[index]) if paint else None

    def _line(
        self, shown: Sequence[int], texts: Sequence[str], colors: Sequence[str | None]
    ) -> str:
        cells = []
        for index, color in zip(shown, colors, strict=True):
            text = texts[index]
            space = " " * (self.widths[index] - _width(text))
            paint = self.painted(text, color)
            cells.append(space + paint if self.right[index] else paint + space)
        return GAP.join(cells).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else printable(text).replace("\n", " ")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _width(text: str) -> int:
    """Returns the columns that a text takes: two for each wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
