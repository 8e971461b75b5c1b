"""Expands algorithms x environments x seeds into runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from imitbench.bench import artifacts
from imitbench.bench.artifacts import HUB
from imitbench.bench.job import SourceRecord
from imitbench.bench.spec import SweepSettings, make_spec
from imitbench.cards.algorithm import STEP_UNITS, AlgorithmCard, Scalar
from imitbench.cards.catalog import algorithm_names, load_algorithm, select_environments
from imitbench.cards.plugins import find_algorithms, find_suite
from imitbench.cards.suite import EnvironmentCard, SuiteCard, mismatch
from imitbench.cards.tuned import load_tuned, read_tuned, resolve_tuned
from imitbench.errors import InputError, did_you_mean
from imitbench.hub.lock_file import HubLock
from imitbench.hub.suite_sources import (
    pull_sources,
    suite_sources,
    warn_of_pins,
    with_commits,
)
from imitbench.records.runs import Budget, RunSpec, RunTime
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.text_line import one_line

_MOST_SEEDS, _SEEDS_END = 1_000_000, 2**32


@dataclass(frozen=True)
class NotApplicable:
    """An algorithm and an environment that do not fit together.

    Attributes:
        algo: Name of the algorithm.
        env: Id of the environment.
        why: Reason why they do not fit.
    """

    algo: str
    env: str
    why: str


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep; their specifications are made during iteration.

    Attributes:
        suite: Card of the suite.
        environments: Chosen environments by id.
        algorithms: Cards of the chosen algorithms, each with its overrides.
        tuned: All hyper-parameters by algorithm and environment, for algorithms that have tuned
            values; empty unless tuned values are requested.
        seeds: Seeds of every cell.
        settings: Choices that apply to the whole sweep.
        request: The request, so that it can be planned again; `None` if it is not to be saved.
        only: Ids of the runs to do; `None` for all.
    """

    suite: SuiteCard
    environments: dict[str, EnvironmentCard]
    algorithms: list[tuple[AlgorithmCard, dict[str, str]]]
    seeds: Sequence[int]
    settings: SweepSettings
    tuned: Mapping[str, Mapping[str, dict[str, Scalar]]] = field(default_factory=dict)
    request: SweepRequest | None = None
    only: frozenset[str] | None = None

    def __iter__(self) -> Iterator[RunSpec]:
        """Yields runs seed by seed within each environment and algorithm.

        Raises:
            InputError: An expert or demonstrations are missing.
        """
        for algorithm, overrides in self.algorithms:
            for env_id, environment in self.environments.items():
                if self._mismatch(algorithm, env_id, environment) is not None:
                    continue
                tuned = self.tuned.get(algorithm.name, {}).get(env_id)
                values = algorithm.resolve(overrides, tuned)
                for seed in self.seeds:
                    spec = make_spec(
                        self.suite, env_id, algorithm, values, seed, self.settings, tuned
                    )
                    if self.only is None or spec.run_id in self.only:
                        yield spec

    @property
    def not_applicable(self) -> list[NotApplicable]:
        """Pairs that were requested but do not fit together."""
        return [
            NotApplicable(algorithm.name, env_id, why)
            for algorithm, _ in self.algorithms
            for env_id, environment in self.environments.items()
            if (why := self._mismatch(algorithm, env_id, environment)) is not None
        ]

    @property
    def sources(self) -> dict[str, SourceRecord]:
        """Locations of source outside this package, by digest."""
        origins = [self.suite.origin, *(card.origin for card, _ in self.algorithms)]
        return {
            origin.digest: SourceRecord.of(origin.place)
            for origin in origins
            if origin.place is not None and origin.digest is not None
        }

    def _mismatch(
        self, algorithm: AlgorithmCard, env_id: str, environment: EnvironmentCard
    ) -> str | None:
        if algorithm.name in self.tuned and env_id not in self.tuned[algorithm.name]:
            return "has no tuned values for this environment; --config default has"
        return _source_mismatch(algorithm, env_id, environment, self.settings.source) or mismatch(
            algorithm, environment
        )


def make_plan(
    *,
    algorithms: Sequence[str | AlgorithmCard],
    suite: str | SuiteCard,
    environment: str | None,
    seeds: Sequence[int],
    settings: SweepSettings,
    lock: HubLock | None = None,
    notify: Notify = silent,
) -> Plan:
    """Checks a request and plans it.

    With source `hub`, experts and demonstrations are fetched to the hub's cache, where the workers
    find them; commits that the suite's card does not pin are looked up.

    Args:
        algorithms: Cards, or names in any form that `imitbench.cards.plugins` accepts; `all`
            means every algorithm except controls, and the controls of the suite.
        suite: Name of the suite, its folder, or its card.
        environment: Globs over environment ids, separated by commas; `None` for all.
        seeds: Seeds of every cell.
        settings: Choices that apply to the whole sweep.
        lock: Commits and digests of earlier downloads.
        notify: Called with messages about downloads.

    Raises:
        InputError: Something requested does not exist, does not fit or cannot be fetched.
    """
    settings = replace(settings, source=artifacts.format_source(settings.source))
    card = find_suite(suite, settings.folder) if isinstance(suite, str) else suite
    cards = _named(algorithms, card, settings.folder)
    resolved = _with_overrides(cards, settings.overrides)
    _check_seeds(len(seeds), seeds, "seeds")
    if settings.pack is not None:
        _check_pack(settings.pack, cards, len(seeds))
    environments = select_environments(card, environment)
    if settings.source == HUB:
        environments = _fetch(card.name, environments, cards, lock, notify)
        card = card.model_copy(update={"environments": {**card.environments, **environments}})
    return Plan(
        suite=card,
        environments=environments,
        algorithms=resolved,
        seeds=seeds,
        settings=settings,
        tuned=_tuned(cards, settings, environments),
    )


def parse_seeds(text: str) -> list[int]:
    """Parses the value of `--seeds`.

    Args:
        text: A count (`3` means 0, 1, 2) or a list of seeds and ranges (`0,3,5-9`; a single
            seed is written with a comma: `4,`).

    Returns:
        Distinct seeds in the order given.

    Raises:
        InputError: The text has neither form, or names too many or too large seeds.
    """
    word = text.strip()
    counted = word.isdecimal() and len(word) < 20
    parts = [f"0-{int(word) - 1}"] if counted else word.strip(",").split(",")
    try:
        ends = [part.partition("-") for part in parts]
        named = [range(int(low), int(high if dash else low) + 1) for low, dash, high in ends]
    except ValueError:
        named = []
    if not any(each.start < each.stop for each in named):
        raise InputError(
            f"--seeds {one_line(text, 60)}: must be a count such as 3, or seeds and ranges such as "
            "0,3,5-9"
        )
    ends_at = (bound for each in named for bound in (each.start, each.stop - 1))
    _check_seeds(sum(map(len, named)), ends_at, f"--seeds {one_line(text, 60)}")
    return list(dict.fromkeys(chain.from_iterable(named)))


def _check_seeds(count: int, seeds: Iterable[int], where: str) -> None:
    if count > _MOST_SEEDS or not all(0 <= seed < _SEEDS_END for seed in seeds):
        raise InputError(
            f"{where}: at most {_MOST_SEEDS} seeds, each below 2^32, which is what random "
            "generators take"
        )


def parse_demo_counts(text: str) -> list[int | None]:
    """Parses the value of `--n-demos`.

    Args:
        text: Numbers of demonstrations, separated by commas; `all` for all available.

    Returns:
        Distinct numbers in the order given, `None` for all.

    Raises:
        InputError: A part is neither a positive number nor `all`.
    """
    counts: list[int | None] = []
    for part in text.split(","):
        word = part.strip()
        if word != "all" and not (word.isdecimal() and int(word) > 0):
            raise InputError(
                f"--n-demos {text}: must be numbers above 0, or all, separated by commas, such as "
                "1,3,10,all"
            )
        counts.append(None if word == "all" else int(word))
    return list(dict.fromkeys(counts))


def parse_overrides(settings: Iterable[str]) -> dict[str, str]:
    """Parses `--set name=value` options.

    Raises:
        InputError: An option has no `=` or no name, or a name has two values.
    """
    overrides: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"--set {setting}: must be name=value or algorithm.name=value")
        name, value = name.strip(), value.strip()
        if overrides.setdefault(name, value) != value:
            raise InputError(f"--set {name}: given twice, as {overrides[name]} and as {value}")
    return overrides


def _named(
    names: Sequence[str | AlgorithmCard], suite: SuiteCard, folder: Path
) -> list[AlgorithmCard]:
    """Returns the cards of the requested algorithms.

    `all` means methods, anchors and the suite's controls; other controls, and references, must be
    named in addition to it.
    """
    named = find_algorithms([name for name in names if name != "all"], folder)
    if "all" not in names:
        return named
    cards = [load_algorithm(name) for name in algorithm_names()]
    wanted = {card.name for card in named} | set(suite.controls)
    for name in wanted - {card.name for card in [*cards, *named]}:
        load_algorithm(name)  # raises an error that explains the problem
    chosen = [card for card in cards if card.role in ("method", "anchor") or card.name in wanted]
    return [*chosen, *(card for card in named if card.origin.place is not None)]


def _tuned(
    cards: list[AlgorithmCard], settings: SweepSettings, environments: Iterable[str]
) -> dict[str, Mapping[str, dict[str, Scalar]]]:
    """Returns tuned values by algorithm; algorithms without any keep their defaults."""
    if settings.config == "default":
        return {}
    names = ", ".join(card.name for card in cards)
    if settings.config == "tuned":
        found = {card.name: tuned for card in cards if (tuned := load_tuned(card)) is not None}
        if not found:
            raise InputError(f"--config tuned: there are no tuned values for {names}; omit it")
        if len(found) == len(cards) and not any(
            map(set(environments).intersection, found.values())
        ):
            known = sorted({env_id for tuned in found.values() for env_id in tuned})
            raise InputError(
                f"--config tuned: {names} has tuned values only for {', '.join(known)}; omit it, "
                "or choose another suite"
            )
        return found
    path = settings.folder / settings.config
    if not path.is_file():
        raise InputError(
            f"--config {settings.config}: must be default, tuned, or a file such as tuned.yaml; "
            f"{path} is not a file"
        )
    file = read_tuned(path)
    for card in cards:
        if card.name == file.algorithm:
            return {card.name: resolve_tuned(path, file, card)}
    raise InputError(
        f"--config {settings.config}: holds values of {file.algorithm}, and not of {names}"
    )


def _with_overrides(
    cards: list[AlgorithmCard], overrides: dict[str, str]
) -> list[tuple[AlgorithmCard, dict[str, str]]]:
    """Gives each algorithm its overrides; each override must apply to at least one."""
    known = {name for card in cards for name in card.hyperparameters}
    qualified = {f"{card.name}.{name}" for card in cards for name in card.hyperparameters}
    for name in overrides:
        if name not in known | qualified:
            algorithms = ", ".join(card.name for card in cards)
            raise InputError(
                f"--set {name}: no such hyper-parameter of {algorithms}; "
                f"{did_you_mean(name, qualified if '.' in name else known)}"
            )
    resolved = []
    for card in cards:
        own = {name: text for name, text in overrides.items() if name in card.hyperparameters}
        prefix = f"{card.name}."
        own |= {
            name.removeprefix(prefix): text
            for name, text in overrides.items()
            if name.startswith(prefix)
        }
        card.resolve(own)  # reports a wrong value before anything is fetched
        resolved.append((card, own))
    return resolved


def _check_pack(pack: int, cards: list[AlgorithmCard], n_seeds: int) -> None:
    others = [card.name for card in cards if not card.packs]
    if others:
        able = ", ".join(name for name in algorithm_names() if load_algorithm(name).packs)
        raise InputError(
            f"--pack {pack}: {', '.join(others)} cannot train several seeds as one network; "
            f"name only {able}, or omit --pack"
        )
    if n_seeds % pack:
        fitting = [str(size) for size in range(2, n_seeds + 1) if n_seeds % size == 0]
        sizes = f"--pack {' or '.join(fitting)}" if fitting else "more seeds, or omit --pack"
        raise InputError(
            f"--pack {pack}: {pack} does not divide the number of seeds, {n_seeds}; use {sizes}"
        )


def _fetch(
    suite: str,
    environments: dict[str, EnvironmentCard],
    algorithms: list[AlgorithmCard],
    lock: HubLock | None,
    notify: Notify,
) -> dict[str, EnvironmentCard]:
    """Fetches demonstrations if needed, and experts always: their returns are the references."""
    with_demos = [
        env_id
        for env_id, card in environments.items()
        for algorithm in algorithms
        if algorithm.needs.demos
        and not _source_mismatch(algorithm, env_id, card, HUB)
        and not mismatch(algorithm, card)
    ]
    sources = [
        source
        for source in suite_sources(environments)
        if source.kind == "model" or source.env_id in with_demos
    ]
    pulled = pull_sources(suite, sources, lock=lock, notify=notify)
    warn_of_pins(suite, pulled, lock, notify)
    return with_commits(environments, pulled)


def _source_mismatch(
    algorithm: AlgorithmCard, env_id: str, environment: EnvironmentCard, source: str
) -> str | None:
    """Returns what a source lacks for an algorithm on an environment; `None` if nothing."""
    if source.startswith(artifacts.MINARI):
        recorded = artifacts.minari_copy(source).environment_id
        if algorithm.needs.expert:
            return "a set of Minari comes without an expert"
        if algorithm.needs.demos and recorded not in (None, env_id):
            return f"the set was recorded on {recorded}"
    if source == HUB:
        if algorithm.needs.demos and environment.demos.hub is None:
            return "the suite card names no hub repository of demonstrations"
        if algorithm.needs.expert and environment.expert and environment.expert.hub is None:
            return "the suite card names no hub repository of an expert"
    return None


_SETUP_S = 1.0  # to build environments, read demonstrations and write results
# Part of a training's time that a pack takes once, not for each seed (benchmarks/README.md).
_SHARED = 0.6

History = Mapping[tuple[str, str, str, int], float]
"""Median seconds of finished runs by (algorithm, environment, budget unit, amount)."""


def expected_seconds(
    run: RunSpec, algorithm: AlgorithmCard, environment: EnvironmentCard, history: History
) -> float:
    """Estimates the seconds of one run on one core.

    Uses finished runs of the same cell and budget if there are any, else the rates on the cards.
    """
    budget = run.budget
    known = history.get((run.algo_label, run.environment.id, budget.unit, budget.amount))
    return time_on_cards(run, algorithm, environment).total_s if known is None else known


def time_on_cards(run: RunSpec, algorithm: AlgorithmCard, environment: EnvironmentCard) -> RunTime:
    """Estimates the time of one run on one core from the rates on the cards."""
    steps = 2 * run.protocol.episodes * environment.max_episode_steps
    return RunTime(
        train_s=training_seconds(
            run.budget, algorithm, run.hyperparameters, environment.steps_per_second, run.pack or 1
        ),
        other_s=_SETUP_S + steps / environment.steps_per_second,
    )


def training_seconds(
    budget: Budget,
    algorithm: AlgorithmCard,
    hyperparameters: Mapping[str, Scalar],
    steps_per_second: float = math.inf,
    pack: int = 1,
) -> float:
    """Estimates the seconds of a training on one core.

    Args:
        budget: Amount of training.
        algorithm: Card of the algorithm.
        hyperparameters: All of them. The time of a method with `updates` every `steps_per_update`
            steps is in proportion to their ratio.
        steps_per_second: Speed of the environment; unknown speeds cost nothing.
        pack: Number of seeds that are trained together.
    """
    work = _updates_per_step(hyperparameters) / _updates_per_step(algorithm.resolve({}))
    work *= 1 - _SHARED + _SHARED / pack
    training = budget.amount / 1000 * algorithm.seconds_per_1000 * work
    return training + (budget.amount / steps_per_second if budget.unit in STEP_UNITS else 0.0)


def _updates_per_step(hyperparameters: Mapping[str, Scalar]) -> float:
    updates, steps = map(hyperparameters.get, ("updates", "steps_per_update"))
    # A plug-in may use these names for something else.
    if isinstance(updates, int) and isinstance(steps, int) and updates > 0 and steps > 0:
        return updates / steps
    return 1.0


class DurationEstimates:
    """Expected seconds of a plan's runs.

    Args:
        plan: The plan whose runs are estimated.
        out: Results folder; its finished runs give the best estimates.
    """

    def __init__(self, plan: Plan, out: Path) -> None:
        self._cards = {card.name: card for card, _ in plan.algorithms}
        self._environments = plan.environments
        self._out = out

    @cached_property
    def _history(self) -> History:
        return _history(self._out)

    def on_cards(self, run: RunSpec) -> RunTime:
        """Returns the expected time of one run by the rates on the cards; reads no file."""
        return time_on_cards(run, self._cards[run.algo], self._environments[run.environment.id])

    def seconds(self, run: RunSpec) -> float:
        """Returns the expected seconds of one run on one core."""
        environment = self._environments[run.environment.id]
        return expected_seconds(run, self._cards[run.algo], environment, self._history)


def _history(out: Path) -> History:
    from imitbench.store import database

    try:
        with database.reader(out) as connection:
            return database.read_durations(connection)
    except InputError:
        return {}
