"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cards.suite import BudgetName
from imitbench.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.bench.plan import Plan
    from imitbench.bench.sweep import Outcome


def run(
    algo: Annotated[
        list[str], typer.Option("--algo", metavar="NAME", help="Algorithm; repeatable; or 'all'.")
    ],
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    seeds: Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,3,5-9).")] = "3",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time.")] = 1,
    out: options.Out = options.DEFAULT_OUT,
    set_: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="Hyper-parameter, or ALGO.NAME=VALUE."),
    ] = [],  # noqa: B006 (typer copies it)
    budget: Annotated[BudgetName, typer.Option("--budget", help="How much training.")] = "default",
    n_demos: Annotated[
        int | None, typer.Option("--n-demos", help="Demonstrations to learn from [all].")
    ] = None,
    source: Annotated[
        str,
        typer.Option("--source", help="Experts and demos: bundled, hub, path:DIR, or minari:NAME."),
    ] = "bundled",
    lock: options.Lock = options.DEFAULT_LOCK,
    executor: Annotated[
        str, typer.Option("--executor", help="Where runs are done: local or inline.")
    ] = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and its expected cost only.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Do completed runs again.")] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first failure.")
    ] = False,
    checkpoint_minutes: Annotated[
        float,
        typer.Option(
            "--checkpoint-minutes", min=0.0, help="Between checkpoints, from which runs resume."
        ),
    ] = 10.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train and evaluate every algorithm on every environment and seed.

    Completed runs are kept: the same command again does only what is missing, and goes on with
    interrupted runs from their last checkpoint.

    Example: imitbench run --algo bc --suite classic --seeds 3 --jobs 2
    """
    from imitbench.bench.plan import make_plan, parse_overrides, parse_seeds
    from imitbench.bench.spec import Settings
    from imitbench.cli.hub_progress import make_tell
    from imitbench.hub.lock_file import read_lock

    plan = make_plan(
        algorithms=algo,
        suite=suite,
        environment=env,
        seeds=parse_seeds(seeds),
        settings=Settings(
            source=source, budget=budget, n_demos=n_demos, overrides=parse_overrides(set_)
        ),
        lock=read_lock(lock) if source == "hub" else None,
        tell=make_tell(quiet=quiet),
    )
    if dry_run:
        _print_plan(plan, out, jobs, json)
        return
    outcome = _execute(plan, out, executor, jobs, force, fail_fast, checkpoint_minutes, quiet)
    _summarize(plan, out, outcome, json, quiet)
    if outcome.left:
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


def _execute(
    plan: Plan,
    out: Path,
    executor: str,
    jobs: int,
    force: bool,
    fail_fast: bool,
    checkpoint_minutes: float,
    quiet: bool,
) -> Outcome:
    import importlib
    import threading

    from imitbench.bench.sweep import WORKER, run_sweep
    from imitbench.cli.progress import make_observer
    from imitbench.cli.provenance import typed_command
    from imitbench.executors.registry import make_executor

    pool = make_executor(executor, entry=WORKER, jobs=jobs)
    # What the summary needs is loaded while the workers are busy. Not as a daemon: a process
    # that ends in the middle of an import may crash.
    loader = threading.Thread(target=importlib.import_module, args=("imitbench.store.collector",))
    loader.start()
    try:
        with make_observer(quiet=quiet) as observer:
            return run_sweep(
                plan,
                pool,
                out=out,
                command=typed_command(),
                observer=observer,
                force=force,
                fail_fast=fail_fast,
                checkpoint_s=60 * checkpoint_minutes,
            )
    finally:
        loader.join()  # also before bad input is told: see above


def _summarize(plan: Plan, out: Path, outcome: Outcome, json: bool, quiet: bool) -> None:
    """Collects, then says what happened: counts and failures to stderr, scores to stdout."""
    from imitbench.cli.output import note, print_json
    from imitbench.report.tables import build_report
    from imitbench.report.terminal import render_short
    from imitbench.store import database
    from imitbench.store.collector import collect

    for left_out in collect(out).quarantined:
        note(f"left out: {left_out.path}: {left_out.reason}")
    wanted = {spec.run_id for spec in plan}
    with database.reader(out) as connection:
        scores = [row for row in database.read_scores(connection) if row.run_id in wanted]
        failures = [row for row in database.read_failures(connection) if row.run_id in wanted]
        references = [
            row
            for row in database.read_references(connection)
            if row.suite == plan.suite.name and row.env in plan.environments
        ]
    if json:
        document: dict[str, Any] = {
            "already_done": outcome.already_done,
            "done": outcome.done,
            "failed": [row.model_dump(mode="json") for row in failures],
            "left": outcome.left,
            "not_applicable": [vars(pair) for pair in plan.not_applicable],
            "scores": [row.model_dump(mode="json") for row in scores],
        }
        print_json(document)
    else:
        typer.echo(render_short(build_report(scores, failures, references)), nl=False)
    for pair in plan.not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    for spec, failure in outcome.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.error_type}: {failure.message}")
    if outcome.left:
        note(f"stopped with {outcome.left} runs left; the same command resumes")
    if not quiet:
        note(
            f"{outcome.done} done, {outcome.already_done} already there, "
            f"{len(outcome.failed)} failed; results in {out}"
        )


def _print_plan(plan: Plan, out: Path, jobs: int, json: bool) -> None:
    """Shows each cell with the expected time of what is still to do."""
    from collections import defaultdict

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
    cards = {card.name: card for card, _ in plan.algorithms}
    cells: dict[tuple[str, str, str], dict[str, Any]] = defaultdict(
        lambda: {"runs": 0, "done": 0, "seconds": 0.0}
    )
    for spec in plan:
        budget = f"{spec.budget.amount} {spec.budget.unit}" if spec.budget.amount else "none"
        cell = cells[spec.algo_label, spec.environment.id, budget]
        cell["runs"] += 1
        if RunDirectory.of(out, spec).is_done:
            cell["done"] += 1
        else:
            cell["seconds"] += expected_seconds(
                spec, cards[spec.algo], plan.environments[spec.environment.id], history
            )
    rows = [
        {"algo": algo, "env": env, "budget": budget, **cell}
        for (algo, env, budget), cell in cells.items()
    ]
    total = sum(row["seconds"] for row in rows) / jobs
    if json:
        print_json({"cells": rows, "expected_seconds": total})
        return
    print_table(
        ["algorithm", "environment", "training", "runs", "done", "expected"],
        [[*list(row.values())[:5], duration(row["seconds"])] for row in rows],
    )
    for pair in plan.not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    note(f"expected time with --jobs {jobs}: about {duration(total)}")
