"""Formats pairwise verdicts as text for readers and as JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from imitbench.report import text
from imitbench.report.pairwise import PairwiseComparison, PairwiseOptions
from imitbench.stats.bootstrap import Interval
from imitbench.stats.collapses import COLLAPSE_SCORE, CollapseComparison
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.power import SeedEstimate
from imitbench.stats.significance import MeanDifference
from imitbench.stats.verdicts import EnvironmentVerdict, Reason, Verdict
from imitbench.util.text_table import Column, by_word

_REASONS: dict[Reason, str] = {
    "decided": "",
    "no difference seen": "no difference that chance does not explain",
    "too few runs": "too few runs for any difference to show",
    "mean and IQM disagree": "the means differ, and the IQM does not follow",
    "failed runs decide": "the result depends on how failed runs count; choose with --failed-runs",
    "nothing in common": "no environment has runs of both",
}
ENVIRONMENT_COLUMNS = (
    Column("environment"),
    Column("runs", rank=5),
    Column("score", rank=3),
    Column("baseline", rank=3),
    Column("difference"),
    Column("P(better)", rank=2),
    Column("p", rank=1),
    Column("verdict", color=by_word(better="green", worse="red", undecided="yellow")),
    Column("seeds to decide", rank=4),
    Column("raw return", rank=6),
    Column("baseline's", rank=6),
)
ENVIRONMENT_HEADER = tuple(column.name for column in ENVIRONMENT_COLUMNS)


def heading(comparison: PairwiseComparison) -> str:
    """Returns the conditions that all runs of a comparison share, and a flag of their scores."""
    flag = text.score_one_flag(comparison.score_one)
    return text.one_line(comparison.conditions.title) + (f" ({flag})" if flag else "")


def summary(verdict: Verdict) -> list[str]:
    """Returns lines with the overall verdict, its numbers, and what would decide it."""
    names = text.one_line(verdict.first), text.one_line(verdict.second)
    why = _REASONS[verdict.reason]
    lines = [f"{names[0]} against {names[1]}: {verdict.decision}{f' ({why})' if why else ''}"]
    if verdict.coverage.environments:
        count = len(verdict.coverage.environments)
        probability = verdict.improvement.probability
        typical = (
            "" if verdict.decision == "undecided" else f"typical runs are {verdict.decision}: "
        )
        corrected = ", corrected" * (verdict.test.adjusted > verdict.test.p_value)
        lines += [
            f"  over {count} environment{'' if count == 1 else 's'}, {_runs(verdict)} runs of each "
            "on each",
            f"  IQM {_signed(verdict.iqm.point)} {_ends(verdict.iqm)}",
            f"  mean {_signed(verdict.difference.difference)} {_ends(verdict.difference)}",
            f"  {typical}P({names[0]} > {names[1]}) {text.fixed(probability.point, 2)} "
            f"{_ends(probability)}",
            f"  p {_p_value(verdict.test.adjusted)}{corrected} (means "
            f"{_p_value(verdict.test.means)}, typical runs {_p_value(verdict.test.typical)})",
        ]
    if verdict.collapses:
        lines.append(f"  {_collapsed(verdict.collapses, verdict.difference.level)}")
    if verdict.decision == "undecided" and verdict.seeds is not None:
        outlook = _outlook(verdict.seeds)
        lines += [f"  {outlook}"] if outlook else []
    lines += [
        f"  left out: {text.one_line(cell.environment)}, where {text.one_line(cell.algorithm)} has "
        "no runs"
        for cell in verdict.coverage.missing
    ]
    return lines


def environment_rows(comparison: PairwiseComparison, verdict: Verdict) -> list[tuple[str, ...]]:
    """Returns a row with the columns `ENVIRONMENT_HEADER` for each environment of a verdict."""
    return [_environment_row(comparison, verdict, found) for found in verdict.environments]


def _environment_row(
    comparison: PairwiseComparison, verdict: Verdict, found: EnvironmentVerdict
) -> tuple[str, ...]:
    sides = [(name, found.environment) for name in (verdict.first, verdict.second)]
    raw = [text.raw(comparison.raw_means.get(side)) for side in sides]
    counts = [
        _count(runs, comparison.failures.get(side, 0))
        for side, runs in zip(sides, found.runs, strict=True)
    ]
    return (
        text.one_line(found.environment),
        counts[0] if counts[0] == counts[1] else ", ".join(counts),
        *(text.score(mean) for mean in found.means),
        f"{_signed(found.difference.difference)} {_ends(found.difference)}",
        text.fixed(found.improvement, 2),
        _p_value(found.test.adjusted),
        found.decision,
        _more(found.seeds) if found.decision == "undecided" else "",
        *raw,
    )


def _count(runs: int, failed: int) -> str:
    return f"{runs} ({failed} failed)" if failed else str(runs)


def method_text(options: PairwiseOptions, found: Sequence[PairwiseComparison] = ()) -> str:
    """Returns one line on the methods behind the verdicts of these comparisons."""
    formula = text.score_formula(kind for each in found for kind in each.score_one)
    policy = (
        "a verdict must hold whether failed runs count as random or are left out"
        if options.policy is None
        else "failed runs count as random (score 0)"
        if options.policy is FailurePolicy.COUNT_AS_RANDOM
        else "failed runs are left out"
    )
    return (
        f"{formula}, stochastic policy; differences are the "
        f"algorithm's less the baseline's; {options.level:.0%} intervals: IQM and P by stratified "
        f"bootstrap ({options.replicates} replicates, seed {options.seed}), means by Welch; p by "
        "studentized permutation, the larger of means and of ranks, corrected by Holm for "
        f"environments and for baselines; {policy}"
    )


def pairwise_document(found: list[PairwiseComparison], options: PairwiseOptions) -> dict[str, Any]:
    """Returns comparisons as a JSON document; unknown numbers are null."""
    return {
        "method": {
            "level": options.level,
            "replicates": options.replicates,
            "seed": options.seed,
            "failed_runs": options.policy.value if options.policy else "either",
        },
        "contests": [
            {
                **asdict(comparison.conditions),
                "algorithm": comparison.algorithm,
                "score_one": list(comparison.score_one),
                "verdicts": [_verdict(comparison, verdict) for verdict in comparison.verdicts],
            }
            for comparison in found
        ],
    }


def _verdict(comparison: PairwiseComparison, verdict: Verdict) -> dict[str, Any]:
    return {
        "baseline": verdict.second,
        "verdict": verdict.decision,
        "reason": verdict.reason,
        "iqm": asdict(verdict.iqm),
        "mean": asdict(verdict.difference),
        "test": asdict(verdict.test),
        "collapses": asdict(verdict.collapses) if verdict.collapses else None,
        "improvement": asdict(verdict.improvement.probability),
        "seeds": asdict(verdict.seeds) if verdict.seeds else None,
        "missing": [asdict(cell) for cell in verdict.coverage.missing],
        "environments": [
            {
                **asdict(found),
                "raw_means": [
                    comparison.raw_means.get((name, found.environment))
                    for name in (verdict.first, verdict.second)
                ],
                "failures": [
                    comparison.failures.get((name, found.environment), 0)
                    for name in (verdict.first, verdict.second)
                ],
            }
            for found in verdict.environments
        ],
    }


def _collapsed(found: CollapseComparison, level: float) -> str:
    """Returns a sentence on runs that collapse, and on what the runs leave open."""
    sides = (found.first, found.second)
    counts = " and ".join(f"{side.collapsed} of {side.runs}" for side in sides)
    bounds = " and ".join(f"{side.at_most:.1%}" for side in sides)
    return (
        f"collapses (score below {COLLAPSE_SCORE}): {counts} runs, p {_p_value(found.p_value)}; "
        f"not excluded at {level:.0%}: up to {bounds} of all runs"
    )


def _runs(verdict: Verdict) -> str:
    counts = [count for pair in verdict.coverage.runs for count in pair]
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _signed(value: float) -> str:
    shown = text.score(value)
    return shown if shown.startswith("-") or math.isnan(value) else f"+{shown}"


def _ends(interval: Interval | MeanDifference) -> str:
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "[n/a]"
    return f"[{text.score(interval.low)}, {text.score(interval.high)}]"


def _p_value(value: float) -> str:
    if math.isnan(value):
        return text.NOTHING
    return "<0.001" if value < 0.001 else text.fixed(value, 3)


def _outlook(seeds: SeedEstimate) -> str:
    return {
        "estimated": f"about {_more(seeds)} more seeds of each would decide, if means and spread "
        "stay the same",
        "no effect": "no number of seeds can be estimated: the means are equal",
        "too many": f"{_more(seeds)} more seeds would not decide: the difference is tiny",
        "unknown spread": "how many seeds would decide is unknown: the runs show no spread",
        "decided": "",
    }[seeds.outlook]


def _more(seeds: SeedEstimate) -> str:
    if seeds.outlook == "estimated":
        return str(seeds.more)
    return f">{seeds.most}" if seeds.outlook == "too many" else text.NOTHING
