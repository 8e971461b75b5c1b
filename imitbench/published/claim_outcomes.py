"""Finds own published results for claims, and averages them over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from imitbench.published.claims import Claim, share_of_expert
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunSpec
from imitbench.store.comparability import Conditions, current_run_ids

FAILED_BELOW = 0.5
"""A seed whose last policy has a smaller score has failed."""

_SOURCE = "bundled"


@dataclass(frozen=True)
class OwnOutcome:
    """Own results that stand beside a claim: means over the seeds of its runs.

    A failed run counts as random actions.

    Attributes:
        seeds: Number of seeds, failed runs included.
        failed: Number of seeds whose run failed, or whose last policy scores below
            `FAILED_BELOW`.
        mean_return: Mean return of the last policies.
        share: The same divided by the expert's return; `None` if that is not above 0.
        score: Mean score of the last policies.
        best_score: Mean over the seeds of each one's best point of its learning curve, as a score;
            `None` unless the curves of all seeds are published.
        pack: Number of seeds that were trained together, if any.
        device: Class of the processor.
    """

    seeds: int
    failed: int
    mean_return: float
    share: float | None
    score: float
    best_score: float | None
    pack: int | None = None
    device: str = "cpu"


def own_outcomes(claims: Sequence[Claim], runs: Iterable[PublishedRun]) -> list[OwnOutcome | None]:
    """Returns the own results for each claim; `None` where nothing fitting is published.

    Runs fit if they have the claim's algorithm, environment, budget and demonstrations, those
    that ship with the suite, and the claim's hyper-parameters. Runs on different devices, or in
    packs of different sizes, are never averaged: the most seeds count, and of equal numbers the
    runs without packs.

    Args:
        claims: The claims.
        runs: All published runs, of which the current ones count.
    """
    everything = list(runs)
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
        found = [_outcome(group) for group in candidates.values()]
        found.sort(key=lambda each: (-each.seeds, each.pack or 0, each.device))
        outcomes.append(found[0] if found else None)
    return outcomes


def fits(claim: Claim, spec: RunSpec) -> bool:
    """Whether a run may stand beside a claim, see `own_outcomes`."""
    return _key_of_run(spec) == _key_of_claim(claim)


_Key = tuple[Conditions, str, str, str]


def _key_of_run(spec: RunSpec) -> _Key | None:
    """Returns what a claim must name to be held against a run; `None` if none can."""
    changed = [each for each in spec.variant.split(",") if each]
    config = "tuned" if "tuned" in changed else "default"
    if any(each != "tuned" and not each.startswith(("device=", "pack=")) for each in changed):
        return None
    conditions = Conditions.of_spec(spec)
    if conditions.source not in (None, _SOURCE):
        return None
    named = Conditions(conditions.suite, conditions.budget, conditions.n_demos, None)
    return named, spec.environment.id, spec.algo, config


def _key_of_claim(claim: Claim) -> _Key:
    named = Conditions(claim.suite, claim.budget, claim.n_demos, None)
    return named, claim.env, claim.algo, claim.config


def _outcome(runs: Sequence[PublishedRun]) -> OwnOutcome:
    newest = {run.spec.seed: run for run in sorted(runs, key=lambda run: run.ended_at)}
    returns, scores, shares = [], [], []
    for run in newest.values():
        outcome = run.result or run.failure
        assert outcome is not None
        references = outcome.references
        value = run.result.raw_return if run.result else references.random
        returns.append(value)
        scores.append(references.score(value))
        shares.append(share_of_expert(value, references.expert))
    known = [share for share in shares if share is not None]
    return OwnOutcome(
        seeds=len(newest),
        failed=sum(
            run.result is None or score < FAILED_BELOW
            for run, score in zip(newest.values(), scores, strict=True)
        ),
        mean_return=fmean(returns),
        share=fmean(known) if len(known) == len(shares) else None,
        score=fmean(scores),
        best_score=_best_score(list(newest.values())),
        pack=runs[0].spec.pack,
        device=runs[0].spec.device,
    )


def _best_score(runs: Sequence[PublishedRun]) -> float | None:
    scores = [
        run.result.references.score(float(run.curve.values.max()))
        for run in runs
        if run.result is not None and run.curve is not None and run.curve.has_returns
    ]
    return fmean(scores) if len(scores) == len(runs) else None
