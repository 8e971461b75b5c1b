"""Runs plans and prints their outcome, or prints the expected cost without running them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.bench.plan import NotApplicable, Plan
    from imitbench.bench.summary import SweepSummary
    from imitbench.bench.sweep import SweepOutcome
    from imitbench.executors.options import RunOptions


def launch(
    plans: Sequence[Plan],
    options: RunOptions,
    out: Path,
    *,
    json: bool,
    quiet: bool,
    also: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Runs or submits plans in sequence, collects the results, and prints one short table.

    Args:
        plans: Plans, in the order in which they run.
        options: Executor, jobs and other execution options.
        out: Results folder.
        json: Whether the summary is one JSON document.
        quiet: Whether to hide progress.
        also: Called after the sweep, which may have been stopped; returns further entries of that
            document.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed or were lost.
    """
    from imitbench.bench.progress import make_observer
    from imitbench.bench.summary import summarize_sweep
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.output import typed_command

    if not quiet:  # before runs that may take hours; the end says it again
        _note_misfits(pair for plan in plans for pair in plan.not_applicable)
    with make_observer(quiet=quiet) as observer:
        outcome = carry_out(plans, options, out=out, command=typed_command(), observer=observer)
    summary = summarize_sweep(plans, out, outcome)
    _print(summary, options, json=json, quiet=quiet, also=also)
    if outcome.left or (options.wait and outcome.queued):
        raise typer.Exit(130)
    if outcome.failed or outcome.lost:
        raise typer.Exit(1)


def complete(
    plans: Sequence[Plan], options: RunOptions, out: Path, *, quiet: bool, what: str
) -> SweepOutcome:
    """Runs plans of which every run is needed.

    Args:
        plans: See `launch`, also the next three.
        options: As above.
        out: As above.
        quiet: As above.
        what: What needs the runs, for the message.

    Returns:
        The outcome: all runs are complete.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed or were lost.
    """
    from imitbench.bench.progress import make_observer
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.output import note, typed_command

    with make_observer(quiet=quiet) as observer:
        outcome = carry_out(plans, options, out=out, command=typed_command(), observer=observer)
    _note_failures(outcome)
    if outcome.left or outcome.queued or outcome.lost:
        note(f"{what} needs all its runs; the same command continues")
        raise typer.Exit(130 if outcome.left else 1)
    if outcome.failed:
        raise typer.Exit(1)
    return outcome


def _note_misfits(pairs: Iterable[NotApplicable]) -> None:
    from imitbench.cli.output import note

    for pair in pairs:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")


def _note_failures(outcome: SweepOutcome) -> None:
    from imitbench.cli.output import note

    for spec, failure in outcome.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.error_type}: {failure.message}")


def _print(
    summary: SweepSummary,
    options: RunOptions,
    *,
    json: bool,
    quiet: bool,
    also: Callable[[], Mapping[str, Any]],
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
        print_json({**summary.as_document(), **also()})
    else:
        report = build_report(summary.scores, summary.failures, summary.references)
        print_fitted(partial(render_short, report))
    if quiet or outcome.done or outcome.failed:  # else the start of this output has said it
        _note_misfits(summary.not_applicable)
    _note_failures(outcome)
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


_Cell = tuple[str, str, str, str]


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
    from imitbench.cli.output import TextColumn, count, duration, note, print_json, print_table
    from imitbench.executors.registry import executor_class

    executor = executor_class(options.executor)
    cells, ahead, hours = _cells(plans, options, out)
    previews = {}
    for processor, seconds in ahead.items():
        own = options.model_copy(update={"device": processor})
        executor.check(own)
        if (preview := executor.preview(own, seconds)) is not None:
            previews[processor] = preview
    rows = [
        {"algo": algo, "env": env, "budget": budget, **cell}
        for (_, algo, env, budget), cell in cells.items()
    ]
    every = [seconds for own in ahead.values() for seconds in own]
    total = sum(every)
    if not previews:  # the longest run is a lower bound for any number of workers
        total = max([0.0, *every, total / (options.jobs or 1)])
    not_applicable = [pair for plan in plans for pair in plan.not_applicable]
    to_collect = {(one.env, one.name): one for plan in plans for one in plan.missing_sets}
    if json:
        documents = {name: preview.as_document() for name, preview in previews.items()}
        submission: dict[str, Any] = {options.executor: documents} if documents else {}
        if len(documents) == 1:
            (submission[options.executor],) = documents.values()
        print_json(
            {
                "cells": rows,
                "expected_seconds": total,
                "hours": hours,
                "not_applicable": [vars(pair) for pair in not_applicable],
                "to_collect": [
                    {"env": env, "set": name, "trajectories": one.recipe.trajectories}
                    for (env, name), one in to_collect.items()
                ],
                **submission,
            }
        )
        return
    print_table(
        [
            "algorithm",
            "environment",
            TextColumn("training", rank=1),
            "runs",
            TextColumn("done", rank=2),
            "expected",
        ],
        [[*list(row.values())[:5], duration(row["seconds"])] for row in rows],
    )
    _note_misfits(not_applicable)
    if to_collect:
        note(f"collected before the first run: {_sets_in_words(to_collect)}")
    for what, kind in (("core-hours", "cpu"), ("GPU-hours", "gpu")):
        if shares := [f"{algo} {own[kind]:.2g}" for algo, own in hours.items() if own[kind]]:
            note(f"{what}: {sum(own[kind] for own in hours.values()):.2g} ({', '.join(shares)})")
    if not previews:
        note(f"expected time with --jobs {options.jobs}: about {duration(total)}")
    for processor, preview in previews.items():
        rows_of = [list(pair) for pair in preview.request.items()]
        print_table([preview.command, TextColumn("", below=True)], rows_of)
        inside = "" if preview.arrays is None else f" in {count(preview.arrays, 'job array')}"
        note(
            f"{count(len(ahead[processor]), 'run')} as {count(preview.tasks, 'task')}{inside}, "
            f"about {duration(sum(ahead[processor]))} of one core in all"
        )


def _sets_in_words(sets: Iterable[tuple[str, str]]) -> str:
    """Describes sets, given by environment and name, such as `medium of Hopper-v5`."""
    environments: dict[str, list[str]] = {}
    for env, name in sets:
        environments.setdefault(name, []).append(env)
    return ", ".join(
        f"{name} of {own[0] if len(own) == 1 else f'{len(own)} environments'}"
        for name, own in environments.items()
    )


def _cells(
    plans: Sequence[Plan], options: RunOptions, out: Path
) -> tuple[dict[_Cell, dict[str, Any]], dict[str, list[float]], dict[str, dict[str, float]]]:
    """Returns what open runs are expected to cost.

    Returns:
        Cells by suite, algorithm, environment and budget; the seconds of each open run, by the
        processor that its plan needs; and the hours by algorithm, of cores (`cpu`) and of GPUs
        (`gpu`), which `--per-gpu` runs share.
    """
    from imitbench.store.run_dir import RunDirectory

    cells: dict[_Cell, dict[str, Any]] = defaultdict(lambda: {"runs": 0, "done": 0, "seconds": 0.0})
    hours: dict[str, dict[str, float]] = defaultdict(lambda: {"cpu": 0.0, "gpu": 0.0})
    ahead: dict[str, list[float]] = {}
    for plan in plans:
        own = ahead.setdefault(plan.processor, [])
        estimates = plan.estimates(out)
        for spec in plan:
            budget = f"{spec.budget.amount} {spec.budget.unit}" if spec.budget.amount else "none"
            cell = cells[spec.suite, spec.algo_label, spec.environment.id, budget]
            cell["runs"] += 1
            if RunDirectory.of(out, spec).is_done:
                cell["done"] += 1
                continue
            own.append(estimates.seconds(spec))
            cell["seconds"] += own[-1]
            hours[spec.algo_label]["cpu"] += own[-1] / 3600
            if spec.device != "cpu":
                hours[spec.algo_label]["gpu"] += own[-1] / 3600 / (options.per_gpu or 1)
    return cells, ahead, hours
