"""Plans fresh policies on the learned rewards of runs, where they were learned and elsewhere.

A learned reward is worth optimizing if a policy that is trained on it from scratch is as good as
one that is trained on the true reward, also where the dynamics are others (Fu et al. 2018,
"Learning Robust Rewards with Adversarial Inverse Reinforcement Learning", section 7). Each such
training is an ordinary run whose specification names the reward; it is claimed, resumed and
submitted like all others. PPO trains the policies of a reward in an environment as one pack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

from imitbench.bench.frozen_reward import REOPTIMIZED_FOLDER, pin_reward
from imitbench.bench.plan import Plan
from imitbench.bench.seeding import derive_seed
from imitbench.bench.spec import make_spec, reference_scores
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugin_classes import PluginSource
from imitbench.cards.plugins import find_algorithm, find_suite
from imitbench.cards.suite import SuiteCard, mismatch
from imitbench.cards.tuned import load_tuned
from imitbench.errors import InputError
from imitbench.experts.loading import load_run_reward
from imitbench.experts.lookup import find_named_policy
from imitbench.experts.measurement import spaces_of
from imitbench.policies.expert import Spaces
from imitbench.policies.space_check import check_reward_fits
from imitbench.records.environments import EnvironmentSpec
from imitbench.records.reward_scores import OptimizationProtocol, Optimizer
from imitbench.records.runs import DeviceClass, LearnedReward, ReferenceScores, RunSpec
from imitbench.rewards.storage import plugin_of_reward
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_client import silent
from imitbench.util.source_import import SourceLocation, is_registered, location_of_source


@dataclass(frozen=True)
class OptimizationPlan(Plan):
    """Runs that train fresh policies.

    Attributes:
        specs: The runs; those of one algorithm and environment are consecutive.
        plugins: Locations of the source that defines classes of rewards, by digest.
    """

    specs: Sequence[RunSpec] = ()
    plugins: Mapping[str, SourceLocation] = field(default_factory=dict)

    @property
    def sources(self) -> dict[str, SourceLocation]:
        """Locations of source outside this package, by digest."""
        return super().sources | dict(self.plugins)

    def __iter__(self) -> Iterator[RunSpec]:
        """Yields the runs."""
        yield from self.specs


@dataclass(frozen=True)
class FreshPolicies:
    """The policies of one optimizer for one reward in one environment.

    Attributes:
        optimizer: What trains them.
        env_id: Name of the environment on the suite's card.
        specs: Their runs.
    """

    optimizer: Optimizer
    env_id: str
    specs: tuple[RunSpec, ...]


@dataclass(frozen=True)
class TestEnvironment:
    """An environment with other dynamics than that of a run.

    Attributes:
        spec: The environment.
        references: Returns of its scores 0 and 1.
    """

    spec: EnvironmentSpec
    references: ReferenceScores


@dataclass(frozen=True)
class Optimizations:
    """All fresh policies that belong to one run with a learned reward.

    Attributes:
        learned: Those that are trained on the learned reward, in the run's environment first.
        true: Those on the true reward, in the same environments.
        tests: Environments with other dynamics.
    """

    learned: tuple[FreshPolicies, ...]
    true: tuple[FreshPolicies, ...]
    tests: tuple[TestEnvironment, ...]


def reoptimized_folder(out: Path) -> Path:
    """Returns the results folder of the fresh policies for the rewards of another one's runs."""
    return out / REOPTIMIZED_FOLDER


def plan_optimizations(
    runs: Sequence[RunDirectory],
    protocol: OptimizationProtocol,
    *,
    suite: str | None = None,
    trust: bool = False,
    device: DeviceClass | Literal["auto"] = "cpu",
) -> tuple[list[OptimizationPlan], dict[str, Optimizations]]:
    """Plans fresh policies for the rewards of runs.

    Args:
        runs: Complete runs with a stored reward.
        protocol: What trains them, and how many.
        suite: Folder of the runs' suite; `None` for bundled ones.
        trust: Whether workers import plug-ins that define classes of rewards and that only the
            results folder names; otherwise there are no fresh policies for these.
        device: Class of the processor, see `SweepRequest`.

    Returns:
        A plan for each suite and budget, and what belongs to each run, by its id; nothing to a run
        whose reward cannot be read, or is of other spaces, which its measurement reports.

    Raises:
        InputError: A run's suite or environment is not known here, or the suite has no references.
    """
    found: dict[str, Optimizations] = {}
    plans = []
    keyed = sorted(
        ((run, run.read_spec()) for run in runs),
        key=lambda pair: (pair[1].suite, pair[1].budget.name),
    )
    for (name, budget), group in groupby(keyed, key=lambda p: (p[1].suite, p[1].budget.name)):
        planner = _Planner.of(find_suite(suite or name), budget, protocol, device)
        for directory, spec in group:
            if not planner.can_use(directory, spec, trust=trust):
                continue
            found[spec.run_id] = planner.optimizations(spec, pin_reward(directory))
        plans.append(planner.plan())
    return plans, found


def plugin_of_run(directory: RunDirectory) -> str | None:
    """Returns the reference to the plug-in that made a run, if its results folder has one."""
    out = directory.results
    return find_named_policy(str(directory.path), out=out, revision=None, notify=silent).plugin


@dataclass
class _Planner:
    """Plans for the runs of one suite with one budget."""

    suite: SuiteCard
    request: SweepRequest
    cards: dict[Optimizer, AlgorithmCard]
    protocol: OptimizationProtocol
    specs: dict[str, RunSpec] = field(default_factory=dict)
    plugins: dict[str, SourceLocation] = field(default_factory=dict)
    spaces: dict[str, Spaces] = field(default_factory=dict)

    @classmethod
    def of(
        cls, suite: SuiteCard, budget: str, protocol: OptimizationProtocol, device: str
    ) -> _Planner:
        cards = {name: load_algorithm(f"{name}_true_reward") for name in protocol.optimizers}
        request = SweepRequest.model_validate(
            {
                "algorithms": [card.name for card in cards.values()],
                "suite": suite.name,
                "seeds": [],
                "budget": budget,
                "device": device,
                "pack": protocol.policies if protocol.policies > 1 else None,
                "folder": str(Path.cwd()),
            }
        )
        return cls(suite, request, cards, protocol)

    def can_use(self, directory: RunDirectory, spec: RunSpec, *, trust: bool) -> bool:
        """Whether policies can be trained on the reward of a run; arguments as for `allow`."""
        try:
            source = plugin_of_reward(directory.reward)
            if source is not None:
                return self.allow(source, directory, trust=trust)
            net = load_run_reward(directory.path, out=directory.results)
            key = spec.environment.model_dump_json()
            if key not in self.spaces:
                self.spaces[key] = spaces_of(spec.environment)
            known = self.spaces[key]
            check_reward_fits(net, known.observation_space, known.action_space, where="its reward")
        except InputError:  # one wrong reward does not stop the others
            return False
        return True

    def allow(self, source: PluginSource, directory: RunDirectory, *, trust: bool) -> bool:
        """Lets workers import the source of a reward's classes; returns whether it may be.

        Args:
            source: What the reward's file states.
            directory: The run that learned it.
            trust: Whether the plug-in that the results folder names may be imported; otherwise
                only source that the user has named in this command.
        """
        if is_registered(source.digest):
            self.plugins[source.digest] = location_of_source(source.digest, source.name)
            return True
        plugin = plugin_of_run(directory) if trust else None
        if plugin is None:
            return False
        origin = find_algorithm(plugin).origin
        if origin.digest is not None and origin.source is not None:
            self.plugins[origin.digest] = origin.source
        return True

    def optimizations(self, spec: RunSpec, reward: LearnedReward) -> Optimizations:
        """Returns what belongs to one run, and adds it to the plan."""
        trained_in = spec.environment.id
        card = self.suite.environments.get(trained_in)
        plain = spec.environment.model_copy(update={"hidden_positions": None})
        if card is None or EnvironmentSpec.of_card(trained_in, card) != plain:
            raise InputError(
                f"run {spec.run_id}: suite {self.suite.name} has no {trained_in} with the same "
                "arguments; name the folder of its suite by --suite"
            )
        tests = self.suite.tested_in(trained_in)
        cells = [
            (optimizer, env_id)
            for optimizer, algorithm in self.cards.items()
            for env_id in (trained_in, *tests)
            if mismatch(algorithm, self.suite.environments[env_id]) is None
            and not (optimizer == "sac" and card.action_space != "box")
        ]
        return Optimizations(
            tuple(self._fresh(*cell, spec.seed, reward) for cell in cells),
            tuple(self._fresh(*cell, 0, None) for cell in cells),
            tuple(self._test(env_id) for env_id in tests),
        )

    def _test(self, env_id: str) -> TestEnvironment:
        spec = EnvironmentSpec.of_card(env_id, self.suite.environments[env_id])
        return TestEnvironment(spec, reference_scores(self.suite, env_id, "bundled"))

    def _fresh(
        self, optimizer: Optimizer, env_id: str, seed: int, reward: LearnedReward | None
    ) -> FreshPolicies:
        algorithm, request = self.cards[optimizer], self.request
        if optimizer == "sac":  # the learned returns of a pack's seeds are not told apart
            request = request.model_copy(update={"pack": None})
        tuned = (load_tuned(algorithm) or {}).get(env_id)
        values = algorithm.resolve({}, tuned)
        made = []
        number = self.protocol.true_policies if reward is None else self.protocol.policies
        for index in range(number):
            own = derive_seed(seed, f"reward board, fresh policy {index}")
            plain = make_spec(self.suite, env_id, algorithm, values, own, request, tuned)
            changes = {} if reward is None else {"reward": reward, "uses_reward": False}
            made.append(plain.model_copy(update=changes))
        self.specs |= {spec.run_id: spec for spec in made}
        return FreshPolicies(optimizer, env_id, tuple(made))

    def plan(self) -> OptimizationPlan:
        """Returns the plan of all that was asked for."""
        specs = sorted(self.specs.values(), key=lambda spec: (spec.algo_label, spec.environment.id))
        names = dict.fromkeys(spec.environment.id for spec in specs)
        return OptimizationPlan(
            suite=self.suite,
            environments={name: self.suite.environments[name] for name in names},
            algorithms=[(card, {}) for card in self.cards.values()],
            seeds=(),
            request=self.request,
            only=frozenset(self.specs),
            specs=specs,
            plugins=self.plugins,
        )
