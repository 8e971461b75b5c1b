"""`imitbench claims`: figures of papers beside own results, and checks of single claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options, run_options
from imitbench.cli.launch import print_plans
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    typed_command,
)
from imitbench.cli.record_options import command_class
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions

if TYPE_CHECKING:
    from imitbench.published.claim_outcomes import ComparedClaim
    from imitbench.published.claims import Claim
    from imitbench.race.claim_check import CheckResult
    from imitbench.stats.bootstrap import Interval

app = typer.Typer(rich_markup_mode=None)

_TableFile = Annotated[
    Path | None,
    option("--table", "CSV file of claims [that of this package].", "FILE", dir_okay=False),
]


@app.callback(invoke_without_command=True)
def claims(
    context: typer.Context,
    algo: Annotated[
        list[str],
        option("--algo", "Only claims about these methods; repeatable.", "NAME",
               completion.algorithms),
    ] = [],  # noqa: B006 (typer copies it)
    results: Annotated[
        list[str],
        option("--results", "Results to compare with the claims; repeatable.", "DIR",
               completion.results_locations),
    ] = ["published"],  # noqa: B006
    table: _TableFile = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Compare figures of papers with results, and check them; without a command, list them.

    A figure is reproduced if the 95% interval of the results' share of the expert's return lies
    within 0.1 of it, and not reproduced if that interval lies wholly farther away.

    Example: imitbench claims --algo iq_learn
    """
    if not options.is_alone(context):
        return
    from imitbench.published.claim_outcomes import compare_claims
    from imitbench.published.opening import results_location
    from imitbench.published.results_sources import find_results
    from imitbench.report.claims_table import RULE, claims_summary
    from imitbench.util.name_lists import split_names

    known = _read(table)
    wanted = set(split_names("--algo", algo)) if algo else {claim.algo for claim in known}
    _check_known(wanted, known)
    sources = find_results(*map(results_location, dict.fromkeys(results))).sources
    runs = [run for source in sources if not source.superseded_by for run in source.runs]
    compared = [
        comparison for comparison in compare_claims(known, runs) if comparison.claim.algo in wanted
    ]
    if json:
        print_json([_document(comparison) for comparison in compared])
        return
    _print(compared)
    note(claims_summary(compared))
    note(RULE)
    note("`imitbench claims check N` runs the comparison of claim N here")


@app.command("check", cls=command_class(RunOptions))
def check(
    context: typer.Context,
    number: Annotated[int, argument("N", "Number of the claim, as `imitbench claims` shows it.")],
    seeds: run_options.Seeds = "10",
    table: _TableFile = None,
    out: options.Out = options.DEFAULT_OUT,
    dry_run: run_options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train the method of a claim on its task, and say whether the figure is reproduced.

    Seeds, margin and settings are registered before the first run. Completed runs are kept: the
    same command does only the missing ones.

    Example: imitbench claims check 20 --seeds 10 --jobs 2
    """
    from imitbench.bench.plan import parse_seeds
    from imitbench.executors.registry import resolve
    from imitbench.published.claim_outcomes import numbered_claims
    from imitbench.race.claim_check import plan_check, run_check

    numbered = numbered_claims(_read(table))
    if number not in numbered:
        raise InputError(f"claim {number}: there are claims 1 to {len(numbered)}; "
                         "`imitbench claims` lists them")  # fmt: skip
    resolved = resolve(context.obj)
    planned = plan_check(
        number,
        numbered[number],
        parse_seeds(seeds),
        resolved,
        command=typed_command(),
        notify=make_notifier(quiet=quiet),
        collect=not dry_run,
    )
    if dry_run:
        print_plans([planned.plan], resolved, out, json=json)
        return
    result = run_check(planned, resolved, out=out, command=typed_command(), quiet=quiet)
    _show(result, planned.claim, out, json=json)


def _read(table: Path | None) -> list[Claim]:
    from imitbench.published.claims import BUNDLED_TABLE, read_claims
    from imitbench.published.opening import PUBLISHED, results_location

    return read_claims(results_location(PUBLISHED) / BUNDLED_TABLE if table is None else table)


def _check_known(wanted: set[str], known: list[Claim]) -> None:
    from imitbench.errors import did_you_mean

    algorithms = {claim.algo for claim in known}
    for name in sorted(wanted - algorithms):
        raise InputError(f"--algo {name}: no claim is about it; {did_you_mean(name, algorithms)}")


def _print(compared: list[ComparedClaim]) -> None:
    from imitbench.report.claims_table import claims_tables
    from imitbench.report.terminal import text_columns

    tables = claims_tables(compared).values()
    columns = next(iter(tables)).columns
    print_table(
        text_columns(columns),
        [[cell.shown for cell in row] for table in tables for row in table.rows],
    )


def _show(result: CheckResult, claim: Claim, out: Path, *, json: bool) -> None:
    """Prints the verdict, and what is missing for it.

    Raises:
        typer.Exit: With 130 if runs are missing.
    """
    from imitbench.store.collector import collect
    from imitbench.store.registered_designs import design_folder

    collect(out)
    folder = design_folder(out, result.registered)
    for spec, failure in result.trained.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.message}; counts as random actions")
    if result.compared is None:
        note("the verdict needs all runs; the same command goes on")
        raise typer.Exit(130)
    if json:
        print_json({"design": result.registered.id, **_document(result.compared)})
        return
    print_text(_sentence(result.compared))
    note(f"{claim.url}; design in {folder}")


def _sentence(comparison: ComparedClaim) -> str:
    from imitbench.published.claim_outcomes import on_one_scale
    from imitbench.report.claims_table import interval_text, verdict_text

    claim, own = comparison.claim, comparison.own
    assert own is not None  # its runs are there
    both = on_one_scale(claim, own)
    if both is None:
        return f"{verdict_text(comparison)}: {claim.text}"
    scale, theirs, ours = both
    return (
        f"{verdict_text(comparison)}: {claim.text} has {claim.algo} at a {scale} of {theirs:.3f}; "
        f"here it is {interval_text(ours)} over {own.seeds} seeds of {claim.env}"
    )


def _document(comparison: ComparedClaim) -> dict[str, Any]:
    own = comparison.own
    return {
        "number": comparison.number,
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "claim": {
            **comparison.claim.model_dump(mode="json"),
            "share": comparison.claim.share,
            "score": comparison.claim.score,
        },
        "own": None
        if own is None
        else {
            "seeds": own.seeds,
            "failed": own.failed,
            "mean_return": own.mean_return,
            "share": _interval(own.share),
            "score": _interval(own.score),
            "best_score": own.best_score,
        },
    }


def _interval(value: Interval | None) -> dict[str, float | None] | None:
    if value is None:
        return None
    ends = (value.low, value.high) if value.known else (None, None)
    return {"mean": value.point, "low": ends[0], "high": ends[1]}
