"""Plans requests, and plans again the runs of earlier requests that have no result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from imitbench.bench.artifacts import HUB
from imitbench.bench.plan import DemoChoice, Plan, plan_request
from imitbench.bench.spec import choose_processor
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import load_algorithm, load_suite
from imitbench.cards.plugins import find_algorithms, find_suite
from imitbench.cards.suite import SuiteCard
from imitbench.errors import InputError, did_you_mean
from imitbench.hub import DEFAULT_LOCK
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SWEEPS_FOLDER, SweepFile, SweepRequest, read_sweeps
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import Names, matches_id, split_names


@dataclass(frozen=True)
class UnresumableRuns:
    """Runs that were requested, have no result, and cannot be resumed.

    Attributes:
        command: The command that requested them.
        runs: Number of runs.
        why: The reason, and how to proceed.
    """

    command: str
    runs: int
    why: str


@dataclass(frozen=True)
class MissingRuns:
    """Runs without a result, of all sweeps of a results folder.

    Attributes:
        plans: One for each sweep with missing runs, limited to the runs of that sweep.
        runs: Number of missing runs in them.
        left_out: Missing runs that the plans do not include.
    """

    plans: list[Plan]
    runs: int
    left_out: list[UnresumableRuns]


def lock_in_use(lock: Path | None, source: str) -> str | None:
    """Returns the lock file that a request names, else the default one if it exists.

    Args:
        lock: The lock file that the user named.
        source: Where experts and demonstrations come from; only the hub has lock files.
    """
    if source != HUB:
        return None
    if lock is None and DEFAULT_LOCK.exists():
        lock = DEFAULT_LOCK
    return None if lock is None else str(lock)


@dataclass(frozen=True)
class PluginSelection:
    """Algorithms and suites from outside this package that the user named.

    Attributes:
        algorithms: Cards of algorithms by name.
        suites: Cards of suites by name.
    """

    algorithms: Mapping[str, AlgorithmCard] = field(default_factory=dict)
    suites: Mapping[str, SuiteCard] = field(default_factory=dict)

    @classmethod
    def named(cls, algorithms: Sequence[str], suites: Sequence[str] = ()) -> PluginSelection:
        """Finds the plug-ins that the user typed.

        Raises:
            InputError: An algorithm or suite does not exist or is invalid.
        """
        return cls(
            {card.name: card for card in find_algorithms(algorithms)},
            {card.name: card for card in map(find_suite, suites)},
        )

    def algorithm(self, name: str) -> AlgorithmCard:
        """Returns the algorithm with this name: a selected or a bundled one, and no other.

        Raises:
            InputError: The name is neither selected nor bundled.
        """
        return self.algorithms.get(name) or load_algorithm(name)

    def suite(self, name: str) -> SuiteCard:
        """Returns the suite with this name: a selected or a bundled one, and no other.

        Raises:
            InputError: The name is neither selected nor bundled.
        """
        return self.suites.get(name) or load_suite(name)


def environments_by_suite(
    suites: Sequence[str], environment: Names, folder: Path
) -> dict[str, str | None]:
    """Returns the patterns of environments that concern each suite, as a request has them.

    Args:
        suites: Names or folders of suites.
        environment: Globs over environment ids; none for all.
        folder: Base of relative paths.

    Returns:
        With several suites, each gets the patterns that match something in it.

    Raises:
        InputError: A pattern matches no environment of any suite, or a suite has no environment
            that was asked for.
    """
    wanted = split_names("--env", environment)
    if len(suites) == 1 or not wanted:
        return dict.fromkeys(suites, ",".join(wanted) or None)
    ids = {name: list(find_suite(name, folder).environments) for name in suites}
    every = [env_id for known in ids.values() for env_id in known]
    for pattern in wanted:
        if not any(matches_id(env_id, [pattern]) for env_id in every):
            raise InputError(
                f"--env '{pattern}': matches no environment of suites {', '.join(suites)}; "
                f"{did_you_mean(pattern, every)}"
            )
    found: dict[str, str | None] = {}
    for name, known in ids.items():
        own = [
            pattern for pattern in wanted if any(matches_id(env_id, [pattern]) for env_id in known)
        ]
        if not own:
            raise InputError(
                f"--suite {name}: has none of the environments {', '.join(wanted)}; leave it out"
            )
        found[name] = ",".join(own)
    return found


def plan_requests(
    requests: Sequence[SweepRequest],
    demos: DemoChoice,
    notify: Notify = silent,
    *,
    collect: bool = True,
) -> list[Plan]:
    """Plans requests, each for several regimes.

    Args:
        requests: As for `plan_request`; what they say of demonstrations is replaced.
        demos: How much of the demonstrations methods learn from.
        notify: Called with messages about downloads.
        collect: As for `plan_request`.

    Returns:
        A plan for each request and regime; methods that use no demonstrations are only in the
        first of a request.

    Raises:
        InputError: As `plan_request`, or no method takes demonstrations while several regimes
            are given, or no method applies to any environment.
    """
    plans = [plan for request in requests for plan in _in_regimes(request, demos, notify, collect)]
    _check_some_run(plans)
    _warn_of_few_steps(plans, notify)
    _note_processors(plans[0], notify)
    return [part for plan in plans for part in _by_processor(plan)]


def _in_regimes(
    request: SweepRequest, demos: DemoChoice, notify: Notify, collect: bool
) -> list[Plan]:
    suite = find_suite(request.suite, Path(request.folder))
    request = request.model_copy(update={"own_sets": dict(demos.own_sets) or None})
    first, *others = (regime.recorded for regime in demos.of(suite))
    own = request.model_copy(update=first)
    plans = [plan_request(own, notify, suite=suite, collect=collect)]
    cards = [card for card, _ in plans[0].algorithms if card.needs.demos]
    taught = [card.name for card in cards]
    if others and not taught:
        raise InputError(
            f"--n-demos, --regime: {', '.join(request.algorithms)} use no demonstrations; omit it"
        )
    overrides = _settable(request.overrides, cards)
    for regime in others:
        update = {**regime, "algorithms": taught, "overrides": overrides}
        changed = request.model_copy(update=update)
        plans.append(
            plan_request(changed, notify, algorithms=cards, suite=plans[0].suite, collect=collect)
        )
    return plans


def _warn_of_few_steps(plans: Sequence[Plan], notify: Notify) -> None:
    every = max((plan.request.demo_every or 1 for plan in plans), default=1)
    short = {
        env_id: card.max_episode_steps
        for plan in plans
        for env_id, card in plan.environments.items()
        if card.max_episode_steps < every
    }
    if short:
        names = ", ".join(f"{env_id} ({steps} steps)" for env_id, steps in short.items())
        notify(f"--demo-every {every}: keeps one step of each demonstration of {names}")


def _by_processor(plan: Plan) -> list[Plan]:
    """Divides a plan into runs that need a GPU and those that do not."""
    parts: dict[bool, list[AlgorithmCard]] = {}
    for card, _ in plan.algorithms:
        on_gpu = choose_processor(plan.request.device, card) != "cpu"
        parts.setdefault(on_gpu, []).append(card)
    if len(parts) == 1:
        return [plan]
    return [
        replace(
            plan,
            algorithms=[pair for pair in plan.algorithms if pair[0] in cards],
            request=plan.request.model_copy(
                update={
                    "algorithms": [card.name for card in cards],
                    "overrides": _settable(plan.request.overrides, cards),
                    "plugins": {
                        name: reference
                        for name, reference in plan.request.plugins.items()
                        if name in (plan.suite.name, *(card.name for card in cards))
                    },
                }
            ),
        )
        for cards in parts.values()
    ]


def _settable(overrides: Mapping[str, str], cards: Sequence[AlgorithmCard]) -> dict[str, str]:
    """Returns the overrides that concern some of the algorithms."""
    names = {name for card in cards for name in card.hyperparameters}
    names |= {f"{card.name}.{name}" for card in cards for name in card.hyperparameters}
    return {name: value for name, value in overrides.items() if name in names}


def _note_processors(plan: Plan, notify: Notify) -> None:
    """Tells which methods do not use a GPU, and which lose time on one."""
    asked = plan.request.device
    slower = [card for card, _ in plan.algorithms if (card.gpu_speedup or 1.0) < 1.0]
    if asked == "cpu" or not slower:
        return
    names = ", ".join(
        f"{card.name} ({1 / (card.gpu_speedup or 1.0):.0f} times slower)" for card in slower
    )
    if asked == "auto":
        notify(f"on the CPU, because they train slower on a GPU: {names}")
    else:
        notify(f"train slower on a GPU than on one core: {names}; omit --device {asked}")


def _check_some_run(plans: Sequence[Plan]) -> None:
    pairs = sum(len(plan.algorithms) * len(plan.environments) for plan in plans)
    # Specifications are not made here: they read demonstrations, whose faults are told later.
    misfits = [pair for plan in plans for pair in plan.not_applicable]
    if len(misfits) < pairs:
        return
    first = misfits[0]
    raise InputError(
        f"--algo, --env: no method fits any environment ({first.algo} on {first.env}: "
        f"{first.why}); name others"
    )


def plan_missing(
    out: Path,
    notify: Notify = silent,
    plugins: PluginSelection | None = None,
    *,
    collect: bool = True,
) -> MissingRuns:
    """Plans the missing runs of the sweeps in a results folder again.

    A run is resumed only if the new plan still has it: after a card has changed, the plan gives
    other runs, which were not requested.

    Args:
        out: Root of the results folder.
        notify: Called with messages about downloads.
        plugins: Plug-ins that the user named. Other plug-ins in the files are not imported.
        collect: As for `plan_request`.

    Raises:
        InputError: The folder does not exist.
    """
    plugins = plugins or PluginSelection()
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    plans: list[Plan] = []
    left_out: list[UnresumableRuns] = []
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
            why = "its file does not contain the request; type that command again"
            left_out.append(UnresumableRuns(sweep.command, len(missing), why))
            continue
        try:
            plan = plan_again(sweep.request, plugins, out, notify, collect=collect)
            _check_size(sweep, sweep.request)
            planned = {run.run_id for run in plan}
        except InputError as error:
            left_out.append(UnresumableRuns(sweep.command, len(missing), str(error)))
            continue
        if missing - planned:
            left_out.append(UnresumableRuns(sweep.command, len(missing - planned), _changed(sweep)))
        if missing & planned:
            wanted = (planned & sweep.paths.keys()) - taken
            plans.append(replace(plan, only=frozenset(wanted)))
            taken |= missing & planned
    return MissingRuns(plans, len(taken), left_out)


def _check_size(sweep: SweepFile, request: SweepRequest) -> None:
    """Checks that a request has no more seeds than its cells have runs, before they are listed."""
    if len(request.seeds) > max(len(cell.run_ids) for cell in sweep.cells):
        raise InputError(
            f"its file requests more seeds than runs; delete {SWEEPS_FOLDER}/{sweep.digest}.json, "
            "and type that command again"
        )


def plan_again(
    request: SweepRequest,
    plugins: PluginSelection,
    out: Path,
    notify: Notify,
    *,
    collect: bool = True,
) -> Plan:
    """Plans the request in a sweep file.

    Raises:
        InputError: As `plan_request`, or the request needs a plug-in that the user did not name.
    """
    own = {*plugins.algorithms, *plugins.suites}
    words = []
    for name, reference in request.plugins.items():
        if name not in own:
            option = "--suite" if name == request.suite else "--algo"
            words += [option, reference]
    if words:
        names = ", ".join(name for name in request.plugins if name not in own)
        command = shlex.join(["imitbench", "resume", "--out", str(out), *words])
        raise InputError(
            f"{names}: from outside this package, and run only if you name it: {command}"
        )
    return plan_request(
        request,
        notify,
        algorithms=[plugins.algorithm(name) for name in request.algorithms],
        suite=plugins.suite(request.suite),
        collect=collect,
    )


def _changed(sweep: SweepFile) -> str:
    return (
        "cards, demonstrations or this program have changed since, and give other runs; type that "
        f"command again for these, or delete {SWEEPS_FOLDER}/{sweep.digest}.json to forget them"
    )
