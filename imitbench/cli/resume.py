"""`imitbench resume`: does whatever was asked for and has no result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch, print_plans
from imitbench.cli.record_options import takes
from imitbench.executors.options import RunOptions

if TYPE_CHECKING:
    from imitbench.bench.request import UnresumableRuns


@takes(RunOptions, device="auto", force=False)
def resume(
    context: typer.Context,
    out: options.Out = options.DEFAULT_OUT,
    algo: Annotated[
        list[str],
        typer.Option("--algo", metavar="PLUGIN", help="Plug-in that may be run; repeatable."),
    ] = [],  # noqa: B006 (typer copies it)
    suite: Annotated[
        list[str],
        typer.Option("--suite", metavar="DIR", help="Folder of a suite that may be run."),
    ] = [],  # noqa: B006
    dry_run: run_options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Do every run of a results folder that was asked for and has no result.

    Interrupted runs go on from their last checkpoint, waiting ones are begun, and failed ones are
    tried again. What every sweep asked for stands in the folder .sweeps of the results folder.
    Runs that the same request would not give today, because a card has changed, say, are named
    and left out; the exit code is then 1. So are runs of plug-ins, unless they are named again:
    what a results folder says is no reason to run anybody's code.

    Example: imitbench resume --out runs --jobs 2
    """
    from imitbench.bench.request import PluginSelection, plan_missing
    from imitbench.bench.summary import SweepSummary
    from imitbench.cli.output import make_notifier, note, print_json
    from imitbench.executors.registry import resolve

    resolved = resolve(context.obj)
    missing = plan_missing(out, make_notifier(quiet=quiet), PluginSelection.named(algo, suite))
    for each in missing.left_out:
        note(_line(each))
    if not missing.plans and not json:
        if not missing.left_out:
            note(f"nothing is missing in {out}")
    elif dry_run:
        print_plans(missing.plans, resolved, out, json=json)
    elif not missing.plans:
        print_json(SweepSummary(out).as_document())
    else:
        launch(missing.plans, resolved, out, json=json, quiet=quiet)
    if missing.left_out:
        raise typer.Exit(1)


def _line(each: UnresumableRuns) -> str:
    from imitbench.cli.output import count

    return f"left out: {count(each.runs, 'run')} of `{each.command}`: {each.why}"
