"""Writes notes on facts that the tables of a section do not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from imitbench.records.runs import ReferenceRow, ScoreRow
from imitbench.report import text
from imitbench.report.model import ANCHORS, DEMONSTRATIONS, AlgorithmResult, CellResult
from imitbench.report.survival import survival_notes
from imitbench.stats.normalization import normalize
from imitbench.stats.significance import mean_interval

ENOUGH_SEEDS = 10
"""Number of seeds from which percentile intervals have nearly their nominal coverage."""

GIVEN_AWAY = 0.1
"""A note mentions the score of a control if it exceeds this with confidence.

Score 0 is itself a mean over episodes of random actions. In every bundled suite, a tenth of the way
to the expert is more than two standard errors of that mean, so that a higher score is not an error
of the reference.
"""
CONFIDENCE = 0.95

LITTLE = 0.25
"""A note says of a method with a lower IQM that the budget `quick` may be too short for it."""


def section_notes(
    results: Sequence[AlgorithmResult],
    rows: Sequence[ScoreRow],
    references: Sequence[ReferenceRow],
) -> tuple[str, ...]:
    """Returns the notes of a section: whole sentences in plain text.

    Args:
        results: Algorithms in the order of the section.
        rows: Completed runs of the section.
        references: References of the section's environments.
    """
    notes = [
        f"{result.algorithm} learns from the environment's own reward, which the other methods do "
        "not see."
        for result in results
        if result.uses_reward
    ]
    asking = {row.algo for row in rows if row.n_demos is None and row.source is not None}
    notes += [
        f"{result.algorithm} queries the expert during training, and uses no demonstrations."
        for result in results
        if result.algorithm in asking and result.algorithm not in ANCHORS
    ]
    for result in results:
        notes += _coverage_notes(result)
    for result in results:
        notes += _run_notes(result)
    notes += survival_notes(rows)
    for result in results:
        notes += _control_notes(result, rows) if result.role == "control" else ()
    notes += _budget_notes(results, rows)
    notes += _scale_notes(references)
    notes += _reference_notes(rows, references)
    known = [result for result in results if result.iqm is not None and result.iqm.known]
    if any(result.seeds[0] < ENOUGH_SEEDS for result in known):
        notes.append(
            f"Intervals from fewer than {ENOUGH_SEEDS} seeds per environment tend to be too narrow."
        )
    return tuple(notes)


def _budget_notes(results: Sequence[AlgorithmResult], rows: Sequence[ScoreRow]) -> Iterator[str]:
    """Yields a note on methods that have learned little in a budget that is for trying out."""
    if not rows or rows[0].budget != "quick":
        return
    little = [
        result.algorithm
        for result in results
        if result.kind == "run"
        and result.role == "method"
        and result.iqm is not None
        and result.iqm.point < LITTLE
    ]
    if little:
        yield (
            f"Scores of {', '.join(little)} are low: the budget quick is for trying out, and may "
            "end before a method has learned. Compare with budget default."
        )


def _coverage_notes(result: AlgorithmResult) -> Iterator[str]:
    """Yields notes on environments that an aggregate excludes, with the reason."""
    absent = [cell for cell in result.cells if cell not in result.covered]
    if result.algorithm in ANCHORS and result.kind == "run":
        references = [cell.environment for cell in absent if cell.kind == "reference"]
        absent = [cell for cell in absent if cell.kind == "missing"]
        if references:
            yield (
                f"{result.algorithm} was not run on {', '.join(references)}: the reference is "
                "shown there and is not part of the aggregate."
            )
    if absent:
        yield _missing_note(result, absent)


def _missing_note(result: AlgorithmResult, absent: Sequence[CellResult]) -> str:
    environments = ", ".join(
        f"{cell.environment} ({cell.failures} failed)" if cell.failures else cell.environment
        for cell in absent
    )
    what = "no completed run"
    if result.algorithm in (*ANCHORS, DEMONSTRATIONS):
        what += " and no reference"
    if not result.covered:
        return f"{result.algorithm} has {what} on {environments}: there is nothing to aggregate."
    return (
        f"{result.algorithm} has {what} on {environments}: its aggregate is partial, over "
        f"{len(result.covered)} of {len(result.cells)} environments, and not comparable with "
        "a complete one."
    )


def _run_notes(result: AlgorithmResult) -> Iterator[str]:
    """Yields notes on unusual runs of an algorithm: single ones, shared seeds, infinite scores."""
    runs = [cell for cell in result.cells if cell.kind == "run"]
    single = [cell.environment for cell in runs if cell.runs == 1]
    if single and len(single) < len(runs):
        yield (
            f"{result.algorithm} has a single run on {', '.join(single)}: its intervals leave "
            "out the spread there and are too narrow."
        )
    for cell in runs:
        if cell.runs > cell.seeds:
            yield (
                f"{result.algorithm} on {cell.environment}: {cell.runs} runs share {cell.seeds} "
                f"seed{'' if cell.seeds == 1 else 's'}; runs that differ in something not shown "
                "here, such as hyper-parameters, are averaged."
            )
    broken = [
        cell.environment for cell in runs if cell.score is None or not math.isfinite(cell.score)
    ]
    if broken:
        yield (
            f"{result.algorithm} has a score that is not finite on {', '.join(broken)}: there is "
            "no aggregate."
        )


@dataclass(frozen=True)
class GivenScore:
    """The score of a control on an environment, with Student's interval over its runs."""

    environment: str
    mean: float
    low: float
    high: float


def given_away(result: AlgorithmResult, rows: Sequence[ScoreRow]) -> list[GivenScore]:
    """Returns the environments where a control scores well, although it learns nothing.

    Args:
        result: The control.
        rows: Its completed runs; those of others are ignored.
    """
    found = []
    for cell in result.covered:
        own = [row for row in rows if row.env == cell.environment and row.algo == result.algorithm]
        score = mean_interval([row.score for row in own], level=CONFIDENCE)
        if score.low > GIVEN_AWAY:
            found.append(GivenScore(cell.environment, score.point, score.low, score.high))
    return found


def _control_notes(result: AlgorithmResult, rows: Sequence[ScoreRow]) -> Iterator[str]:
    """Yields notes on environments where a control scores well."""
    for given in given_away(result, rows):
        there = [row for row in rows if row.env == given.environment and row.role != "anchor"]
        if len({row.mean_length for row in there}) > 1:
            why = "surviving or ending early is rewarded there under any reward function"
        else:
            why = "training alone is worth that much there under any reward function"
        yield (
            f"{text.marked_name(result)} scores {text.score(given.mean)} [{text.score(given.low)}, "
            f"{text.score(given.high)}] on {given.environment}: {why}."
        )


def _scale_notes(references: Sequence[ReferenceRow]) -> Iterator[str]:
    """Yields notes on environments without an expert."""
    meanings = {
        "demonstrations": "the mean return of the demonstrators, not of an expert",
        "card": "a number that the suite's card states, not the return of an expert",
    }
    for kind, meaning in meanings.items():
        environments = sorted({row.env for row in references if row.score_one == kind})
        if environments:
            yield f"Score 1 on {', '.join(environments)} is {meaning}."


def _reference_notes(rows: Sequence[ScoreRow], references: Sequence[ReferenceRow]) -> Iterator[str]:
    """Yields notes on scores that are on another scale than the shown references."""
    by_environment: dict[str, list[ReferenceRow]] = {}
    for reference in references:
        by_environment.setdefault(reference.env, []).append(reference)
    for env, known in by_environment.items():
        versions = sorted({reference.version for reference in known})
        if len(versions) > 1:
            yield (
                f"{env} has references of versions {', '.join(versions)}: scores under one are "
                "not comparable with scores under another."
            )
        scales = {(one.version, one.random, one.expert, one.score_one) for one in known}
        for version, count in sorted(Counter(version for version, *_ in scales).items()):
            if count > 1:
                yield (
                    f"{env} has {count} different references of version {version}: scores under "
                    "one are not comparable with scores under another."
                )
        runs = [row for row in rows if row.env == env]
        strange = [row for row in runs if not any(_follows(row, reference) for reference in known)]
        if strange:
            yield (
                f"{env}: the scores of {len(strange)} of {len(runs)} runs do not follow from the "
                "references shown; they were made with others."
            )


def _follows(row: ScoreRow, reference: ReferenceRow) -> bool:
    """Whether a run's score follows from its return and a reference."""
    measured = row.success_rate if reference.score_one == "success" else row.raw_return
    if measured is None:  # an imported board does not tell it
        return True
    due = normalize(measured, reference.random, reference.expert)
    finite = math.isfinite(due) and math.isfinite(row.score)
    return not finite or math.isclose(due, row.score, rel_tol=1e-6, abs_tol=1e-6)
