"""Holds own results against the figures of papers, and decides which figures are reproduced.

A figure is *reproduced* if the interval of the own mean lies within a margin around it, and *not
reproduced* if the interval lies wholly outside. In between nothing is decided. Figures of another
task, expert, budget or number of demonstrations, and best points of curves, are not comparable.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from imitbench.published.claims import Claim, share_of_expert
from imitbench.published.table_values import is_of_second_row
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunSpec
from imitbench.stats.bootstrap import Interval
from imitbench.stats.significance import mean_interval
from imitbench.store.comparability import Conditions, current_run_ids

FAILED_BELOW = 0.5
"""A seed whose last policy has a smaller score has failed."""

MARGIN = 0.1
"""Largest difference that counts as none: a tenth of the expert's return."""

LEVEL = 0.95
_SIMILAR = 1.5  # ratio up to which experts and budgets count as the same
_VERSION = re.compile(r"-v\d+$")

ClaimVerdict = Literal["reproduced", "not reproduced", "undecided", "not comparable", "not run yet"]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


@dataclass(frozen=True)
class OwnOutcome:
    """Own results that stand beside a claim: means over the seeds of its runs.

    A failed run counts as random actions.

    Attributes:
        seeds: Number of seeds, failed runs included.
        failed: Number of seeds whose run failed, or whose last policy scores below
            `FAILED_BELOW`.
        mean_return: Mean return of the last policies.
        share: The same divided by the expert's return, with its interval; `None` if that return is
            not above 0, or unknown because scores are shares of successful episodes.
        score: Mean score of the last policies, with its interval.
        best_score: Mean over the seeds of each one's best point of its learning curve, as a score;
            `None` unless curves of returns with this score are published of all seeds.
        pack: Number of seeds that were trained together, if any.
        device: Class of the processor.
    """

    seeds: int
    failed: int
    mean_return: float
    share: Interval | None
    score: Interval
    best_score: float | None
    pack: int | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class ComparedClaim:
    """A claim beside own results.

    Attributes:
        number: Number of the claim in tables and for `imitbench claims check`.
        claim: The claim.
        own: Own results; `None` if there are none.
        verdict: What the comparison says.
        reason: Why it is not comparable, or on which side of the claim the own results are; may be
            empty.
    """

    number: int
    claim: Claim
    own: OwnOutcome | None
    verdict: ClaimVerdict
    reason: str = ""


def numbered_claims(claims: Sequence[Claim]) -> dict[int, Claim]:
    """Returns claims by their number: in the order of their algorithm, then of the table."""
    return dict(enumerate(sorted(claims, key=lambda claim: claim.algo), start=1))


def compare_claims(claims: Sequence[Claim], runs: Iterable[PublishedRun]) -> list[ComparedClaim]:
    """Holds own results against claims.

    Args:
        claims: The claims.
        runs: Own runs; those that fit a claim stand beside it, see `own_outcomes`.

    Returns:
        One per claim, in the order of their numbers.
    """
    numbered = numbered_claims(claims)
    found = zip(numbered.items(), own_outcomes(list(numbered.values()), runs), strict=True)
    return [
        ComparedClaim(number, claim, own, *verdict_of(claim, own)) for (number, claim), own in found
    ]


def own_outcomes(claims: Sequence[Claim], runs: Iterable[PublishedRun]) -> list[OwnOutcome | None]:
    """Returns the own results for each claim; `None` where nothing fitting is published.

    Runs fit if they have the claim's algorithm, environment, budget and demonstrations, those
    that ship with the suite, and the claim's hyper-parameters. Runs on different devices, or in
    packs of different sizes, are never averaged: the most seeds count, and of equal numbers the
    runs without packs. Runs with the values of a second search for the table of methods, such as
    one without a reward, stand beside no claim.
    """
    everything = [run for run in runs if not is_of_second_row(run.spec)]
    current = current_run_ids((run.spec, run.ended_at) for run in everything)
    fitting: dict[_Key, dict[tuple[int | None, str], list[PublishedRun]]]
    fitting = defaultdict(lambda: defaultdict(list))
    for run in everything:
        spec = run.spec
        key = _key_of_run(spec)
        if spec.run_id in current and key is not None:
            fitting[key][spec.pack, spec.device].append(run)
    outcomes: list[OwnOutcome | None] = []
    for claim in claims:
        candidates = fitting.get(_key_of_claim(claim), {})
        found = [outcome_of(group) for group in candidates.values()]
        found.sort(key=lambda outcome: (-outcome.seeds, outcome.pack or 0, outcome.device))
        outcomes.append(found[0] if found else None)
    return outcomes


def fits(claim: Claim, spec: RunSpec) -> bool:
    """Whether a run may stand beside a claim, see `own_outcomes`."""
    return _key_of_run(spec) == _key_of_claim(claim)


def verdict_of(
    claim: Claim, own: OwnOutcome | None, *, margin: float = MARGIN
) -> tuple[ClaimVerdict, str]:
    """Decides whether own results reproduce a claim.

    Args:
        claim: The claim.
        own: Own results; `None` if there are none.
        margin: Largest difference that counts as none.

    Returns:
        The verdict and a reason, see `ComparedClaim`.
    """
    if (why := why_not_comparable(claim)) is not None:
        return "not comparable", why
    if own is None:
        return "not run yet", ""
    both = on_one_scale(claim, own)
    if both is None:
        return "not comparable", "no common scale: a return is not positive"
    _, claimed, interval = both
    low, high = interval.low - claimed, interval.high - claimed
    if -margin <= low and high <= margin:
        return "reproduced", ""
    if low > margin:
        return "not reproduced", "higher here"
    if high < -margin:
        return "not reproduced", "lower here"
    return "undecided", f"seeds: {own.seeds}"


def why_not_comparable(claim: Claim) -> str | None:
    """Returns why own results say nothing about a claim; `None` if they do."""
    if _task(claim.task) != _task(claim.env):
        return "other task"
    if claim.point == "best":
        return "best point of a curve"
    card, suite = bundled_algorithm(claim.algo), bundled_suite(claim.suite)
    assert card is not None and suite is not None  # the reader of claims checks it
    environment = suite.environments[claim.env]
    expert = environment.references.expert if environment.references is not None else None
    theirs = claim.expert_return
    if theirs is not None and expert is not None and not _similar(theirs, expert.mean):
        return f"other expert: {theirs:.0f}, here {expert.mean:.0f}"
    if claim.share is None and claim.score is None:
        return "no return of its expert is stated"
    demos = claim.own_demos
    if card.needs.demos and claim.demos is not None and claim.demos != demos:
        return f"other number of demonstrations: {claim.demos}, here {demos}"
    if claim.env_steps and card.budget_unit != "batches":
        steps = environment.amount(claim.budget, card.budget_unit)
        if not _similar(claim.env_steps, steps):
            return f"other budget: {claim.env_steps:,} steps, here {steps:,}"
    return None


def _task(env_id: str) -> str:
    """Returns an environment's name without its version, which differs between packages."""
    return _VERSION.sub("", env_id)


def _similar(one: float, other: float) -> bool:
    if min(one, other) <= 0:
        return one == other
    return max(one, other) <= _SIMILAR * min(one, other)


def on_one_scale(
    claim: Claim, own: OwnOutcome
) -> tuple[Literal["share", "score"], float, Interval] | None:
    """Returns claim and own results as shares of their experts, or else as scores."""
    if claim.share is not None and own.share is not None:
        return "share", claim.share, own.share
    return None if claim.score is None else ("score", claim.score, own.score)


_Key = tuple[Conditions, str, str, str]


def _key_of_run(spec: RunSpec) -> _Key | None:
    """Returns what a claim must name to be held against a run; `None` if none can."""
    changed = [change for change in spec.variant.split(",") if change]
    config = "tuned" if "tuned" in changed else "default"
    if any(change != "tuned" and not change.startswith(("device=", "pack=")) for change in changed):
        return None
    conditions = Conditions.of_spec(spec)
    if conditions.source not in (None, "bundled"):
        return None
    return replace(conditions, source=None), spec.environment.id, spec.algo, config


def _key_of_claim(claim: Claim) -> _Key:
    return claim.own_conditions, claim.env, claim.algo, claim.config


def outcome_of(runs: Sequence[PublishedRun]) -> OwnOutcome:
    """Returns means over the seeds of runs with one setting; of a seed, the newest run counts."""
    newest = {run.spec.seed: run for run in sorted(runs, key=lambda run: run.ended_at)}
    returns, scores, shares = [], [], []
    for run in newest.values():
        references = run.outcome.references
        by_success = references.score_one == "success"  # references are not returns
        value = run.result.raw_return if run.result else references.random
        returns.append(value)
        scores.append(run.result.score() if run.result else references.score(value))
        shares.append(share_of_expert(value, None if by_success else references.expert))
    known = [share for share in shares if share is not None]
    return OwnOutcome(
        seeds=len(newest),
        failed=sum(
            run.result is None or score < FAILED_BELOW
            for run, score in zip(newest.values(), scores, strict=True)
        ),
        mean_return=fmean(returns),
        share=mean_interval(known, level=LEVEL) if len(known) == len(shares) else None,
        score=mean_interval(scores, level=LEVEL),
        best_score=_best_score(list(newest.values())),
        pack=runs[0].spec.pack,
        device=runs[0].spec.device,
    )


def _best_score(runs: Sequence[PublishedRun]) -> float | None:
    scores = [
        run.result.references.score(float(run.curve.values.max()))
        for run in runs
        if run.result is not None
        and run.result.references.score_one != "success"
        and run.curve is not None
        and run.curve.has_returns
    ]
    return fmean(scores) if len(scores) == len(runs) else None
