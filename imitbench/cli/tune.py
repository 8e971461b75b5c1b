"""`imitbench tune`: searches for better hyper-parameters, and tests whether they are better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from imitbench.cli import options, run_options

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.cli.launch import Launch
    from imitbench.tune.request import TuneRequest
    from imitbench.tune.tuning import Outcome

_AT_ONCE_SLURM = 8
Objective = Literal["return", "demo-likelihood", "discriminator", "episode-length"]


def tune(
    algo: Annotated[
        str | None, typer.Option("--algo", metavar="NAME", help="Algorithm to tune.")
    ] = None,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Trials of each environment, all in all.")
    ] = 50,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Trials at a time [1; 8 in SLURM's queue]."),
    ] = None,
    out: options.Out = options.DEFAULT_OUT,
    objective: Annotated[
        Objective, typer.Option("--objective", help="What to maximize; return uses the reward.")
    ] = "return",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the tuning [ALGO-SUITE].")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Where to write tuned values.", dir_okay=False),
    ] = None,
    keep_anyway: Annotated[
        bool, typer.Option("--keep-anyway", help="Write values that do not beat the default, too.")
    ] = False,
    best: Annotated[
        int, typer.Option("--best", min=1, help="Best trials that compete with the default.")
    ] = 3,
    search_seeds: Annotated[
        str, typer.Option("--search-seeds", metavar="SEEDS", help="Seeds of each trial.")
    ] = "100,101,102",
    held_out_seeds: Annotated[
        str, typer.Option("--held-out-seeds", metavar="SEEDS", help="Seeds of the contest.")
    ] = "200-204",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the proposals.")] = 0,
    points: Annotated[
        int, typer.Option("--points", min=1, help="Parts of the budget, each of which is measured.")
    ] = 5,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Give up what is below the median.")
    ] = True,
    storage: Annotated[
        Literal["auto", "sqlite", "journal"],
        typer.Option("--storage", help="File of the study: auto is journal for slurm."),
    ] = "auto",
    show: Annotated[bool, typer.Option("--show", help="Print what there is; run nothing.")] = False,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = "all",
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    executor: run_options.Executor = "local",
    profile: run_options.Profile = None,
    device: run_options.Device = "auto",
    gpus: run_options.Gpus = None,
    per_gpu: run_options.PerGpu = None,
    timeout: run_options.Timeout = None,
    max_mem: run_options.MaxMem = None,
    checkpoint_minutes: run_options.CheckpointMinutes = 10.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for better hyper-parameters, then test them against the card's own.

    Each environment is tuned by itself. The best trials compete with the default values on seeds
    that the search never saw; only values that are better there are written. The same command
    goes on after an interruption, and with more --trials.

    Example: imitbench tune --algo bc --env Pendulum-v1 --trials 8 --jobs 2 --budget quick
    """
    from imitbench.cli.tune_table import print_tuning, tell
    from imitbench.errors import InputError
    from imitbench.tune.dependency import require_optuna

    require_optuna()
    if show:
        print_tuning(_shown(out, algo, suite, objective, budget, name), as_json=json)
        return
    if algo is None:
        raise InputError("--algo: name the algorithm to tune, such as --algo bc")
    from imitbench.cli.launch import Launch

    how = Launch.of(
        out=out,
        executor=executor,
        profile=profile,
        wait=True,
        min_task_minutes=0.0,
        device=device,
        jobs=None if executor == "slurm" else jobs,
        gpus=gpus,
        per_gpu=per_gpu,
        timeout=timeout,
        max_mem=max_mem,
        checkpoint_minutes=checkpoint_minutes,
        json=json,
        quiet=quiet,
    )
    plan = _plan(algo, suite, env, set_, budget, n_demos, source, lock, how)
    kind: Literal["sqlite", "journal"] = "journal" if executor == "slurm" else "sqlite"
    request = _request(
        plan,
        how,
        objective=objective,
        trials=trials,
        search_seeds=search_seeds,
        held_out_seeds=held_out_seeds,
        best=best,
        points=points,
        prune=prune,
        seed=seed,
        storage=kind if storage == "auto" else storage,
    )
    root = _folder(out, name or _default_name(request))
    target = _target(algo, root, to)
    outcome = _carry_out(request, how, root, target, jobs)
    written = _write(request, outcome, target, keep_anyway=keep_anyway)
    print_tuning([root], as_json=json, written=written, only=list(plan.environments))
    if outcome.stopped:
        raise typer.Exit(130)
    tell(request, outcome.contests, target, written, keep_anyway=keep_anyway)
    if any(contest.winner is None for contest in outcome.contests.values()):
        raise typer.Exit(1)


def _plan(
    algo: str,
    suite: str,
    env: str | None,
    set_: list[str],
    budget: str,
    n_demos: str,
    source: str,
    lock: Path | None,
    how: Launch,
) -> Plan:
    from imitbench.bench.plan import parse_demo_counts, parse_overrides
    from imitbench.bench.request import plan_request
    from imitbench.cli.hub_progress import make_tell
    from imitbench.cli.run import lock_file
    from imitbench.errors import InputError
    from imitbench.store.sweep_file import SweepRequest

    counts = parse_demo_counts(n_demos)
    if len(counts) > 1 or algo == "all":
        option = "--algo all" if algo == "all" else f"--n-demos {n_demos}"
        raise InputError(f"{option}: tuning takes one at a time")
    return plan_request(
        SweepRequest.model_validate(
            {
                "algorithms": [algo],
                "suite": suite,
                "environment": env,
                "seeds": [0],
                "budget": budget,
                "n_demos": counts[0],
                "overrides": parse_overrides(set_),
                "source": source,
                "lock": lock_file(lock) if source == "hub" else None,
                "device": how.device,
                "folder": str(Path.cwd()),
            }
        ),
        make_tell(quiet=how.quiet),
    )


def _request(
    plan: Plan,
    how: Launch,
    *,
    objective: Objective,
    trials: int,
    search_seeds: str,
    held_out_seeds: str,
    best: int,
    points: int,
    prune: bool,
    seed: int,
    storage: Literal["sqlite", "journal"],
) -> TuneRequest:
    from imitbench.cli.provenance import typed_command
    from imitbench.tune.request import TuneRequest

    return TuneRequest(
        plan=plan,
        objective=objective,
        trials=trials,
        search_seeds=_seeds(search_seeds, "--search-seeds"),
        held_out_seeds=_seeds(held_out_seeds, "--held-out-seeds"),
        best=best,
        points=points,
        prune=prune,
        seed=seed,
        storage=storage,
        command=typed_command(),
        checkpoint_s=60 * how.checkpoint_minutes,
        timeout_s=how.timeout_s,
    )


def _seeds(text: str, option: str) -> tuple[int, ...]:
    from imitbench.bench.plan import parse_seeds
    from imitbench.errors import InputError

    # Unlike elsewhere, a number is a seed, and no count: seeds of tuning are far from 0, 1, 2.
    try:
        return tuple(parse_seeds(f"{text},"))
    except InputError:
        raise InputError(f"{option} {text}: must be seeds and ranges such as 100,105-109") from None


def _default_name(request: TuneRequest) -> str:
    from imitbench.tune.request import default_name

    settings = request.plan.settings
    return default_name(
        request.algorithm.name, request.plan.suite.name, request.objective, settings.budget
    )


def _folder(out: Path, name: str) -> Path:
    from imitbench.errors import InputError
    from imitbench.tune.request import TUNING_FOLDER

    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise InputError(f"--name {name}: must be the name of a folder, without / and no leading .")
    return out / TUNING_FOLDER / name


def _shown(
    out: Path, algo: str | None, suite: str, objective: Objective, budget: str, name: str | None
) -> list[Path]:
    from imitbench.cards.catalog import load_algorithm
    from imitbench.errors import InputError
    from imitbench.tune.request import TUNING_FOLDER, default_name

    if name is None and algo is not None:
        name = default_name(load_algorithm(algo).name, suite, objective, budget)
    roots = [_folder(out, name)] if name is not None else sorted((out / TUNING_FOLDER).glob("*"))
    found = [root for root in roots if any(root.glob("*/study.json"))]
    if not found:
        where = roots[0] if name is not None else out / TUNING_FOLDER
        raise InputError(f"{where}: nothing was tuned there; run `imitbench tune --algo …` first")
    return found


def _target(algo: str, root: Path, to: Path | None) -> Path:
    """Where tuned values go: beside a card of one's own, else into the folder of the tuning."""
    from imitbench.cards.tuned import TUNED_FILE

    if to is not None:
        return to
    own = Path(algo)
    return (own if (own / "card.yaml").is_file() else root) / TUNED_FILE


def _carry_out(
    request: TuneRequest, how: Launch, root: Path, target: Path, jobs: int | None
) -> Outcome:
    from imitbench.bench.sweep import check_writable
    from imitbench.cli.launch import make_pool
    from imitbench.cli.tune_progress import make_observer
    from imitbench.tune.tuned_file import check_target
    from imitbench.tune.tuning import WORKER, check, tune

    check_target(target, request.algorithm)
    check(request, root)
    check_writable(how.out)
    at_once = how.jobs
    if how.slurm is not None:
        profile = how.slurm.profile
        at_once = jobs or min(_AT_ONCE_SLURM, profile.array_parallelism * profile.workers)
    elif how.executor == "inline":
        at_once = 1
    pool = make_pool(how, WORKER, root, device=request.plan.settings.device)
    observer = make_observer(request, root, quiet=how.quiet)
    outcome = tune(request, pool, root, observer, at_once=at_once)
    if outcome.stopped:
        observer.stopped(outcome)
    return outcome


def _write(
    request: TuneRequest, outcome: Outcome, target: Path, *, keep_anyway: bool
) -> dict[str, Path]:
    """Writes values that beat the default, or all that were asked for; says which."""
    from imitbench.tune.tuned_file import add_tuned, tuned_values

    found = {
        env_id: values
        for env_id, contest in outcome.contests.items()
        if (contest.decision == "better" or keep_anyway)
        and (values := tuned_values(request, contest)) is not None
    }
    if found:
        add_tuned(target, request.algorithm, found)
    return dict.fromkeys(found, target)
