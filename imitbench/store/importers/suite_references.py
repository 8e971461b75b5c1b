"""Puts imported returns on the scale of a suite."""

from __future__ import annotations

from dataclasses import replace

from imitbench.cards.suite import SuiteCard
from imitbench.store.external_results import ExternalRun, ImportedResults


def with_references(results: ImportedResults, suite: SuiteCard) -> ImportedResults:
    """Gives runs the references of a suite, so that they have scores that compare with own ones.

    Args:
        results: Imported results.
        suite: The suite's card.

    Returns:
        The same results; completed runs on the suite's environments that have a return, and
        neither a score nor references, have the suite's references.
    """
    runs = [_with_references(run, suite) for run in results.runs]
    lacking = sorted(
        {
            run.env
            for run in runs
            if run.status == "completed" and run.env is not None and not _has_scale(run)
        }
    )
    note = f"suite {suite.name} has no references of {', '.join(lacking)[:1000]}"
    return replace(results, runs=runs, notes=[*results.notes, *([note] if lacking else [])])


def _with_references(run: ExternalRun, suite: SuiteCard) -> ExternalRun:
    card = suite.environments.get(run.env or "")
    if run.status != "completed" or _has_scale(run) or card is None or card.references is None:
        return run
    return run.model_copy(
        update={
            "reference_random": card.references.random.mean,
            "reference_expert": card.references.expert.mean,
            "reference_version": f"{suite.name} {suite.version}",
        }
    )


def _has_scale(run: ExternalRun) -> bool:
    given = (run.reference_random, run.reference_expert)
    return run.score is not None or None not in given
