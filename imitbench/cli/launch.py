"""Carries out a plan as the user asked, and says what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.bench.plan import Plan
    from imitbench.bench.summary import Summary
    from imitbench.executors.options import RunOptions


def launch(plans: Sequence[Plan], how: RunOptions, out: Path, *, json: bool, quiet: bool) -> None:
    """Runs one plan after the other, or submits them; collects, and prints one short table.

    Args:
        plans: What to do.
        how: How runs are carried out.
        out: Results folder.
        json: Whether the summary is one JSON document.
        quiet: Whether progress is not shown.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed or were lost.
    """
    from imitbench.bench.progress import make_observer
    from imitbench.bench.summary import summarize
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.provenance import typed_command

    with make_observer(quiet=quiet) as observer:
        outcome = carry_out(plans, how, out=out, command=typed_command(), observer=observer)
    _print(summarize(plans, out, outcome), how, json=json, quiet=quiet)
    if outcome.left or (how.wait and outcome.queued):
        raise typer.Exit(130)
    if outcome.failed or outcome.lost:
        raise typer.Exit(1)


def _print(summary: Summary, how: RunOptions, *, json: bool, quiet: bool) -> None:
    """Says what happened: counts and failures to stderr, scores to stdout."""
    from imitbench.cli.output import command_for, count, note, print_json
    from imitbench.report.tables import build_report
    from imitbench.report.terminal import render_short

    outcome, out = summary.outcome, summary.out
    for left_out in summary.left_out:
        note(f"left out: {left_out.path}: {left_out.reason}")
    if json:
        print_json(summary.as_document())
    else:
        report = build_report(summary.scores, summary.failures, summary.references)
        typer.echo(render_short(report), nl=False)
    for pair in summary.not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    for spec, failure in outcome.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.error_type}: {failure.message}")
    also = "" if how.force else f", and so does `{command_for(out, 'resume')}`"
    if outcome.left:
        note(f"stopped with {outcome.left} runs left; the same command resumes{also}")
    if outcome.lost:
        note(
            f"{count(outcome.lost, 'run')} left the queue before being complete (cancelled, or "
            f"with a lost node); the same command resumes{also}"
        )
    if outcome.queued:
        note(
            f"{count(outcome.queued, 'run')} in the queue; "
            f"`{command_for(out, 'status', '--watch')}` follows, "
            f"`{command_for(out, 'cancel')}` cancels"
        )
    if not quiet:
        note(
            f"{outcome.done} done, {outcome.already_done} already there, "
            f"{len(outcome.failed)} failed; results in {out}"
        )
