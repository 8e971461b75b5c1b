"""`imitbench race`: trains batches of seeds until comparisons are decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from imitbench.cli import completion, options, run_options
from imitbench.cli.launch import print_plans
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    command_for,
    count,
    make_notifier,
    note,
    print_json,
    print_table,
    typed_command,
)
from imitbench.cli.record_options import with_options_of
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.util.name_lists import join_names, split_names

if TYPE_CHECKING:
    from imitbench.race.driver import RaceResult
    from imitbench.race.planning import PlannedRace
    from imitbench.report.model import Table

New = Annotated[
    list[str],
    argument(
        "NEW...", "Algorithms to compare: names, ./plugin or package.module.", completion.algorithms
    ),
]
NewOption = Annotated[
    list[str],
    option("--algo", "More algorithms, as NEW; repeatable.", "NEW", completion.algorithms),
]
Baselines = Annotated[
    list[str],
    option(
        "--baseline",
        "Algorithm to compare each of them with; repeatable.",
        "ALGO",
        completion.algorithms,
    ),
]
Batch = Annotated[int, option("--batch", "Seeds that are trained between two looks.", "N")]
MaxSeeds = Annotated[int, option("--max-seeds", "Seeds after which the race ends, undecided.", "N")]
Alpha = Annotated[float, option("--alpha", "Chance of any false decision, over the whole race.")]
Margin = Annotated[
    float, option("--margin", "Difference of scores up to which methods are equivalent.")
]
FailedRuns = Annotated[
    Literal["either", "count-as-random", "exclude"],
    option("--failed-runs", "How failed runs count; either: no decision may depend on it."),
]
Simulate = Annotated[
    bool,
    option("--simulate", "Train nothing: print chances of verdicts and cost of several designs."),
]
Scores = Annotated[
    str | None,
    option(
        "--scores",
        "What --simulate draws from: results [--out], published, "
        "normal:DIFFERENCE,SPREAD or collapse:DIFFERENCE,SPREAD,RATE.",
        "DIR|SHAPE",
        completion.results_locations,
    ),
]
Draws = Annotated[
    int | None, option("--draws", "Races that --simulate simulates [200].", min=10, max=100_000)
]


@with_options_of(RunOptions, force=False, pack=None)
def race(
    context: typer.Context,
    baseline: Baselines,
    new: New = [],  # noqa: B006 (typer copies it)
    also_new: NewOption = [],  # noqa: B006
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    batch: Batch = 5,
    max_seeds: MaxSeeds = 40,
    alpha: Alpha = 0.05,
    margin: Margin = 0.05,
    failed_runs: FailedRuns = "either",
    acting: options.Acting = None,
    out: options.Out = options.DEFAULT_OUT,
    set_: run_options.Set = [],  # noqa: B006
    config: run_options.Config = "default",
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = None,
    demo_every: run_options.DemoEvery = None,
    regime: run_options.Regime = None,
    actions: run_options.Actions = None,
    mixture: run_options.MixtureOption = None,
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    dry_run: run_options.DryRun = False,
    simulate: Simulate = False,
    scores: Scores = None,
    draws: Draws = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train batches of seeds until each comparison is decided: better, worse or equivalent.

    After each batch, what is decided stops; the rest goes on, up to --max-seeds. The design is
    registered before the first run, and cannot change. The same command resumes a race.

    Example: imitbench race sqil --baseline bc --env Pendulum-v1 --budget quick --batch 3 --jobs 2
    """
    from imitbench.bench.plan import DemoChoice, parse_overrides
    from imitbench.bench.request import lock_in_use
    from imitbench.executors.registry import resolve
    from imitbench.race.planning import RaceOptions, plan_race
    from imitbench.store.sweep_file import SweepRequest

    if not simulate:
        _refuse({"--scores": scores, "--draws": draws})
    resolved = resolve(context.obj)
    demos = DemoChoice.parse(n_demos, demo_every, regime, actions, mixture).only(suite, "a race")
    planned = plan_race(
        _named([*new, *also_new], baseline),
        split_names("--baseline", baseline),
        SweepRequest(
            algorithms=[],
            suite=suite,
            environment=join_names("--env", env),
            seeds=[],
            config=config,
            budget=budget,
            **demos.recorded,
            overrides=parse_overrides(set_),
            source=source,
            lock=lock_in_use(lock, source),
            device=resolved.device_class,
            folder=str(Path.cwd()),
        ),
        RaceOptions(batch, max_seeds, alpha, margin, failed_runs, acting),
        command=typed_command(),
        out=out,
        notify=make_notifier(quiet=quiet),
        collect=not (dry_run or simulate),
    )
    for line in [] if quiet else planned.notes:
        note(line)
    if simulate:
        _simulate(planned, str(out) if scores is None else scores, out, draws or 200, json=json)
    elif dry_run:
        _print_plan(planned, resolved, out, json=json)
    else:
        _finish(planned, resolved, out, json=json, quiet=quiet)


def _named(new: list[str], baseline: list[str]) -> list[str]:
    """Returns the names of the algorithms to compare."""
    if not new:
        raise InputError(
            "race: name the algorithms to compare with the baseline: imitbench race NEW "
            f"--baseline {baseline[0]}"
        )
    return split_names("NEW", new)


def _print_plan(planned: PlannedRace, options: RunOptions, out: Path, *, json: bool) -> None:
    """Prints what the race may need."""
    if not json:
        note("at most; a race ends as soon as all is decided:")
    print_plans([planned.plan], options, out, json=json)


def _finish(
    planned: PlannedRace, options: RunOptions, out: Path, *, json: bool, quiet: bool
) -> None:
    """Runs the race, and prints its verdicts."""
    result = carry_on(planned, options, out, quiet=quiet)
    show(result, out, json=json, quiet=quiet)
    raise typer.Exit(exit_code(result, options))


def _refuse(only_simulated: Mapping[str, str | int | None]) -> None:
    """Refuses options that say nothing without `--simulate`."""
    for name, value in only_simulated.items():
        if value is not None:
            raise InputError(f"{name} {value}: works only with --simulate")


def _simulate(planned: PlannedRace, scores: str, out: Path, draws: int, *, json: bool) -> None:
    """Prints what several designs lead to."""
    from imitbench.race.simulation import simulate_designs, verdict_chances

    found = simulate_designs(planned, scores, out, draws=draws, notify=note)
    rows = [
        {
            "batch": simulated.design.batch,
            "max_seeds": simulated.design.max_seeds,
            "method": pair[0],
            "baseline": pair[1],
            **chances,
            "runs": float(simulated.found.runs.mean()),
            "core_hours": simulated.found.cost or 0.0,
        }
        for simulated in found
        for pair, chances in verdict_chances(simulated)
    ]
    if json:
        print_json({"scores": scores, "draws": draws, "designs": rows})
        return
    print_table(
        [name.replace("_", " ") for name in rows[0]],
        [
            [round(value, 3) if isinstance(value, float) else value for value in row.values()]
            for row in rows
        ],
    )
    note(
        f"{draws} races of each design with scores of {scores}; runs and core hours are means of "
        "the whole race"
    )
    if planned.race.design.acting == "both":
        note("simulated by sampled actions alone; races that decide by both ways take longer")


def carry_on(planned: PlannedRace, options: RunOptions, out: Path, *, quiet: bool) -> RaceResult:
    """Carries out a race, and shows its progress on stderr."""
    from imitbench.race.driver import run_race
    from imitbench.race.reporting import RaceNotes

    return run_race(
        planned,
        options,
        out=out,
        command=typed_command(),
        observer=RaceNotes(quiet=quiet),
        quiet=quiet,
    )


def exit_code(result: RaceResult, options: RunOptions) -> int:
    """Returns 130 for a stopped race, 1 if runs failed or were lost, else 0."""
    trained = result.trained
    if trained.left or (options.wait and trained.queued):
        return 130
    return 1 if result.standing.failures or trained.lost else 0


def show(result: RaceResult, out: Path, *, json: bool, quiet: bool) -> None:
    """Prints verdicts and seeds to stdout, and what remains to be done to stderr."""
    from imitbench.report.race_tables import seeds_table, verdict_table
    from imitbench.store.collector import collect

    collect(out)
    standing = result.standing
    if json:
        print_json(document(result))
    else:
        _print_table(verdict_table(standing.design, standing.found))
        _print_table(seeds_table(standing.design, standing.found))
    _print_state(result, out, quiet=quiet)


def document(result: RaceResult) -> dict[str, Any]:
    """Returns what `--json` prints."""
    from imitbench.report.race_tables import race_document

    standing, trained = result.standing, result.trained
    return {
        "race": result.race.id,
        "registered_at": result.race.registered_at,
        **race_document(standing.design, standing.found),
        "done": trained.done,
        "left": trained.left,
        "queued": trained.queued,
        "lost": trained.lost,
        "failed": [
            {"run": spec.label, "run_id": spec.run_id, "phase": failure.phase,
             "error_type": failure.error_type, "message": failure.message}
            for spec, failure in standing.failures
        ],
    }  # fmt: skip


def _print_table(table: Table) -> None:
    rows = [
        [
            cell.shown if index < table.names or cell.key is None else _plain(cell.shown, cell.key)
            for index, cell in enumerate(row)
        ]
        for row in table.rows
    ]
    print_table([column.heading for column in table.columns], rows)
    typer.echo()


def _plain(shown: str, key: float) -> object:
    return int(key) if shown.lstrip("-").isdecimal() else shown


def _print_state(result: RaceResult, out: Path, *, quiet: bool) -> None:
    from imitbench.store.registered_designs import design_folder

    standing, trained = result.standing, result.trained
    resume = command_for(out, "resume")
    if standing.hopeless:
        for spec, failure in standing.hopeless:
            note(
                f"stopped: {spec.algo_label} on {spec.environment.id} failed in every run "
                f"({failure.phase}: {failure.error_type}: {failure.message}); fix that, then the "
                "same command tries these runs again, or leave it out"
            )
    elif standing.failures:
        note(f"{count(len(standing.failures), 'run')} failed; `{command_for(out, 'status')}`")
    if trained.left:
        note(
            f"stopped with {count(trained.left, 'run')} of this batch left; the same command goes "
            f"on, and so does `{resume}`"
        )
    if trained.lost:
        note(
            f"{count(trained.lost, 'run')} left the queue before being complete; the same command "
            f"goes on, and so does `{resume}`"
        )
    if trained.queued:
        note(
            f"{count(trained.queued, 'run')} in the queue; when they are done, `{resume}` starts "
            "the next batch; --wait stays until the race is over"
        )
    if standing.over and not quiet:
        runs = count(len(standing.runs), "run")
        note(f"over: {runs}; results in {out}, design in {design_folder(out, result.race)}")
