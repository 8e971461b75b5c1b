"""The short table at the end of `imitbench run`."""

from __future__ import annotations

from collections.abc import Sequence

from imitbench.report import text
from imitbench.report.model import Report, Section

HEADER = (
    "algorithm",
    "environments",
    "seeds",
    "mean score",
    "IQM",
    "length",
    "terminated",
    "failed",
)


def render_short(report: Report) -> str:
    """Writes the aggregates as plain text with aligned columns and no colour.

    Args:
        report: What to say.

    Returns:
        Text, ending in a newline. Control characters in names are dropped, so that they cannot
        steer the terminal.
    """
    if not report.sections:
        return text.EMPTY + "\n"
    blocks = [_section(section) for section in report.sections]
    return "\n\n".join([*blocks, text.protocol(report)]) + "\n"


def _section(section: Section) -> str:
    rows = [
        (
            text.one_line(text.label(result)),
            text.coverage(result),
            text.seeds(result),
            text.score(result.mean.point if result.mean else None),
            text.interval(result.iqm, result),
            text.fixed(result.mean_length, 1),
            text.share(result.termination_rate),
            str(result.failures),
        )
        for result in section.algorithms
    ]
    heading = f"{text.one_line(section.title)} ({text.one_line(text.reference_versions(section))})"
    notes = [f"- {text.one_line(note)}" for note in section.notes]
    return "\n".join([heading, *_aligned([HEADER, *rows]), *notes])


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Pads every column to its widest entry: names to the left, numbers to the right."""
    widths = [max(len(entry) for entry in column) for column in zip(*rows, strict=True)]
    lines = []
    for name, *numbers in rows:
        padded = (entry.rjust(width) for entry, width in zip(numbers, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *padded]))
    return lines
