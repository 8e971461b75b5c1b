"""`imitbench resume`: does all requested runs that have no result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch, print_plans
from imitbench.cli.record_options import takes
from imitbench.executors.options import RunOptions

if TYPE_CHECKING:
    from imitbench.bench.request import UnresumableRuns


@takes(RunOptions, device="auto", force=False, pack=None)
def resume(
    context: typer.Context,
    out: options.Out = options.DEFAULT_OUT,
    algo: Annotated[
        list[str],
        typer.Option("--algo", metavar="PLUGIN", help="Allow this plug-in to run; repeatable."),
    ] = [],  # noqa: B006 (typer copies it)
    suite: Annotated[
        list[str],
        typer.Option("--suite", metavar="DIR", help="Allow the suite in this folder to run."),
    ] = [],  # noqa: B006
    dry_run: run_options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Do every requested run of a results folder that has no result.

    Interrupted runs resume from their last checkpoint, waiting runs start, and failed runs are
    tried again. The folder .sweeps of the results folder records what every sweep requested.
    Runs that the same request would not give today, for example because a card has changed, are
    listed and skipped; the exit code is then 1. The same holds for runs of plug-ins that you do
    not name again: a results folder alone must not make this command run third-party code.

    Example: imitbench resume --out runs --jobs 2
    """
    from imitbench.bench.request import PluginSelection, plan_missing
    from imitbench.bench.summary import SweepSummary
    from imitbench.cli.output import make_notifier, note, print_json
    from imitbench.executors.registry import resolve
    from imitbench.util.name_lists import split_names

    resolved = resolve(context.obj)
    plugins = PluginSelection.named(split_names("--algo", algo), split_names("--suite", suite))
    missing = plan_missing(out, make_notifier(quiet=quiet), plugins)
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

    return f"skipped: {count(each.runs, 'run')} of `{each.command}`: {each.why}"
