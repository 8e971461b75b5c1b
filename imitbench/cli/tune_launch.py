"""Runs a tuning from the options of `imitbench tune`, and prints its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from imitbench.bench import plan as planning
from imitbench.bench.live_display import RunWatch, shown_runs
from imitbench.bench.plan import Plan, plan_request
from imitbench.bench.request import lock_in_use
from imitbench.bench.sweep import check_writable
from imitbench.cards.plugins import find_algorithm, find_suite
from imitbench.cards.tuned import TUNED_FILE, TunedValues
from imitbench.cli.output import count, note, typed_command
from imitbench.cli.tune_table import print_outcome, print_tuning
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class
from imitbench.store.sweep_file import SweepRequest
from imitbench.tune.held_out_comparison import (
    HeldOutComparison,
    add_tuned,
    check_target,
    tuned_values,
)
from imitbench.tune.request import TUNING_FOLDER, Per, TuneRequest, default_name
from imitbench.tune.runner import TuningOutcome, check_request, tune
from imitbench.tune.study import Trial
from imitbench.tune.trial_job import TRIAL_WORKER, TrialJob
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import join_names


class TuneObserver:
    """Prints the progress of a tuning on stderr.

    Args:
        request: Algorithm, plan, objective and size of the tuning.
        root: Folder of the tuning.
        quiet: Whether to hide progress.
    """

    def __init__(self, request: TuneRequest, root: Path, *, quiet: bool) -> None:
        self._request = request
        self._root = root
        self._quiet = quiet
        self._watch = RunWatch()
        self._estimates = request.plan.estimates(root)
        flag = "uses reward" if request.goal.uses_reward else "without the true reward"
        self._say(
            f"{request.algorithm.name}: {count(request.trials, 'trial')} {_of_what(request)}, "
            f"maximizing {request.objective} ({flag}); study in {root}"
        )

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Context in which running runs are shown on stderr."""
        if self._quiet:
            yield
            return
        with shown_runs(self._watch.read_progress):
            yield

    def started(self, job: TrialJob) -> None:
        """Shows the runs of a job from now on."""
        self._watch.add(job.runs, Path(job.out), [*map(self._estimates.on_cards, job.runs)])

    def ended(self, job: TrialJob) -> None:
        """Shows the runs of a job no longer."""
        for run in job.runs:
            self._watch.remove(run, Path(job.out))

    def resumed(self, env: str, finished: int, interrupted: int, total: int) -> None:
        """Reports a study that was found on disk."""
        taken = f", {interrupted} interrupted and resumed" if interrupted else ""
        self._say(f"{env}: {finished} of {total} trials finished before{taken}")

    def trial(self, env: str, trial: Trial, trials: Sequence[Trial], total: int) -> None:
        """Reports the end of a trial."""
        ended = sum(other.state != "running" for other in trials)
        complete = [other for other in trials if other.state == "complete"]
        best = max(complete, key=lambda other: other.value or 0.0, default=None)
        said = {
            "complete": f"{trial.value:.4g}" if trial.value is not None else "",
            "pruned": f"pruned at step {trial.pruned_at}",
            "failed": f"FAILED ({trial.failure})",
        }.get(trial.state, trial.state)
        so_far = f"; best {best.value:.4g}, trial {best.number}" if best is not None else ""
        self._say(f"[{ended}/{total}] {env}: trial {trial.number}: {said}{so_far}")

    def held_out(self, env: str, done: int, total: int) -> None:
        """Reports the end of a run of the held-out comparison."""
        self._say(f"[held out {done}/{total}] {env}")

    def judged(self, env: str, comparison: HeldOutComparison) -> None:
        """Reports the result of the held-out comparison."""

    def stopping(self) -> None:
        """Reports that workers got the request to stop."""
        note("stopping: running trials save checkpoints; Ctrl-C again stops immediately")

    def stopped(self, outcome: TuningOutcome) -> None:
        """Reports that the tuning has stopped."""
        queued = f"; {count(outcome.queued, 'job')} in the queue continue" if outcome.queued else ""
        note(
            f"stopped{queued}; the same command continues: finished trials are kept in {self._root}"
        )

    def _say(self, message: str) -> None:
        if not self._quiet:
            note(message)


def _of_what(request: TuneRequest) -> str:
    environments = count(len(request.plan.environments), "environment")
    if request.per == "suite":
        return f"on all of {environments} with the same values"
    return f"of each of {environments}"


@dataclass(frozen=True)
class TuningTarget:
    """Folder of a tuning, and the file of its values; the attributes are options of these names."""

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
            InputError: Its name contains `/`, or starts with a dot.
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
        """File for tuned values: next to a plug-in's card, else in the folder of the tuning."""
        if self.to is not None:
            return self.to
        own = Path(_required(self.algo))
        return (own if (own / "card.yaml").is_file() else self.root) / TUNED_FILE

    def existing(self) -> list[Path]:
        """Returns the folders of the selected tunings; of all tunings if no name is given.

        Raises:
            InputError: There is no such tuning.
        """
        if self.name is None and self.algo is None:
            folder = self.out / TUNING_FOLDER
            roots = sorted(folder.glob("*"))
        else:
            folder = self.root
            roots = [folder]
        found = [root for root in roots if any(root.glob("*/study.json"))]
        if not found:
            raise InputError(f"{folder}: nothing was tuned there; run `imitbench tune --algo …`")
        return found


def _required(algo: str | None) -> str:
    if algo is None:
        raise InputError("--algo: name the algorithm to tune, such as --algo bc")
    return algo


def plan_tuning(
    options: RunOptions,
    algo: str | None,
    suite: str,
    env: list[str],
    set_: list[str],
    budget: str,
    demos: planning.DemoChoice,
    source: str,
    lock: Path | None,
    notify: Notify,
) -> Plan:
    """Plans one algorithm on some environments, from unparsed option values.

    Raises:
        InputError: An option is wrong.
    """
    if algo == "all":
        raise InputError("--algo all: tuning takes one at a time")
    document = {
        "algorithms": [_required(algo)],
        "suite": suite,
        "environment": join_names("--env", env),
        "seeds": [0],
        "budget": budget,
        **demos.only(suite, "tuning").recorded,
        "overrides": planning.parse_overrides(set_),
        "source": source,
        "lock": lock_in_use(lock, source),
        "device": options.device_class,
        "folder": str(Path.cwd()),
    }
    return plan_request(SweepRequest.model_validate(document), notify)


def make_tune_request(
    plan: Plan,
    options: RunOptions,
    *,
    search_seeds: str,
    held_out_seeds: str,
    storage: str,
    **others: Any,
) -> TuneRequest:
    """Builds a tuning request from option values; parses seeds and storage.

    Raises:
        InputError: An option is wrong, or two options conflict.
    """
    shared = executor_class(options.executor).distributed
    if storage == "auto":
        storage = "journal" if shared else "sqlite"
    if storage == "sqlite" and shared:
        raise InputError("--storage sqlite: fails on file systems that nodes share; leave it out")
    return TuneRequest(
        plan=plan,
        search_seeds=_seeds(search_seeds, "--search-seeds"),
        held_out_seeds=_seeds(held_out_seeds, "--held-out-seeds"),
        storage="sqlite" if storage == "sqlite" else "journal",
        command=typed_command(),
        options=options.for_jobs,
        **others,
    )


def _seeds(text: str, option: str) -> tuple[int, ...]:
    # Unlike in other options, a number is a seed, not a count: tuning avoids seeds 0, 1, 2, ...
    try:
        return tuple(planning.parse_seeds(f"{text},"))
    except InputError:
        raise InputError(f"{option} {text}: must be seeds and ranges such as 100,105-109") from None


def run_tuning(
    request: TuneRequest,
    options: RunOptions,
    target: TuningTarget,
    jobs: int | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Runs a tuning, writes values that are better, and prints tables.

    Raises:
        InputError: The request cannot be carried out.
        typer.Exit: With 130 when it was stopped, 1 where no candidate could be judged.
    """
    root, file = target.root, target.file
    check_target(file, request.algorithm)
    check_request(request, root)
    check_writable(target.out)
    pool = executor_class(options.executor).from_options(options, TRIAL_WORKER, root)
    at_once = jobs if jobs is not None and pool.distributed else pool.at_once
    observer = TuneObserver(request, root, quiet=quiet)
    with observer.shown():
        outcome = tune(request, pool, root, observer, at_once=at_once)
    written = _write(request, outcome, target)
    only = [scope.name for scope in request.scopes]
    print_tuning([root], as_json=json, written=written, only=only)
    print_outcome(request, outcome.comparisons, file, written, keep_anyway=target.keep_anyway)
    if outcome.stopped:
        observer.stopped(outcome)
        raise typer.Exit(130)
    if any(comparison.winner is None for comparison in outcome.comparisons.values()):
        raise typer.Exit(1)


def _write(request: TuneRequest, outcome: TuningOutcome, target: TuningTarget) -> dict[str, Path]:
    """Writes values that beat the default, or all with `keep_anyway`; returns files by study."""
    found: dict[str, TunedValues] = {}
    written: dict[str, Path] = {}
    for scope in request.scopes:
        comparison = outcome.comparisons.get(scope.name)
        if comparison is None or not (comparison.decision == "better" or target.keep_anyway):
            continue
        values = tuned_values(request, comparison)
        if values is not None:
            found |= dict.fromkeys(request.covered(scope), values)
            written[scope.name] = target.file
    if found:
        add_tuned(target.file, request.algorithm, found)
    return written
