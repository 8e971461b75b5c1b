"""Writes the tables of the board as Markdown, for terminals and papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from imitbench.report import text
from imitbench.report.leaderboard import model
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.markdown import escape, table
from imitbench.report.model import CellResult, Report

_OVERALL = (
    "Rank", "Algorithm", "Submitted by", "IQM score", "Mean score", "Environments", "Seeds",
    "Failed runs",
)  # fmt: skip


def render_markdown(board: Board) -> str:
    """Writes every table of a board over all environments and by environment.

    Args:
        board: The whole leaderboard.

    Returns:
        GitHub-flavoured Markdown, ending in a newline, in which untrusted names are escaped.
    """
    blocks = [f"# {escape(board.title)}"]
    if not board.sections:
        blocks.append(text.EMPTY)
    for part in board.sections:
        blocks += render_section(part, board)
    return "\n\n".join(blocks) + "\n"


def render_section(part: BoardSection, board: Board) -> list[str]:
    """Returns the blocks of one section of a board, its heading first."""
    section = part.section
    conditions = escape(text.conditions(section, Report(board.method, (), ())))
    overall = [_overall(row, part) for row in part.rows]
    names = _names(part.rows)
    single = [
        (name, *(_cell(cell, row) for cell in row.result.cells))
        for name, row in zip(names, part.rows, strict=True)
    ]
    quiet = [
        (name, *(text.score(cell.score_deterministic) for cell in row.result.cells))
        for name, row in zip(names, part.rows, strict=True)
        if row.kind == "run"
    ]
    environments = [escape(env) for env in section.environments]
    return [
        f"## {escape(part.title)}",
        table(_OVERALL, overall, names=3),
        f"Seeds are per environment. {conditions}",
        table(("Algorithm", *environments), single, names=1),
        "Mean return (mean score) of each environment.",
        *_deterministic(quiet, environments),
        *(["\n".join(f"- {escape(note)}" for note in section.notes)] if section.notes else []),
    ]


def _deterministic(rows: list[tuple[str, ...]], environments: list[str]) -> list[str]:
    if not rows:
        return []
    return [
        table(("Algorithm", *environments), rows, names=1),
        "Mean score of the same policies taking their most likely actions.",
    ]


def _overall(row: BoardRow, part: BoardSection) -> tuple[str, ...]:
    result = row.result
    return (
        "" if row.rank is None else str(row.rank),
        _name(row),
        escape(model.submitter_text(row)),
        model.interval(result.iqm, row),
        text.score(None if result.mean is None else result.mean.point),
        f"{len(result.covered)} of {len(part.section.environments)}",
        model.seeds(row),
        str(result.failures),
    )


def _name(row: BoardRow) -> str:
    name = escape(text.marked_name(replace(row.result, algorithm=row.name)))
    if row.isolated is False and not row.result.uses_reward:
        name += " (not isolated)"
    if row.raced:
        name += " (registered race)"
    if not row.checked:
        name += " (checks failed)"
    return name if row.kind in ("run", "missing") else f"{name} ({row.kind})"


def _names(rows: Sequence[BoardRow]) -> list[str]:
    """Returns the names of rows, with the submitter if several rows have the same name."""
    shared = Counter((row.name, row.kind) for row in rows)
    return [
        f"{_name(row)}, {escape(model.submitter_text(row))}"
        if shared[row.name, row.kind] > 1
        else _name(row)
        for row in rows
    ]


def _cell(cell: CellResult, row: BoardRow) -> str:
    if cell.raw_mean is None and cell.score is None:
        return text.NOTHING if row.kind != "missing" else text.raw_spread(cell)
    return f"{text.raw(cell.raw_mean)} ({text.score(cell.score)})"
