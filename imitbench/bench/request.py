"""From a request to a plan; and from what was once requested to what of it is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from imitbench.bench.artifacts import HUB
from imitbench.bench.plan import Plan, make_plan
from imitbench.bench.spec import Settings
from imitbench.errors import InputError
from imitbench.hub import DEFAULT_LOCK
from imitbench.hub.lock_file import read_lock
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SWEEPS_FOLDER, SweepFile, SweepRequest, read_sweeps
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Tell


@dataclass(frozen=True)
class LeftOut:
    """Runs that were asked for, have no result, and cannot be taken up.

    Attributes:
        command: The command that asked for them.
        runs: How many.
        why: The reason, and what to do.
    """

    command: str
    runs: int
    why: str


@dataclass(frozen=True)
class Missing:
    """What of all sweeps of a results folder has no result.

    Attributes:
        plans: One for each sweep with missing runs, limited to the runs of that sweep.
        runs: Number of missing runs in them.
        left_out: What they lack.
    """

    plans: list[Plan]
    runs: int
    left_out: list[LeftOut]


def lock_in_use(lock: Path | None, source: str) -> str | None:
    """The lock file that a request names, else the usual one if it is there.

    Args:
        lock: The file that was named.
        source: Where experts and demonstrations come from; only the hub has lock files.
    """
    if source != HUB:
        return None
    if lock is None and DEFAULT_LOCK.exists():
        lock = DEFAULT_LOCK
    return None if lock is None else str(lock)


def plan_request(request: SweepRequest, tell: Tell = silent) -> Plan:
    """Checks a request and plans it.

    Args:
        request: What is asked for.
        tell: Told about downloads.

    Raises:
        InputError: Something asked for does not exist, does not fit or cannot be fetched.
    """
    lock = None
    if request.source == HUB and request.lock is not None:
        lock = read_lock(Path(request.folder, request.lock), missing_ok=False)
    plan = make_plan(
        algorithms=request.algorithms,
        suite=request.suite,
        environment=request.environment,
        seeds=request.seeds,
        settings=Settings(
            source=request.source,
            budget=request.budget,
            n_demos=request.n_demos,
            overrides=request.overrides,
            config=request.config,
            device=request.device,
            folder=Path(request.folder),
        ),
        lock=lock,
        tell=tell,
    )
    names = [card.name for card, _ in plan.algorithms]  # what `all` stood for
    return replace(plan, request=request.model_copy(update={"algorithms": names}))


def plan_requests(
    request: SweepRequest, demo_counts: Sequence[int | None], tell: Tell = silent
) -> list[Plan]:
    """Plans a request for several numbers of demonstrations.

    Args:
        request: What is asked for, but for the number of demonstrations.
        demo_counts: Numbers of demonstrations; `None` for all.
        tell: Told about downloads.

    Returns:
        A plan for each number; only the first has the methods that learn from none.

    Raises:
        InputError: As `plan_request`, or no method takes demonstrations while several numbers
            are given.
    """
    first, *others = demo_counts
    plans = [plan_request(request.model_copy(update={"n_demos": first}), tell)]
    cards = [card for card, _ in plans[0].algorithms if card.needs.demos]
    taught = [card.name for card in cards]
    if others and not taught:
        raise InputError(
            f"--n-demos: {', '.join(request.algorithms)} learn from no demonstrations; leave it out"
        )
    settable = {name for card in cards for name in card.hyperparameters}
    settable |= {f"{card.name}.{name}" for card in cards for name in card.hyperparameters}
    overrides = {name: value for name, value in request.overrides.items() if name in settable}
    for count in others:
        update = {"n_demos": count, "algorithms": taught, "overrides": overrides}
        plans.append(plan_request(request.model_copy(update=update), tell))
    return plans


def plan_missing(out: Path, tell: Tell = silent) -> Missing:
    """Plans again what the sweeps of a results folder asked for, to do what is missing.

    A run is taken up only if the plan still has it: a card that has changed since gives other
    runs, which nobody asked for.

    Args:
        out: Results folder.
        tell: Told about downloads.

    Raises:
        InputError: There is no such folder.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    plans: list[Plan] = []
    left_out: list[LeftOut] = []
    taken: set[str] = set()
    for sweep in read_sweeps(out):
        missing = {
            run_id
            for run_id, path in sweep.paths.items()
            if run_id not in taken and not RunDirectory(out / path).is_done
        }
        if not missing:
            continue
        if sweep.request is None:
            why = "its file does not say what it asked for; type that command again"
            left_out.append(LeftOut(sweep.command, len(missing), why))
            continue
        try:
            plan = plan_request(sweep.request, tell)
            planned = {run.run_id for run in plan}
        except InputError as error:
            left_out.append(LeftOut(sweep.command, len(missing), str(error)))
            continue
        if missing - planned:
            left_out.append(LeftOut(sweep.command, len(missing - planned), _changed(sweep)))
        if missing & planned:
            wanted = (planned & sweep.paths.keys()) - taken
            plans.append(replace(plan, only=frozenset(wanted)))
            taken |= missing & planned
    return Missing(plans, len(taken), left_out)


def _changed(sweep: SweepFile) -> str:
    return (
        "cards, demonstrations or this program have changed since, and give other runs; type that "
        f"command again for these, or delete {SWEEPS_FOLDER}/{sweep.digest}.json to forget them"
    )
