"""Expands algorithms x environments x seeds into runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from imitbench.bench import artifacts
from imitbench.bench.artifacts import HUB
from imitbench.bench.spec import choose_processor, make_spec, reference_scores
from imitbench.bench.supplement import MissingSet, check_source, missing_sets, with_own_sets
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.catalog import (
    algorithm_names,
    load_algorithm,
    select_environments,
    suite_names,
)
from imitbench.cards.demonstrations import Regime, parse_mixture
from imitbench.cards.plugins import find_algorithms, find_suite
from imitbench.cards.suite import EnvironmentCard, SuiteCard, mismatch, regime_mismatch
from imitbench.cards.tuned import load_tuned, read_tuned, resolve_tuned
from imitbench.errors import InputError, did_you_mean
from imitbench.hub.lock_file import HubLock, read_lock
from imitbench.hub.suite_sources import (
    pull_sources,
    suite_sources,
    warn_of_pins,
    with_commits,
)
from imitbench.records.runs import DeviceClass, ReferenceScores, RunSpec
from imitbench.store.live_runs import DurationEstimates
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.extras import check_extra, extra_of_environment
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.source_import import SourceLocation
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
        request: The request, so that it can be planned again; it names algorithms and suite as
            their cards do.
        only: Ids of the runs to do; `None` for all.
    """

    suite: SuiteCard
    environments: dict[str, EnvironmentCard]
    algorithms: list[tuple[AlgorithmCard, dict[str, str]]]
    seeds: Sequence[int]
    request: SweepRequest
    tuned: Mapping[str, Mapping[str, dict[str, Scalar]]] = field(default_factory=dict)
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
                        self.suite, env_id, algorithm, values, seed, self.request, tuned
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
    def sources(self) -> dict[str, SourceLocation]:
        """Locations of source outside this package, by digest."""
        origins = [self.suite.origin, *(card.origin for card, _ in self.algorithms)]
        return {
            origin.digest: origin.source
            for origin in origins
            if origin.source is not None and origin.digest is not None
        }

    @property
    def processor(self) -> DeviceClass:
        """Class of processor that workers need: a GPU if any method uses one."""
        found = {choose_processor(self.request.device, card) for card, _ in self.algorithms}
        return next(iter(found - {"cpu"}), "cpu")

    @property
    def source(self) -> str:
        """Where experts and demonstrations come from, in the spelling of records."""
        return artifacts.format_source(self.request.source)

    @property
    def source_root(self) -> Path:
        """Folder that holds `experts/` and `demos/`."""
        folder = Path(self.request.folder)
        return artifacts.source_root(self.source, self.suite.origin.folder, folder)

    @property
    def missing_sets(self) -> list[MissingSet]:
        """Sets of the mixture that have yet to be collected; other sources bring theirs.

        Raises:
            InputError: The policy of a set is missing.
        """
        if self.source != "bundled":
            return []
        return missing_sets(self.suite, self.environments, self.request.mixture or {})

    def check_extras(self) -> None:
        """Checks that the optional packages of the runs are installed.

        Raises:
            InputError: A package is not installed; the message has the `pip` command.
        """
        for algorithm, overrides in self.algorithms:
            for env_id, environment in self.environments.items():
                if self._mismatch(algorithm, env_id, environment) is None:
                    gym_id = environment.variant_of or env_id
                    if extra := extra_of_environment(gym_id, environment.module):
                        check_extra(extra, f"environment {env_id}")
                    tuned = self.tuned.get(algorithm.name, {}).get(env_id)
                    algorithm.check_extras(algorithm.resolve(overrides, tuned))

    def references(self, env_id: str) -> ReferenceScores:
        """Returns the reference scores of an environment.

        Raises:
            InputError: The suite has not been measured.
        """
        return reference_scores(self.suite, env_id, self.source, Path(self.request.folder))

    def estimates(self, out: Path) -> DurationEstimates:
        """Returns expected times of the runs, from a results folder and the cards."""
        return DurationEstimates([card for card, _ in self.algorithms], self.environments, out)

    def _lacks_data(self, regime: Regime, environment: EnvironmentCard) -> str | None:
        wanted, there = regime.n_demos or 1, environment.demos.trajectories
        most = max(card.demos.trajectories for card in self.environments.values())
        # If no environment has as many, the number is wrong, which is told later.
        if self.source == "bundled" and there < wanted <= most:
            return f"has {there} demonstrations, fewer than {wanted}"
        return regime.why_impossible(environment.sets)

    def _mismatch(
        self, algorithm: AlgorithmCard, env_id: str, environment: EnvironmentCard
    ) -> str | None:
        if algorithm.name in self.tuned and env_id not in self.tuned[algorithm.name]:
            return "has no tuned values for this environment; --config default has"
        regime = self.request.regime
        return (
            regime_mismatch(algorithm, regime)
            or (self._lacks_data(regime, environment) if algorithm.needs.demos else None)
            or _source_mismatch(algorithm, env_id, environment, self.source)
            or mismatch(algorithm, environment)
        )


def plan_request(
    request: SweepRequest,
    notify: Notify = silent,
    *,
    algorithms: Sequence[AlgorithmCard] | None = None,
    suite: SuiteCard | None = None,
    collect: bool = True,
) -> Plan:
    """Checks a request and plans it.

    With source `hub`, experts and demonstrations are fetched to the hub's cache, where the workers
    find them; commits that the suite's card does not pin are looked up.

    Args:
        request: Algorithms, suite, seeds and settings, as requested. The algorithm `all` means
            every algorithm except controls, and the controls of the suite.
        notify: Called with messages about downloads, and sets that are collected.
        algorithms: Cards of its algorithms, if they have been found already.
        suite: Card of its suite, if it has been found already.
        collect: Whether sets that have yet to be collected are; a dry run collects none.

    Raises:
        InputError: Something requested does not exist, does not fit or cannot be fetched.
    """
    folder = Path(request.folder)
    lock = None
    if request.source == HUB and request.lock is not None:
        lock = read_lock(folder / request.lock, missing_ok=False)
    suite = find_suite(request.suite, folder) if suite is None else suite
    cards = _named(request.algorithms if algorithms is None else algorithms, suite, folder)
    resolved = _with_overrides(cards, request.overrides)
    _check_seeds(len(request.seeds), request.seeds, "seeds")
    own_sets = request.own_sets or {}
    if request.mixture and request.mixture.keys() - own_sets.keys():
        check_source(request.source)
    if request.pack is not None:
        _check_pack(request.pack, cards, len(request.seeds))
    environments = select_environments(suite, request.environment, ordinary=True)
    if own_sets:
        environments = {
            env_id: with_own_sets(card, own_sets, folder) for env_id, card in environments.items()
        }
        suite = suite.with_environments(environments)
    if any(card.variant_of is not None for card in environments.values()):
        from imitbench.bench.environments import check_variants  # imports the simulators

        check_variants(suite, environments)
    if request.source == HUB:
        environments = _fetch(suite.name, environments, cards, lock, notify)
        suite = suite.with_environments(environments)
    if request.source == artifacts.MINARI_SETS:
        from imitbench.bench.minari_sets import check_sets  # imports the simulators

        check_sets(suite, environments)
    outside = {card.name: card.origin.reference for card in cards if card.origin.source}
    if suite.name not in suite_names():
        outside[suite.name] = suite.origin.reference
    found = {
        "algorithms": [card.name for card in cards],  # `all` is replaced by names
        "suite": suite.name,
        "plugins": outside,
    }
    plan = Plan(
        suite=suite,
        environments=environments,
        algorithms=resolved,
        seeds=request.seeds,
        request=request.model_copy(update=found),
        tuned=_tuned(cards, request, environments),
    )
    plan.check_extras()
    for missing in plan.missing_sets if collect else []:
        missing.collect(notify)
    return plan


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
    if not any(part.start < part.stop for part in named):
        raise InputError(
            f"--seeds {one_line(text, 60)}: must be a count such as 3, or seeds and ranges such as "
            "0,3,5-9"
        )
    ends_at = (bound for part in named for bound in (part.start, part.stop - 1))
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


@dataclass(frozen=True)
class DemoChoice:
    """How much of the demonstrations was requested, before the suite is known.

    Attributes:
        counts: Numbers of demonstrations, `None` for all; empty if none were requested.
        every: One step is kept out of so many of each; `None` for all steps.
        regimes: Names of regimes of the suite's card, in place of both.
        actions: Whether methods see actions; `None` for what the regime says.
        mixture: Further trajectories by the name of their set; `None` for what the regime says.
        own_sets: Where sets of the mixture are that the suite's card lacks, by name.
    """

    counts: tuple[int | None, ...] = ()
    every: int | None = None
    regimes: tuple[str, ...] = ()
    actions: Literal["shown", "hidden"] | None = None
    mixture: Mapping[str, int] | None = None
    own_sets: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        n_demos: str | None,
        demo_every: int | None,
        regime: str | None,
        actions: Literal["shown", "hidden"] | None = None,
        mixture: str | None = None,
    ) -> DemoChoice:
        """Parses `--n-demos`, `--demo-every`, `--regime`, `--actions` and `--mixture`.

        Raises:
            InputError: One of them is wrong, or they exclude each other.
        """
        if demo_every is not None and demo_every < 1:
            raise InputError(f"--demo-every {demo_every}: must be 1 or more")
        every = None if demo_every == 1 else demo_every
        try:
            parts, own = (None, {}) if mixture is None else parse_mixture(mixture)
        except ValueError as error:
            raise InputError(f"--mixture {error}") from None
        if regime is None:
            counts = () if n_demos is None else tuple(parse_demo_counts(n_demos))
            # Steps of all demonstrations, not of those of the suite's default regime.
            counts = counts or ((None,) if demo_every is not None else ())
            return cls(counts, every, actions=actions, mixture=parts, own_sets=own)
        if n_demos is not None or demo_every is not None:
            other = "--n-demos" if n_demos is not None else "--demo-every"
            raise InputError(f"--regime {regime}: says what {other} says; give one of them")
        names = tuple(dict.fromkeys(name.strip() for name in regime.split(",")))
        return cls(regimes=names, actions=actions, mixture=parts, own_sets=own)

    def only(self, suite: str, what: str) -> Regime:
        """Returns the only regime.

        Args:
            suite: Name or folder of the suite.
            what: What can have one only, in messages.

        Raises:
            InputError: There are several, or the suite or the regime does not exist, or a set is
                not on the suite's card.
        """
        found, *others = self.of(find_suite(suite))
        if others:
            raise InputError(f"--n-demos, --regime: {what} takes one at a time; give one")
        if self.own_sets:
            raise InputError(
                f"--mixture {next(iter(self.own_sets))}=…: {what} takes sets of the suite's card; "
                "name yours there with `source`"
            )
        return found

    def of(self, suite: SuiteCard) -> list[Regime]:
        """Returns what it means for a suite.

        Raises:
            InputError: The suite has no regime with that name.
        """
        own = {"actions": self.actions, "mixture": self.mixture}
        given = {name: value for name, value in own.items() if value is not None}
        if self.counts:
            regimes = [Regime(n_demos=count, demo_every=self.every) for count in self.counts]
        else:
            try:
                names = self.regimes or (suite.default_regime,)
                regimes = [suite.regime(name) for name in names]
            except ValueError as error:
                raise InputError(f"--regime: suite {suite.name} {error}") from None
        found: list[Regime] = []
        for regime in regimes:
            changed = regime.model_copy(update=given)
            if changed not in found:
                found.append(changed)
        return found


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
    return [*chosen, *(card for card in named if card.origin.source is not None)]


def _tuned(
    cards: list[AlgorithmCard], request: SweepRequest, environments: Iterable[str]
) -> dict[str, Mapping[str, dict[str, Scalar]]]:
    """Returns tuned values by algorithm; algorithms without any keep their defaults."""
    if request.config == "default":
        return {}
    names = ", ".join(card.name for card in cards)
    if request.config == "tuned":
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
    path = Path(request.folder, request.config)
    if not path.is_file():
        raise InputError(
            f"--config {request.config}: must be default, tuned, or a file such as tuned.yaml; "
            f"{path} is not a file"
        )
    file = read_tuned(path)
    for card in cards:
        if card.name == file.algorithm:
            return {card.name: resolve_tuned(path, file, card)}
    raise InputError(
        f"--config {request.config}: holds values of {file.algorithm}, and not of {names}"
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
    if not any(card.packs for card in cards):
        others = [card.name for card in cards]
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
    if source == artifacts.MINARI_SETS:
        if algorithm.needs.expert:
            return "a set of Minari comes without an expert"
        if algorithm.needs.demos and environment.minari is None:
            return "the suite card names no set of Minari"
    if source.startswith(artifacts.MINARI):
        recorded = artifacts.minari_copy(source).environment_id
        if algorithm.needs.expert:
            return "a set of Minari comes without an expert"
        if algorithm.needs.demos and recorded not in (
            None, environment.variant_of or env_id
        ):  # fmt: skip
            return f"the set was recorded on {recorded}"
    if source == HUB:
        if algorithm.needs.demos and environment.demos.hub is None:
            return "the suite card names no hub repository of demonstrations"
        if algorithm.needs.expert and environment.expert and environment.expert.hub is None:
            return "the suite card names no hub repository of an expert"
    return None
