"""`imitbench resume`: does all requested runs that have no result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch, print_plans
from imitbench.cli.output import count, make_notifier, note, print_json
from imitbench.cli.record_options import with_options_of
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.util.name_lists import split_names

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.bench.request import PluginSelection


@with_options_of(RunOptions, device="auto", force=False, pack=None)
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
    tried again. Races go on until they are over; their failed runs count, and are not tried again.
    The folder .sweeps of the results folder records what every sweep requested, .races every race.
    Runs that the same request would not give today, for example because a card has changed, are
    listed and skipped; the exit code is then 1. The same holds for runs of plug-ins that you do
    not name again: a results folder alone must not make this command run third-party code.

    Example: imitbench resume --out runs --jobs 2
    """
    from imitbench.bench.request import PluginSelection, plan_missing
    from imitbench.bench.summary import SweepSummary
    from imitbench.executors.registry import resolve

    resolved = resolve(context.obj)
    plugins = PluginSelection.named(split_names("--algo", algo), split_names("--suite", suite))
    notify = make_notifier(quiet=quiet)
    missing = plan_missing(out, notify, plugins, collect=not dry_run)
    for skipped in missing.left_out:
        note(f"skipped: {count(skipped.runs, 'run')} of `{skipped.command}`: {skipped.why}")
    races = _Races(out, plugins, resolved, json=json, quiet=quiet, collect=not dry_run)
    if not dry_run:
        races.carry_on()
    plans = [*missing.plans, *(races.plans if dry_run else [])]
    if not plans and not json:
        if not (missing.left_out or races.done or races.left_out):
            note(f"nothing is missing in {out}")
    elif dry_run:
        print_plans(plans, resolved, out, json=json)
    elif not plans:
        print_json({**SweepSummary(out).as_document(), **races.document()})
    else:
        launch(plans, resolved, out, json=json, quiet=quiet, also=races.document)
    if missing.left_out or races.code or races.left_out:
        raise typer.Exit(races.code or 1)


class _Races:
    """The races of a results folder that are not over."""

    def __init__(
        self,
        out: Path,
        plugins: PluginSelection,
        options: RunOptions,
        *,
        json: bool,
        quiet: bool,
        collect: bool,
    ) -> None:
        from imitbench.race.driver import RaceStanding
        from imitbench.race.planning import plan_registered
        from imitbench.store.races import read_races

        self._out, self._options, self._json, self._quiet = out, options, json, quiet
        self._planned = []
        self.left_out = 0
        self.code = 0
        self.done: list[dict[str, Any]] = []
        for race in read_races(out):
            try:
                if not RaceStanding.read(out, race.design).over:
                    planned = plan_registered(
                        out, race, plugins, make_notifier(quiet=quiet), collect=collect
                    )
                    self._planned.append(planned)
            except InputError as error:
                self.left_out += 1
                note(f"skipped: race of {race.design.title}: {error}")

    @property
    def plans(self) -> list[Plan]:
        """Plans of all runs that they may need."""
        return [planned.plan for planned in self._planned]

    def carry_on(self) -> None:
        """Carries out each race; raises `typer.Exit` if one is stopped."""
        from imitbench.cli.race import carry_on, document, exit_code, show

        for planned in self._planned:
            result = carry_on(planned, self._options, self._out, quiet=self._quiet)
            code = exit_code(result, self._options)
            self.done.append(document(result))
            if not self._json:
                show(result, self._out, json=False, quiet=self._quiet)
            if code == 130:
                raise typer.Exit(code)
            self.code = max(self.code, code)

    def document(self) -> dict[str, Any]:
        """Returns what `--json` prints on races; nothing without any."""
        return {"races": self.done} if self.done else {}
