"""What a plan will do and about how long it will take, without doing it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imitbench.bench.plan import Plan
    from imitbench.executors.options import RunOptions


def print_plans(plans: Sequence[Plan], how: RunOptions, out: Path, *, json: bool) -> None:
    """Shows each cell with the expected time of what is still to do.

    Args:
        plans: What would be done.
        how: How it would be done.
        out: Results folder.
        json: Whether as one JSON document.
    """
    from imitbench.cli.output import count, duration, note, print_json, print_table
    from imitbench.executors.registry import executor_class

    cells, ahead = _cells(plans, out)
    rows = [
        {"algo": algo, "env": env, "budget": budget, **cell}
        for (_, algo, env, budget), cell in cells.items()
    ]
    preview = executor_class(how.executor).preview(how, ahead)
    total = sum(ahead)
    if preview is None:  # however many workers there are, the longest run takes its time
        total = max([0.0, *ahead, total / (how.jobs or 1)])
    not_applicable = [pair for plan in plans for pair in plan.not_applicable]
    if json:
        submission = {} if preview is None else {how.executor: preview.as_document()}
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
        ["algorithm", "environment", "training", "runs", "done", "expected"],
        [[*list(row.values())[:5], duration(row["seconds"])] for row in rows],
    )
    for pair in not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    if preview is None:
        note(f"expected time with --jobs {how.jobs}: about {duration(total)}")
        return
    print_table([preview.command, ""], [list(pair) for pair in preview.request.items()])
    inside = "" if preview.arrays is None else f" in {count(preview.arrays, 'job array')}"
    note(
        f"{count(len(ahead), 'run')} as {count(preview.tasks, 'task')}{inside}, about "
        f"{duration(total)} of one core in all"
    )


def _cells(
    plans: Sequence[Plan], out: Path
) -> tuple[dict[tuple[str, str, str, str], dict[str, Any]], list[float]]:
    """Runs by suite, algorithm, environment and budget, and the seconds of each run to do."""
    from imitbench.bench.cost import Estimates
    from imitbench.store.run_dir import RunDirectory

    cells: dict[tuple[str, str, str, str], dict[str, Any]] = defaultdict(
        lambda: {"runs": 0, "done": 0, "seconds": 0.0}
    )
    ahead = []
    for plan in plans:
        estimates = Estimates(plan, out)
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
