"""Runs plans and prints their outcome, or prints the expected cost without running them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.bench.plan import Plan
    from imitbench.bench.summary import SweepSummary
    from imitbench.executors.options import RunOptions


def launch(
    plans: Sequence[Plan],
    options: RunOptions,
    out: Path,
    *,
    json: bool,
    quiet: bool,
    also: Mapping[str, Any] | None = None,
) -> None:
    """Runs or submits plans in sequence, collects the results, and prints one short table.

    Args:
        plans: Plans, in the order in which they run.
        options: Executor, jobs and other execution options.
        out: Results folder.
        json: Whether the summary is one JSON document.
        quiet: Whether to hide progress.
        also: Further entries of that document.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed or were lost.
    """
    from imitbench.bench.progress import make_observer
    from imitbench.bench.summary import summarize_sweep
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.output import typed_command

    with make_observer(quiet=quiet) as observer:
        outcome = carry_out(plans, options, out=out, command=typed_command(), observer=observer)
    summary = summarize_sweep(plans, out, outcome)
    _print(summary, options, json=json, quiet=quiet, also=also or {})
    if outcome.left or (options.wait and outcome.queued):
        raise typer.Exit(130)
    if outcome.failed or outcome.lost:
        raise typer.Exit(1)


def _print(
    summary: SweepSummary,
    options: RunOptions,
    *,
    json: bool,
    quiet: bool,
    also: Mapping[str, Any],
) -> None:
    """Prints counts and failures to stderr, scores to stdout."""
    from functools import partial

    from imitbench.cli.output import command_for, count, note, print_fitted, print_json
    from imitbench.report.tables import build_report
    from imitbench.report.terminal import render_short

    outcome, out = summary.outcome, summary.out
    for left_out in summary.left_out:
        note(f"skipped: {left_out.path}: {left_out.reason}")
    if json:
        print_json({**summary.as_document(), **also})
    else:
        report = build_report(summary.scores, summary.failures, summary.references)
        print_fitted(partial(render_short, report))
    for pair in summary.not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    for spec, failure in outcome.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.error_type}: {failure.message}")
    resume = "" if options.force else f", and so does `{command_for(out, 'resume')}`"
    if outcome.left:
        note(f"stopped with {outcome.left} runs left; the same command resumes{resume}")
    if outcome.lost:
        note(
            f"{count(outcome.lost, 'run')} left the queue before being complete (cancelled, or "
            f"with a lost node); the same command resumes{resume}"
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


def print_plans(plans: Sequence[Plan], options: RunOptions, out: Path, *, json: bool) -> None:
    """Prints each cell with the expected time of its remaining runs.

    Args:
        plans: Plans to describe.
        options: Executor, jobs and other execution options.
        out: Results folder.
        json: Whether to print one JSON document.

    Raises:
        InputError: Something is missing here that the runs would need.
    """
    from imitbench.cli.output import Column, count, duration, note, print_json, print_table
    from imitbench.executors.registry import executor_class

    executor = executor_class(options.executor)
    executor.check(options)
    cells, ahead = _cells(plans, out)
    rows = [
        {"algo": algo, "env": env, "budget": budget, **cell}
        for (_, algo, env, budget), cell in cells.items()
    ]
    preview = executor.preview(options, ahead)
    total = sum(ahead)
    if preview is None:  # the longest run is a lower bound for any number of workers
        total = max([0.0, *ahead, total / (options.jobs or 1)])
    not_applicable = [pair for plan in plans for pair in plan.not_applicable]
    if json:
        submission = {} if preview is None else {options.executor: preview.as_document()}
        print_json(
            {
                "cells": rows,
                "expected_seconds": total,
                "not_applicable": [vars(pair) for pair in not_applicable],
                **submission,
            }
        )
        return
    print_table(
        [
            "algorithm",
            "environment",
            Column("training", rank=1),
            "runs",
            Column("done", rank=2),
            "expected",
        ],
        [[*list(row.values())[:5], duration(row["seconds"])] for row in rows],
    )
    for pair in not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    if preview is None:
        note(f"expected time with --jobs {options.jobs}: about {duration(total)}")
        return
    print_table(
        [preview.command, Column("", below=True)], [list(pair) for pair in preview.request.items()]
    )
    inside = "" if preview.arrays is None else f" in {count(preview.arrays, 'job array')}"
    note(
        f"{count(len(ahead), 'run')} as {count(preview.tasks, 'task')}{inside}, about "
        f"{duration(total)} of one core in all"
    )


def _cells(
    plans: Sequence[Plan], out: Path
) -> tuple[dict[tuple[str, str, str, str], dict[str, Any]], list[float]]:
    """Returns cells by suite, algorithm, environment and budget, and the seconds of open runs."""
    from imitbench.store.run_dir import RunDirectory

    cells: dict[tuple[str, str, str, str], dict[str, Any]] = defaultdict(
        lambda: {"runs": 0, "done": 0, "seconds": 0.0}
    )
    ahead = []
    for plan in plans:
        estimates = plan.estimates(out)
        for spec in plan:
            budget = f"{spec.budget.amount} {spec.budget.unit}" if spec.budget.amount else "none"
            cell = cells[spec.suite, spec.algo_label, spec.environment.id, budget]
            cell["runs"] += 1
            if RunDirectory.of(out, spec).is_done:
                cell["done"] += 1
            else:
                ahead.append(estimates.seconds(spec))
                cell["seconds"] += ahead[-1]
    return cells, ahead
