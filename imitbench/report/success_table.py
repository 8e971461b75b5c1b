"""The table of shares of successful episodes, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from imitbench.report import text
from imitbench.report.model import AlgorithmResult, Cell, Column, Table
from imitbench.stats.proportions import wilson_interval


def success_table(results: Sequence[AlgorithmResult], episodes: int | None) -> Table:
    """Returns the shares of successful episodes by environment and algorithm.

    Args:
        results: Algorithms of a section.
        episodes: Evaluation episodes of each run; `None` if runs differ in it.

    Returns:
        A table without rows where success is not measured.
    """
    measured = [
        (result, cell, cell.success)
        for result in results
        for cell in result.cells
        if cell.success is not None
    ]
    return Table(
        title="Success",
        columns=(
            Column("Environment", "name", rank=1, above=True),
            Column("Algorithm", "name"),
            Column("Runs", rank=1),
            Column("Episodes", rank=2),
            Column("Success", "interval"),
            Column("Worst run", rank=3),
            Column("Best run", rank=4),
        ),
        rows=tuple(
            (
                Cell(cell.environment),
                Cell(text.marked_name(result)),
                Cell.count(len(rates)),
                Cell(text.NOTHING) if episodes is None else Cell.count(episodes * len(rates)),
                _success_cell(rates, episodes),
                Cell(text.share(min(rates)), min(rates)),
                Cell(text.share(max(rates)), max(rates)),
            )
            for result, cell, rates in sorted(measured, key=lambda row: row[1].environment)
        ),
        names=2,
        caption=(
            "Share of episodes that succeed, with the stochastic policy. The interval (Wilson's, "
            "95%) is of these policies over all their episodes; runs with other seeds differ "
            "more, as the worst and the best do."
        ),
        grouped=True,
    )


def _success_cell(rates: Sequence[float], episodes: int | None) -> Cell:
    rate = sum(rates) / len(rates)
    if episodes is None:
        return Cell(text.share(rate), rate)
    count = episodes * len(rates)
    ends = wilson_interval(round(rate * count), count)
    return Cell(f"{text.share(rate)} [{text.share(ends.low)}, {text.share(ends.high)}]", rate)
