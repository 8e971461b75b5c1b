"""Prints the results of tunings as tables or as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from imitbench.cli.output import (
    TextColumn,
    by_word,
    count,
    nonzero,
    note,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from imitbench.cards.algorithm import Scalar
    from imitbench.tune.held_out_comparison import HeldOutComparison
    from imitbench.tune.request import TuneRequest
    from imitbench.tune.runner import StudyOverview
    from imitbench.tune.study import Trial


def describe_verdict(comparison: HeldOutComparison) -> str:
    """Returns the outcome of a held-out comparison in one sentence."""
    if len(comparison.standings) == 1:
        return "no trial with other values than the default ones was completed"
    winner, default = comparison.winner, comparison.default
    if winner is None:
        return (
            "every candidate had a run that failed on held-out seeds; see `imitbench tune --show`"
        )
    if not default.scores or default.failed:
        return (
            f"undecided: {count(default.failed, 'run')} of the default values failed on held-out "
            "seeds"
        )
    means = f"{winner.mean:.4g} against {default.mean:.4g}"
    p = "" if winner.p_value is None else f", p = {winner.p_value:.3g}"
    who = winner.candidate.name
    if winner.decision == "better":
        return f"{who} beats the default values on held-out seeds ({means}{p})"
    if winner.decision == "not better":
        return f"tuning does not beat the default values on held-out seeds ({who}: {means}{p})"
    more = ""
    if winner.more_seeds:
        seeds = count(winner.more_seeds, "more held-out seed")
        more = f"; at least {seeds} would be needed to decide anything"
    return (
        f"undecided: {who} does not beat the default values for certain on held-out seeds "
        f"({means}{p}{more})"
    )


def print_tuning(
    roots: Sequence[Path],
    *,
    as_json: bool,
    written: Mapping[str, Path] | None = None,
    only: Sequence[str] | None = None,
) -> None:
    """Prints the studies of some tunings from what is on disk.

    Args:
        roots: Folders of the tunings.
        as_json: Whether to print one JSON document.
        written: Files that this call wrote tuned values to, by environment.
        only: Environments to print; `None` for all.
    """
    from imitbench.tune.runner import read_studies

    studies = [
        study
        for root in roots
        for study in read_studies(root)
        if only is None or study.settings.env in only
    ]
    if as_json:
        files = written or {}
        print_json(
            {
                "studies": [
                    _document(study)
                    | {"written": str(files[env]) if (env := study.settings.env) in files else None}
                    for study in studies
                ]
            }
        )
        return
    for index, study in enumerate(studies):
        if index:
            typer.echo("")
        _print_study(study)


def _document(study: StudyOverview) -> dict[str, Any]:
    from imitbench.tune.objectives import OBJECTIVES

    settings, comparison = study.settings, study.comparison
    held_out = None
    if comparison is not None:
        held_out = {
            "decision": comparison.decision,
            "winner": comparison.winner.candidate.trial if comparison.winner else None,
            "candidates": [
                {
                    **standing.model_dump(mode="json", exclude={"candidate"}),
                    **standing.candidate.model_dump(mode="json"),
                    "mean": standing.mean,
                }
                for standing in comparison.standings
            ],
        }
    return {
        "name": study.name,
        "algo": settings.algo,
        "suite": settings.suite,
        "env": settings.env,
        "environments": settings.environments or [settings.env],
        "objective": settings.objective,
        "uses_reward": OBJECTIVES[settings.objective].uses_reward,
        "budget": settings.budget,
        "trials": [vars(trial) for trial in study.trials],
        "held_out": held_out,
    }


def _print_study(study: StudyOverview) -> None:
    from imitbench.tune.objectives import OBJECTIVES

    settings, trials, comparison = study.settings, study.trials, study.comparison
    objective = OBJECTIVES[settings.objective]
    flag = "uses reward" if objective.uses_reward else "without the true reward"
    print_text(
        f"{study.name}: {settings.algo} on {settings.env}, budget {settings.budget}, objective "
        f"{objective.name} ({flag})"
    )
    defaults = trials[0].values if trials else {}
    print_table(
        [
            "trial",
            TextColumn("state", color=by_word(failed="red")),
            objective.unit,
            TextColumn("values", below=True),
        ],
        [
            [trial.number, _state(trial), trial.value, _changed(trial.values, defaults)]
            for trial in trials
        ],
    )
    if comparison is None:
        return
    typer.echo("\nOn held-out seeds:")
    print_table(
        [
            "candidate",
            objective.unit,
            TextColumn("runs", rank=3),
            TextColumn("failed", rank=2, color=nonzero("red")),
            TextColumn("return", rank=4),
            TextColumn("against the default", color=by_word(better="green")),
            TextColumn("p", rank=1),
        ],
        [
            [
                standing.candidate.name,
                standing.mean if standing.scores else None,
                len(standing.scores),
                standing.failed,
                sum(standing.returns) / len(standing.returns) if standing.returns else None,
                standing.decision or "",
                standing.p_value,
            ]
            for standing in comparison.standings
        ],
    )


def _state(trial: Trial) -> str:
    if trial.state == "pruned":
        return f"pruned at step {trial.pruned_at}"
    return f"failed: {trial.failure}" if trial.state == "failed" else trial.state


def _changed(values: Mapping[str, Scalar], defaults: Mapping[str, Scalar]) -> str:
    other = [
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
        if value != defaults.get(name)
    ]
    return ", ".join(other) or "default"


def print_outcome(
    request: TuneRequest,
    comparisons: Mapping[str, HeldOutComparison],
    target: Path,
    written: Mapping[str, Path],
    *,
    keep_anyway: bool,
) -> None:
    """Prints whether tuning helped, and which files were written."""
    for env_id, comparison in comparisons.items():
        note(f"{env_id}: {describe_verdict(comparison)}")
        if env_id not in written:
            hint = (
                "" if keep_anyway or comparison.winner is None else " (--keep-anyway writes them)"
            )
            note(f"{env_id}: nothing written{hint}")
    if written:
        flag = "; chosen by the true return (uses reward)" if request.goal.uses_reward else ""
        note(f"tuned values in {target}{flag}")
        note(
            f"use them: imitbench run --algo {request.algorithm.name} --suite "
            f"{request.plan.suite.name} --config {target}"
        )
