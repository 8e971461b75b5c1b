"""What `--dry-run` shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.bench.plan import Plan


def print_plans(plans: Sequence[Plan], out: Path, jobs: int, *, json: bool) -> None:
    """Shows each cell with the expected time of what is still to do.

    Args:
        plans: What would be done.
        out: Results folder.
        jobs: Runs at a time.
        json: Whether as one JSON document.
    """
    from imitbench.bench.cost import expected_seconds
    from imitbench.cli.output import duration, note, print_json, print_table
    from imitbench.errors import InputError
    from imitbench.store import database
    from imitbench.store.run_dir import RunDirectory

    try:
        with database.reader(out) as connection:
            history = database.read_durations(connection)
    except InputError:
        history = {}
    cells: dict[tuple[str, str, str, str], dict[str, Any]] = defaultdict(
        lambda: {"runs": 0, "done": 0, "seconds": 0.0}
    )
    for plan in plans:
        cards = {card.name: card for card, _ in plan.algorithms}
        for spec in plan:
            budget = f"{spec.budget.amount} {spec.budget.unit}" if spec.budget.amount else "none"
            cell = cells[spec.suite, spec.algo_label, spec.environment.id, budget]
            cell["runs"] += 1
            if RunDirectory.of(out, spec).is_done:
                cell["done"] += 1
            else:
                cell["seconds"] += expected_seconds(
                    spec, cards[spec.algo], plan.environments[spec.environment.id], history
                )
    rows = [
        {"algo": algo, "env": env, "budget": budget, **cell}
        for (_, algo, env, budget), cell in cells.items()
    ]
    total = sum(row["seconds"] for row in rows) / jobs
    if json:
        print_json({"cells": rows, "expected_seconds": total})
        return
    print_table(
        ["algorithm", "environment", "training", "runs", "done", "expected"],
        [[*list(row.values())[:5], duration(row["seconds"])] for row in rows],
    )
    for pair in [pair for plan in plans for pair in plan.not_applicable]:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    note(f"expected time with --jobs {jobs}: about {duration(total)}")
