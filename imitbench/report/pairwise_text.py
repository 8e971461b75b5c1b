"""Formats pairwise verdicts as text for readers and as JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import compress
from typing import Any

from imitbench.records.selection import Acting
from imitbench.report import text
from imitbench.report.pairwise import PairwiseComparison, PairwiseOptions, said_of
from imitbench.stats.bootstrap import Interval
from imitbench.stats.collapses import COLLAPSE_SCORE, CollapseComparison
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.perturbations import PerturbationEffect
from imitbench.stats.power import SeedEstimate
from imitbench.stats.significance import MeanDifference
from imitbench.stats.verdicts import EnvironmentVerdict, Reason, Verdict
from imitbench.util.text_table import TextColumn, by_word

_REASONS: dict[Reason, str] = {
    "decided": "",
    "no difference seen": "no difference that chance does not explain",
    "too few runs": "too few runs for any difference to show",
    "mean and IQM disagree": "the means differ, and the IQM does not follow",
    "failed runs decide": "the result depends on how failed runs count; choose with --failed-runs",
    "ways of acting differ": "",  # `_why` says what each way says
    "nothing in common": "no environment has runs of both",
}
_LIKELY = "most likely"
ENVIRONMENT_COLUMNS = (
    TextColumn("environment"),
    TextColumn("runs", rank=5),
    TextColumn("score", rank=3),
    TextColumn("baseline", rank=3),
    TextColumn("difference"),
    TextColumn(_LIKELY, rank=1),
    TextColumn("P(better)", rank=2),
    TextColumn("p", rank=1),
    TextColumn("verdict", color=by_word(better="green", worse="red", undecided="yellow")),
    TextColumn("seeds to decide", rank=4),
    TextColumn("raw return", rank=6),
    TextColumn("baseline's", rank=6),
)


_AGAINST = {"better": "better than", "worse": "worse than", "undecided": "undecided:"}


def overview(found: Sequence[PairwiseComparison]) -> list[str]:
    """Returns a line for each set of conditions, with all its verdicts; none for one verdict.

    For example `classic, default: better than bc, gail; undecided: sqil`.
    """
    if sum(len(comparison.verdicts) for comparison in found) < 2:
        return []
    lines = []
    for comparison in found:
        parts = []
        for decision, against in _AGAINST.items():
            names = [v.second for v in comparison.verdicts if v.decision == decision]
            if names:
                parts.append(f"{against} {text.one_line(', '.join(names))}")
        lines.append(f"{text.one_line(comparison.conditions.title)}: {'; '.join(parts)}")
    return [f"{text.one_line(found[0].algorithm)} in typical runs:", *(f"  {x}" for x in lines)]


def heading(comparison: PairwiseComparison) -> list[str]:
    """Returns lines with the conditions that all runs share, and what flags their scores."""
    flag = text.score_one_flag(comparison.score_one)
    lines = [text.one_line(comparison.conditions.title) + (f" ({flag})" if flag else "")]
    if comparison.lacking:
        lines.append(f"{text.ACTIONS['sampled']} only: {text.one_line(comparison.lacking)}")
    return lines


def summary(comparison: PairwiseComparison, verdict: Verdict) -> list[str]:
    """Returns lines with the overall verdict, its numbers, and what would decide it."""
    names = text.one_line(verdict.first), text.one_line(verdict.second)
    ways = comparison.ways(verdict)
    why = _REASONS[verdict.reason]
    left_out = comparison.other_references.get(verdict.second, [])
    if verdict.reason == "nothing in common" and left_out:
        why = "no environment has runs of both with the same references"
    if verdict.reason == "ways of acting differ":
        why = ", ".join(f"{one.decision} with {text.ACTIONS[way]}" for way, one in ways.items())
    lines = [f"{names[0]} against {names[1]}: {verdict.decision}{f' ({why})' if why else ''}"]
    if verdict.coverage.environments:
        count = len(verdict.coverage.environments)
        where = "1 environment" if count == 1 else f"{count} environments"
        lines.append(f"  over {where}, {_runs(verdict, names)}{' on each' if count > 1 else ''}")
    for way, found in ways.items():
        if len(ways) == 1 and way == "sampled":
            lines += [f"  {line}" for line in _numbers(found, names)]
        elif own := _numbers(found, names):
            lines += [f"  with {text.ACTIONS[way]}:", *(f"    {line}" for line in own)]
    lines += [
        f"  left out: {text.one_line(cell.environment)}, where {text.one_line(cell.algorithm)} has "
        "no runs"
        for cell in verdict.coverage.missing
    ]
    lines += [
        f"  left out: {text.one_line(found.environment)}, where the references differ: "
        f"{text.one_line(said_of(found, names))}"
        for found in left_out
    ]
    effects = comparison.perturbations.get(verdict.second, [])
    if effects:
        lines.append("  changes under perturbation, and their difference:")
    return lines + [f"    {_effect(effect, names)}" for effect in effects]


def _effect(found: PerturbationEffect, names: tuple[str, str]) -> str:
    """Returns what a perturbation changes: `ENV+noise: bc -0.200, gail -0.050, ...`."""
    changes = ", ".join(
        f"{name} {_signed(change)}" for name, change in zip(names, found.changes, strict=True)
    )
    return (
        f"{text.one_line(found.perturbed)}: {changes}; {_signed(found.difference)} "
        f"{_ends(found)}, p {_p_value(found.adjusted)}"
    )


def _numbers(verdict: Verdict, names: tuple[str, str]) -> list[str]:
    """Returns the numbers behind the verdict on one way of acting, and what would decide it."""
    lines = []
    if verdict.coverage.environments:
        probability = verdict.improvement.probability
        decision, test = verdict.decision, verdict.test
        typical = "" if decision == "undecided" else f"typical runs are {decision}: "
        corrected = ", corrected" * (test.adjusted > test.p_value)
        lines += [
            f"IQM {_signed(verdict.iqm.point)} {_ends(verdict.iqm)}",
            f"mean {_signed(verdict.difference.difference)} {_ends(verdict.difference)}",
            f"{typical}P({names[0]} > {names[1]}) {text.fixed(probability.point, 2)} "
            f"{_ends(probability)}",
            f"p {_p_value(test.adjusted)}{corrected} (means {_p_value(test.means)}, typical runs "
            f"{_p_value(test.typical)})",
        ]
    if verdict.collapses:
        lines.append(_collapsed(verdict.collapses, verdict.difference.level))
    if verdict.decision == "undecided" and verdict.seeds is not None:
        outlook = _outlook(verdict.seeds, verdict.test.lacking)
        lines += [outlook] if outlook else []
    return lines


def environment_table(
    comparison: PairwiseComparison, verdict: Verdict
) -> tuple[list[TextColumn], list[list[str]]]:
    """Returns columns, and a row for each environment of a verdict.

    Scores, differences and p are those of the first way of acting; with two, one more column has
    the differences of the other.
    """
    ways = list(comparison.ways(verdict).values())
    both = len(ways) > 1
    rows = [
        _environment_row(comparison, verdict, found, [one.environments[index] for one in ways])
        for index, found in enumerate(verdict.environments)
    ]
    shown = [both or column.name != _LIKELY for column in ENVIRONMENT_COLUMNS]
    return list(compress(ENVIRONMENT_COLUMNS, shown)), [list(compress(row, shown)) for row in rows]


def _environment_row(
    comparison: PairwiseComparison,
    verdict: Verdict,
    found: EnvironmentVerdict,
    ways: Sequence[EnvironmentVerdict],
) -> tuple[str, ...]:
    undecided = [one.seeds for one in ways if one.decision == "undecided"]
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
        f"{_signed(ways[-1].difference.difference)} {_ends(ways[-1].difference)}",
        text.fixed(found.improvement, 2),
        _p_value(found.test.adjusted),
        _decision(verdict, found, list(comparison.by_acting), ways),
        _more(undecided[0]) if undecided else "",
        *raw,
    )


def _decision(
    verdict: Verdict,
    found: EnvironmentVerdict,
    names: Sequence[Acting],
    ways: Sequence[EnvironmentVerdict],
) -> str:
    """Returns the decision; with the way of acting in which it holds, if only in one.

    On a single environment it is that of the whole, which is also corrected for baselines.
    """
    if len(verdict.environments) == 1 and found.decision not in (verdict.decision, "undecided"):
        return f"{verdict.decision}: {found.decision} if it were the only comparison"
    if found.reason != "ways of acting differ":
        return found.decision
    held = [
        f"{one.decision} if {name}"
        for name, one in zip(names, ways, strict=True)
        if one.decision != "undecided"
    ]
    return f"{found.decision}: {', '.join(held)}"


def _count(runs: int, failed: int) -> str:
    return f"{runs} ({failed} failed)" if failed else str(runs)


def method_text(options: PairwiseOptions, found: Sequence[PairwiseComparison] = ()) -> str:
    """Returns one line on the methods behind the verdicts of these comparisons."""
    kinds = {kind for comparison in found for kind in comparison.score_one}
    formula, likely = text.score_formula(kinds), f"most likely actions{text.likely_scale(kinds)}"
    policy = (
        "a verdict must hold whether failed runs count as random or are left out"
        if options.policy is None
        else "failed runs count as random (score 0)"
        if options.policy is FailurePolicy.COUNT_AS_RANDOM
        else "failed runs are left out"
    )
    ways = {way for comparison in found for way in comparison.by_acting}
    acting = (
        f"sampled actions, and {likely}: a verdict must hold for both"
        if len(ways) > 1
        else likely
        if ways == {"likely"}
        else "stochastic policy"
    )
    return (
        f"{formula}, {acting}; differences are the "
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
            "acting": options.acting or "both where known",
        },
        "contests": [
            {
                **asdict(comparison.conditions),
                "algorithm": comparison.algorithm,
                "score_one": list(comparison.score_one),
                "acting": list(comparison.by_acting),
                "lacking": comparison.lacking,
                "verdicts": [_verdict(comparison, verdict) for verdict in comparison.verdicts],
            }
            for comparison in found
        ],
    }


def _verdict(comparison: PairwiseComparison, verdict: Verdict) -> dict[str, Any]:
    return {
        "baseline": verdict.second,
        **_numbers_of(verdict),
        "by_acting": {
            way: {
                **_numbers_of(found),
                "environments": [asdict(environment) for environment in found.environments],
            }
            for way, found in comparison.ways(verdict).items()
        },
        "missing": [asdict(cell) for cell in verdict.coverage.missing],
        "other_references": [
            asdict(found) for found in comparison.other_references.get(verdict.second, [])
        ],
        "perturbations": [
            asdict(effect) for effect in comparison.perturbations.get(verdict.second, [])
        ],
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


def _numbers_of(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.decision,
        "reason": verdict.reason,
        "iqm": asdict(verdict.iqm),
        "mean": asdict(verdict.difference),
        "test": asdict(verdict.test),
        "collapses": asdict(verdict.collapses) if verdict.collapses else None,
        "improvement": asdict(verdict.improvement.probability),
        "seeds": asdict(verdict.seeds) if verdict.seeds else None,
    }


def _runs(verdict: Verdict, names: tuple[str, str]) -> str:
    """Returns how many runs each algorithm has: `2 runs of mine and 10 of bc`."""
    counts = []
    for side in verdict.coverage.runs:
        low, high = min(side), max(side)
        counts.append(str(low) if low == high else f"{low} to {high}")
    first = f"{counts[0]} run{'' if counts[0] == '1' else 's'} of"
    if counts[0] == counts[1]:
        return f"{first} each algorithm"
    return f"{first} {names[0]} and {counts[1]} of {names[1]}"


def _signed(value: float) -> str:
    shown = text.score(value)
    return shown if shown.startswith("-") or math.isnan(value) else f"+{shown}"


def _ends(interval: Interval | MeanDifference | PerturbationEffect) -> str:
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "[n/a]"
    return f"[{text.score(interval.low)}, {text.score(interval.high)}]"


def _p_value(value: float) -> str:
    if math.isnan(value):
        return text.NOTHING
    return "<0.001" if value < 0.001 else text.fixed(value, 3)


def _outlook(seeds: SeedEstimate, lacking: int) -> str:
    """Returns what would decide, as far as it is known; `lacking` runs are needed in any case."""
    if lacking and seeds.outlook in ("no effect", "unknown spread"):
        are = "seed of each is" if lacking == 1 else "seeds of each are"
        return f"at least {lacking} more {are} needed before any difference could show"
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
