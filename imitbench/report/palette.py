"""Colors of algorithms, the same in every figure of a report."""

from __future__ import annotations

from imitbench.report.model import Report

PALETTE = (
    "#0072b2",
    "#d55e00",
    "#00875f",
    "#b1478a",
    "#a67c00",
    "#5b4bb7",
    "#2b8a9d",
    "#8c4a2f",
    "#4d7c0f",
    "#be123c",
)
"""After Okabe and Ito, whose colors most people tell apart; `report.css` has them, too."""


def color_numbers(report: Report) -> dict[str, int]:
    """A place in the palette for each method; controls and anchors have none.

    Algorithms beyond the palette share colors.
    """
    names = {
        result.algorithm
        for section in report.sections
        for result in section.algorithms
        if result.role == "method"
    }
    return {name: place % len(PALETTE) for place, name in enumerate(sorted(names))}
