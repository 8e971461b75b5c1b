"""Runs in the form that comparisons need: runs of this harness and imported ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from imitbench.cards.algorithm import Role
from imitbench.cards.suite import ScoreOne
from imitbench.errors import InputError
from imitbench.records.bundled_cards import bundled_algorithm, likely_expert
from imitbench.records.runs import FailureRow, ReferenceRow, ReferenceScores, RunRow, ScoreRow
from imitbench.records.selection import Acting, ActingChoice
from imitbench.report.model import ANCHORS, plain_name
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalRun, ExternalScoreRow

CONFIG_DIGITS = 8


_TOLERANCE = 1e-6  # of the difference between scores 0 and 1: texts may round the last digits


@dataclass(frozen=True)
class Scale:
    """The returns that have scores 0 and 1 on an environment.

    Attributes:
        version: Where they come from. Scores of two versions are comparable if the returns are the
            same: a suite gets another version when references of any environment change.
        random: Return of score 0.
        one: Return of score 1, with sampled actions.
        one_likely: The same with most likely actions; `None` if it is unknown.
        score_one: Whose return is score 1; `None` if it is unknown.
    """

    version: str
    random: float
    one: float
    one_likely: float | None = None
    score_one: ScoreOne | None = None

    def agrees(self, other: Scale, acting: Acting) -> bool:
        """Whether scores of one way of acting are the same on both, as far as it is known."""
        if None not in (self.score_one, other.score_one) and self.score_one != other.score_one:
            return False
        ones = [one.one if acting == "sampled" else one.one_likely for one in (self, other)]
        known = [(self.random, other.random)]
        if ones[0] is not None and ones[1] is not None:
            known.append((ones[0], ones[1]))
        most = _TOLERANCE * abs(self.one - self.random)
        return all(abs(first - second) <= most for first, second in known)


def _own_scale(references: ReferenceRow) -> Scale:
    likely = likely_expert(references.suite, references.env, references)
    return Scale(
        references.version, references.random, references.expert, likely, references.score_one
    )


def _external_scale(run: ExternalRun | ExternalScoreRow) -> Scale | None:
    version, random, one = run.reference_version, run.reference_random, run.reference_expert
    if random is None or one is None:
        return None
    stated = ReferenceScores(random=random, expert=one, version=version or "")
    likely = likely_expert(run.suite or "", run.env or "", stated)
    return Scale(version or "unknown", random, one, likely)


@dataclass(frozen=True)
class ComparableRun:
    """A run that completed or failed.

    Attributes:
        score: Normalized score of sampled actions; `None` for a failed run.
        raw_return: Mean raw return; `None` where it is not known.
        imported: Whether another tool made it; such runs take part only if named as a baseline.
        role: Role of the algorithm, as on its card.
        score_one: Whose return is score 1; `None` where it is not known.
        score_likely: Score of most likely actions; `None` where it is not known.
        scale: What its scores refer to; `None` for a failed run, or if it is not known.
    """

    conditions: Conditions
    env: str
    algo: str
    score: float | None
    raw_return: float | None = None
    imported: bool = False
    role: Role = "method"
    score_one: ScoreOne | None = None
    score_likely: float | None = None
    scale: Scale | None = None

    def score_by(self, acting: Acting) -> float | None:
        """Returns the score of one way of acting; `None` for a failed run, or if it is unknown."""
        return self.score if acting == "sampled" else self.score_likely


def ways_of_acting(
    lacking: tuple[str, str] | None, acting: ActingChoice | None
) -> tuple[tuple[Acting, ...], str | None]:
    """Returns the ways of acting to compare, and why most likely actions are not if they could be.

    Args:
        lacking: Algorithm and environment of a run without a score of most likely actions; `None`
            if all runs have one.
        acting: What is wanted; `None` for both if the scores of both are known.

    Raises:
        InputError: Scores of most likely actions are wanted, and a run has none.
    """
    if acting == "sampled":
        return ("sampled",), None
    if lacking is None:
        return (("likely",) if acting == "likely" else ("sampled", "likely")), None
    why = (
        "the return of the expert's most likely actions under the references of "
        f"{lacking[0]} on {lacking[1]} is unknown"
    )
    if acting is not None:
        raise InputError(
            f"--acting {acting}: {why}; use --acting sampled, or add it to the card of a suite of "
            "your own: `imitbench suites measure ./SUITE --likely --card ./SUITE/suite.yaml`, "
            "which new runs then record"
        )
    return ("sampled",), why


def own_entries(
    scores: Sequence[ScoreRow],
    failures: Sequence[FailureRow],
    references: Mapping[str, ReferenceRow] | None = None,
) -> list[ComparableRun]:
    """Returns runs of this harness; anchor runs of one seed under two budgets count as one.

    A failed one does not count where the seed completed.

    Args:
        scores: Completed runs.
        failures: Failed runs.
        references: References by the id of a completed run, as far as they are known.
    """
    scales = {run_id: _own_scale(row) for run_id, row in (references or {}).items()}
    latest = {}
    for row in sorted(scores, key=lambda row: (row.finished_at, row.run_id)):
        conditions = _own_conditions(row)
        key = (conditions, row.env, row.algo, row.seed)
        latest[key] = ComparableRun(
            conditions,
            row.env,
            row.algo,
            row.score,
            row.raw_return,
            role=row.role,
            score_one=row.score_one,
            score_likely=row.score_likely if math.isfinite(row.score_likely) else None,
            scale=scales.get(row.run_id),
        )
    failed, seen = [], set(latest)
    for failure in failures:
        conditions = _own_conditions(failure)
        key = (conditions, failure.env, failure.algo, failure.seed)
        if failure.algo in ANCHORS and key in seen:
            continue
        seen.add(key)
        failed.append(ComparableRun(conditions, failure.env, failure.algo, None, role=failure.role))
    return [*latest.values(), *failed]


def _own_conditions(row: RunRow) -> Conditions:
    conditions = Conditions.of(row)
    return replace(conditions, budget=None) if row.algo in ANCHORS else conditions


def imported_entries(rows: Sequence[ExternalScoreRow]) -> list[ComparableRun]:
    """Returns imported runs that have a score, with the names of `external_labels`."""
    labels = external_labels(rows)
    return [
        ComparableRun(
            Conditions.of(row),
            row.env,
            label,
            row.score,
            row.raw_return,
            True,
            scale=_external_scale(row),
        )
        for row, label in zip(rows, labels, strict=True)
        if row.score is not None
    ]


def table_entries(runs: Iterable[ExternalRun]) -> list[ComparableRun]:
    """Returns the runs of a table that was not imported, under the names in the table."""
    found = []
    for run in runs:
        if run.algo is None or run.env is None:
            continue
        score = run.any_score if run.status == "completed" else None
        if score is not None or run.status == "failed":
            found.append(
                ComparableRun(
                    Conditions.of(run),
                    run.env,
                    run.algo,
                    score,
                    run.raw_return,
                    role=_role(run),
                    score_likely=run.score_likely,
                    scale=_external_scale(run) if score is not None else None,
                )
            )
    return found


def _role(run: ExternalRun) -> Role:
    """Returns the role in the table; without it, that of the bundled algorithm of this name."""
    stated = [role for role in get_args(Role) if role == run.provenance.get("role")]
    return stated[0] if stated else role_by_name(run.algo or "")


def role_by_name(algo: str) -> Role:
    """Returns the role of the bundled algorithm of a name; `method` for other names."""
    card = bundled_algorithm(plain_name(algo))
    return card.role if card else "method"


def external_labels(rows: Sequence[ExternalScoreRow]) -> list[str]:
    """Returns the names of imported algorithms in comparisons: `<import>:<algorithm>`.

    If an import has runs of one algorithm with several settings, the names contain their digest.
    """
    configs: dict[tuple[str, str], set[str | None]] = {}
    for row in rows:
        configs.setdefault((row.name, row.algo), set()).add(row.config)
    labels = []
    for row in rows:
        several = len(configs[row.name, row.algo]) > 1
        variant = f"[{row.config[:CONFIG_DIGITS]}]" if row.config and several else ""
        labels.append(f"{row.name}:{row.algo}{variant}")
    return labels
