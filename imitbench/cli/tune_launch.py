"""Carries out a tuning as the user asked, and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from imitbench.bench import plan as planning
from imitbench.bench.plan import Plan
from imitbench.bench.request import lock_in_use, plan_request
from imitbench.bench.sweep import check_writable
from imitbench.cards.plugins import find_algorithm, find_suite
from imitbench.cards.tuned import TUNED_FILE, TunedValues
from imitbench.cli.provenance import typed_command
from imitbench.cli.tune_progress import TuneObserver
from imitbench.cli.tune_table import print_outcome, print_tuning
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class
from imitbench.store.sweep_file import SweepRequest
from imitbench.tune.request import TUNING_FOLDER, Per, TuneRequest, default_name
from imitbench.tune.runner import TuningOutcome, check_request, tune
from imitbench.tune.trial_job import TRIAL_WORKER
from imitbench.tune.tuned_file import add_tuned, check_target, tuned_values
from imitbench.util.hub_errors import Tell


@dataclass(frozen=True)
class TuningTarget:
    """Where a tuning is kept, and where its values go: the options of these names."""

    out: Path
    algo: str | None
    suite: str
    per: Per
    objective: str
    budget: str
    name: str | None
    to: Path | None
    keep_anyway: bool

    @property
    def root(self) -> Path:
        """Folder of the tuning.

        Raises:
            InputError: It has no proper name.
        """
        name = self.name
        if name is None:
            algo, suite = find_algorithm(_required(self.algo)).name, find_suite(self.suite).name
            name = default_name(algo, suite, self.per, self.objective, self.budget)
        if not name or name.startswith(".") or "/" in name or "\\" in name:
            raise InputError(f"--name {name}: must name a folder, without / and no leading dot")
        return self.out / TUNING_FOLDER / name

    @property
    def file(self) -> Path:
        """Where values go: beside a card of one's own, else into the folder of the tuning."""
        if self.to is not None:
            return self.to
        own = Path(_required(self.algo))
        return (own if (own / "card.yaml").is_file() else self.root) / TUNED_FILE

    def existing(self) -> list[Path]:
        """Folders of the tunings that are meant; all of them where none is named.

        Raises:
            InputError: There is none.
        """
        if self.name is None and self.algo is None:
            place = self.out / TUNING_FOLDER
            roots = sorted(place.glob("*"))
        else:
            place = self.root
            roots = [place]
        found = [root for root in roots if any(root.glob("*/study.json"))]
        if not found:
            raise InputError(f"{place}: nothing was tuned there; run `imitbench tune --algo …`")
        return found


def _required(algo: str | None) -> str:
    if algo is None:
        raise InputError("--algo: name the algorithm to tune, such as --algo bc")
    return algo


def make_plan(
    how: RunOptions,
    algo: str | None,
    suite: str,
    env: str | None,
    set_: list[str],
    budget: str,
    n_demos: str,
    source: str,
    lock: Path | None,
    told: Tell,
) -> Plan:
    """Plans one algorithm on some environments, from options as they are typed.

    Raises:
        InputError: One is wrong.
    """
    counts = planning.parse_demo_counts(n_demos)
    if len(counts) > 1 or algo == "all":
        option = "--algo all" if algo == "all" else f"--n-demos {n_demos}"
        raise InputError(f"{option}: tuning takes one at a time")
    document = {
        "algorithms": [_required(algo)],
        "suite": suite,
        "environment": env,
        "seeds": [0],
        "budget": budget,
        "n_demos": counts[0],
        "overrides": planning.parse_overrides(set_),
        "source": source,
        "lock": lock_in_use(lock, source),
        "device": how.device_class,
        "folder": str(Path.cwd()),
    }
    return plan_request(SweepRequest.model_validate(document), told)


def make_request(
    plan: Plan,
    how: RunOptions,
    *,
    search_seeds: str,
    held_out_seeds: str,
    storage: str,
    **others: Any,
) -> TuneRequest:
    """Reads options as they are typed; those not named here are taken as they are.

    Raises:
        InputError: One is wrong, or two do not go together.
    """
    shared = executor_class(how.executor).distributed
    if storage == "auto":
        storage = "journal" if shared else "sqlite"
    if storage == "sqlite" and shared:
        raise InputError("--storage sqlite: goes wrong on file systems that nodes share; leave it")
    return TuneRequest(
        plan=plan,
        search_seeds=_seeds(search_seeds, "--search-seeds"),
        held_out_seeds=_seeds(held_out_seeds, "--held-out-seeds"),
        storage="sqlite" if storage == "sqlite" else "journal",
        command=typed_command(),
        options=how.for_jobs,
        **others,
    )


def _seeds(text: str, option: str) -> tuple[int, ...]:
    # Unlike elsewhere, a number is a seed, and no count: seeds of tuning are far from 0, 1, 2.
    try:
        return tuple(planning.parse_seeds(f"{text},"))
    except InputError:
        raise InputError(f"{option} {text}: must be seeds and ranges such as 100,105-109") from None


def run_tuning(
    request: TuneRequest,
    how: RunOptions,
    target: TuningTarget,
    jobs: int | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Tunes, writes values that are better, and prints tables.

    Raises:
        InputError: It cannot be done as asked.
        typer.Exit: With 130 when it was stopped, 1 where no candidate could be judged.
    """
    root, file = target.root, target.file
    check_target(file, request.algorithm)
    check_request(request, root)
    check_writable(target.out)
    pool = executor_class(how.executor).from_options(how, TRIAL_WORKER, root)
    at_once = jobs if jobs is not None and pool.distributed else pool.at_once
    observer = TuneObserver(request, root, quiet=quiet)
    outcome = tune(request, pool, root, observer, at_once=at_once)
    written = _write(request, outcome, target)
    only = [scope.name for scope in request.scopes]
    print_tuning([root], as_json=json, written=written, only=only)
    print_outcome(request, outcome.contests, file, written, keep_anyway=target.keep_anyway)
    if outcome.stopped:
        observer.stopped(outcome)
        raise typer.Exit(130)
    if any(contest.winner is None for contest in outcome.contests.values()):
        raise typer.Exit(1)


def _write(request: TuneRequest, outcome: TuningOutcome, target: TuningTarget) -> dict[str, Path]:
    """Writes values that beat the default, or all that were asked for; says of which studies."""
    found: dict[str, TunedValues] = {}
    written: dict[str, Path] = {}
    for scope in request.scopes:
        contest = outcome.contests.get(scope.name)
        if contest is None or not (contest.decision == "better" or target.keep_anyway):
            continue
        values = tuned_values(request, contest)
        if values is not None:
            found |= dict.fromkeys(scope.environments, values)
            written[scope.name] = target.file
    if found:
        add_tuned(target.file, request.algorithm, found)
    return written
