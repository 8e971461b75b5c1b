"""Numbers and words as every text format prints them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imitbench.report import text
from imitbench.report.model import AlgorithmResult, CellResult, MeasureSummary, Report, Section
from imitbench.stats.bootstrap import Interval
from imitbench.util import text_line

NOTHING = "n/a"
EMPTY = (
    "No results: there is neither a completed nor a failed run here. `imitbench run` makes some."
)
SCORE_DIGITS = 3
ENDINGS = (
    "Terminated: share of episodes that ended before a time limit cut them off; the expert's is "
    "known where it was run."
)
MESSAGE_LENGTH = 300
"""Characters of an error message that are shown; the database holds all of it."""


def one_line(text: str) -> str:
    """Makes foreign text safe to print: one line, without control or formatting characters."""
    return text_line.one_line(text, None)


def message(text: str) -> str:
    """An error message on one line, not too long."""
    line = one_line(text)
    return line if len(line) <= MESSAGE_LENGTH else line[:MESSAGE_LENGTH] + "…"


def fixed(value: float | None, digits: int) -> str:
    """A number with that many decimals, never as minus zero; `n/a` for `None`."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def score(value: float | None) -> str:
    """A score."""
    return fixed(value, SCORE_DIGITS)


def raw_digits(value: float) -> int:
    """Decimals of a raw return: two, or as many as show three digits of a small one."""
    if not math.isfinite(value) or value == 0 or abs(value) >= 0.1:
        return 2
    return min(12, 2 - math.floor(math.log10(abs(value))))


def raw(value: float | None) -> str:
    """A raw return."""
    return NOTHING if value is None else fixed(value, raw_digits(value))


def raw_spread(cell: CellResult) -> str:
    """Raw return of a cell: mean ± standard deviation over runs."""
    if cell.raw_mean is None:
        return "no completed run"
    if cell.kind == "reference":
        return raw(cell.raw_mean)
    return f"{raw(cell.raw_mean)} ± {fixed(cell.raw_std, raw_digits(cell.raw_mean))}"


def measured_spread(measured: MeasureSummary) -> str:
    """A further measurement: mean ± standard deviation over runs."""
    digits = max(SCORE_DIGITS, raw_digits(measured.mean))
    spread = "" if measured.std is None else f" ± {fixed(measured.std, digits)}"
    return fixed(measured.mean, digits) + spread


def share(value: float | None) -> str:
    """A share of something, in percent."""
    return NOTHING if value is None else f"{fixed(100 * value, 1)}%"


def interval(value: Interval | None, result: AlgorithmResult) -> str:
    """A point estimate with its interval, or why there is none."""
    if value is None:
        return NOTHING
    if result.kind == "reference":
        return f"{score(value.point)} (by definition)"
    ends = f"{score(value.low)}, {score(value.high)}" if value.known else f"{NOTHING} (1 seed)"
    return f"{score(value.point)} [{ends}]"


def seeds(result: AlgorithmResult) -> str:
    """Seeds per environment: `3`, or `2-3` where they differ."""
    if result.kind == "reference":
        return "reference"
    fewest, most = result.seeds
    return str(fewest) if fewest == most else f"{fewest}-{most}"


def all_seeds(section: Section) -> str:
    """Seeds per environment of what was run: `5`, or `4-5, 10` where algorithms differ."""
    counts = {result.seeds: seeds(result) for result in section.algorithms if result.kind == "run"}
    return ", ".join(counts[each] for each in sorted(counts)) or "none"


def conditions(section: Section, report: Report) -> str:
    """How the numbers of a section were made, as a sentence."""
    sentence = f"{protocol(report)}; {reference_versions(section)}."
    return f"{sentence[0].upper()}{sentence[1:]} {report.method.failed_runs.statement}"


def label(result: AlgorithmResult) -> str:
    """An algorithm's name, marked if it learns from what others may not see, or from nothing."""
    name = result.algorithm
    if result.uses_reward:
        marks = "reference, uses reward" if result.role == "reference" else "uses reward"
        name = f"{name} ({marks})"
    return f"{name} (control)" if result.role == "control" else name


def coverage(result: AlgorithmResult) -> str:
    """Environments covered out of those in the section."""
    count = f"{len(result.covered)} of {len(result.cells)}"
    return f"{count} (partial)" if result.partial else count


def protocol(report: Report) -> str:
    """How scores and intervals were made, in one line."""
    method = report.method
    episodes = f"{method.episodes} episodes" if method.episodes else "evaluation episodes"
    return (
        f"{episodes}, stochastic policy; score = (return - random) / (expert - random); "
        f"{method.level:.0%} stratified bootstrap percentile intervals, "
        f"{method.replicates} replicates, seed {method.seed}"
    )


def reference_versions(section: Section) -> str:
    """Versions of the references of a section, in one clause."""
    versions = sorted({row.version for row in section.references})
    if not versions:
        return "references not recorded"
    return f"references version{'s' if len(versions) > 1 else ''} {', '.join(versions)}"


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
