"""Scores published runs again, with the references of the suite's current card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from imitbench.errors import InputError
from imitbench.records.bundled_cards import bundled_suite, environment_of
from imitbench.records.published import PublishedRun
from imitbench.records.runs import ReferenceScores
from imitbench.util.text_line import one_line


def rescore(runs: Sequence[PublishedRun], where: str) -> list[PublishedRun]:
    """Returns the same runs with the references of the cards of this package.

    Returns, episodes and specifications stay; only the scale of the scores changes. Runs that were
    scored with an expert of another source keep their references.

    Args:
        runs: Runs of a submission.
        where: The submission, for messages.

    Raises:
        InputError: All references are current, or none of the suites is one of this package.
    """
    scored = [_rescored(run) for run in runs]
    if scored == list(runs):
        raise InputError(
            f"{where}: its references are those of the suites of this package; nothing to rescore"
        )
    return scored


def _rescored(run: PublishedRun) -> PublishedRun:
    outcome = run.result or run.failure
    assert outcome is not None
    suite, card = bundled_suite(run.spec.suite), environment_of(run.spec)
    scale = card.scale if card is not None else None
    if suite is None or scale is None or "+" in outcome.references.version:
        return run
    now = ReferenceScores(
        random=scale.random,
        expert=scale.one,
        version=one_line(suite.version),
        score_one=scale.score_one,
        demonstrations=scale.demonstrations,
    )
    if run.result is not None:
        return replace(run, result=run.result.model_copy(update={"references": now}))
    assert run.failure is not None
    return replace(run, failure=run.failure.model_copy(update={"references": now}))
