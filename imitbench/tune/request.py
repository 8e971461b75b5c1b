"""The settings of a tuning, and those that must not change within a study."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from imitbench.bench.plan import Plan
from imitbench.bench.spec import make_spec
from imitbench.cards.algorithm import AlgorithmCard, Scalar, SearchSpace
from imitbench.cards.demonstrations import Mixture
from imitbench.cards.suite import mismatch
from imitbench.errors import InputError
from imitbench.executors.options import JobOptions
from imitbench.records.runs import AbbreviatedRecord, RunSpec
from imitbench.tune.objectives import OBJECTIVES, Objective, ObjectiveName
from imitbench.tune.storage import StorageKind
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def tuned_hyperparameters(
    card: AlgorithmCard, objective: Objective, overrides: Collection[str] = ()
) -> dict[str, SearchSpace]:
    """Returns the search spaces of the hyper-parameters to vary.

    Args:
        card: Card of the algorithm.
        objective: The objective; it fixes some hyper-parameters.
        overrides: Names of hyper-parameters that are set with `--set`.

    Raises:
        InputError: There is no hyper-parameter to vary, or a value to try needs an optional package
            that is not installed.
    """
    space = card.search_space
    if not space:
        raise InputError(
            f"--algo {card.name}: its card has no search space; give hyper-parameters in "
            "card.yaml a `search`, such as {low: 1.0e-4, high: 0.01, log: true}"
        )
    left = {
        name: search
        for name, search in space.items()
        if name not in overrides and not objective.fixes(name)
    }
    if not left:
        raise InputError(
            f"--algo {card.name}: nothing to search, because --set and --objective "
            f"{objective.name} fix every value; set fewer"
        )
    for name, search in left.items():
        card.hyperparameters[name].check_extras(f"{card.name}.{name}", search.choices or ())
    return left


def distributions(
    card: AlgorithmCard, space: dict[str, SearchSpace]
) -> dict[str, BaseDistribution]:
    """Returns Optuna's distribution of each hyper-parameter."""
    return {name: _distribution(card.hyperparameters[name].type, search)
            for name, search in space.items()}  # fmt: skip


def _distribution(kind: str, search: SearchSpace) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if search.choices is not None:
        return CategoricalDistribution(search.choices)
    assert search.low is not None
    assert search.high is not None
    if kind == "int":
        return IntDistribution(
            int(search.low), int(search.high), log=search.log, step=search.step or 1
        )
    return FloatDistribution(float(search.low), float(search.high), log=search.log)


TUNING_FOLDER = ".tuning"
"""Folder of all studies in a results folder; readers of results skip it."""
_SETTINGS_FILE = "study.json"

Per = Literal["environment", "suite"]
"""Whether values are for each environment or for the whole suite."""


@dataclass(frozen=True)
class StudyScope:
    """The environments of one study.

    Attributes:
        name: The environment's id, or the suite's name for a study of the whole suite.
        environments: Ids of the environments, in the order of a trial's runs.
    """

    name: str
    environments: tuple[str, ...]


@dataclass(frozen=True)
class TuneRequest:
    """Settings of a tuning.

    Attributes:
        plan: One algorithm, the environments, and the settings of every run.
        per: Whether values are for each environment or for the whole suite.
        objective: Name of the objective; its mean is maximized if a study has several environments.
        trials: Total number of trials of each study.
        search_seeds: Seeds of a trial's runs.
        held_out_seeds: Seeds of the held-out comparison with the defaults.
        best: Number of best trials in that comparison.
        search_share: Share of the budget that each trial trains, in (0, 1]; the comparison trains
            all of it.
        pack_seeds: Whether the seeds of a setting on an environment are trained as one network.
        points: Number of equal parts of a trial, after each of which the objective is measured;
            with `pack_seeds`, it is measured at the end of each environment.
        episodes: Episodes of a measurement during training.
        prune: Whether trials that are worse than the median are pruned.
        seed: Seed of the sampler.
        storage: `sqlite` or `journal`.
        command: The command that the user typed, for provenance.
        options: Execution options that workers need.
    """

    plan: Plan
    per: Per = "environment"
    objective: ObjectiveName = "return"
    trials: int = 50
    search_seeds: tuple[int, ...] = (100, 101, 102)
    held_out_seeds: tuple[int, ...] = (200, 201, 202, 203, 204)
    best: int = 3
    search_share: float = 1.0
    pack_seeds: bool = False
    points: int = 5
    episodes: int = 10
    prune: bool = True
    seed: int = 0
    storage: StorageKind = "sqlite"
    command: str = "imitbench tune"
    options: JobOptions = field(default_factory=JobOptions)
    space: dict[str, SearchSpace] = field(init=False)

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            InputError: Seeds are in both sets, there is nothing to search, the objective has no
                mean over environments, or seeds cannot be packed.
        """
        if self.per == "suite" and not self.goal.has_one_scale:
            raise InputError(
                f"--objective {self.objective}: its scale differs between environments, so a mean "
                "is not useful; choose another objective, or --per environment"
            )
        if self.pack_seeds:
            self._check_pack()
        shared = sorted(set(self.search_seeds) & set(self.held_out_seeds))
        if shared:
            raise InputError(
                f"--held-out-seeds: {', '.join(map(str, shared))} also in --search-seeds; values "
                "must be compared on other seeds than they were chosen on"
            )
        overrides = self.plan.algorithms[0][1]
        object.__setattr__(
            self, "space", tuned_hyperparameters(self.algorithm, self.goal, overrides)
        )

    def _check_pack(self) -> None:
        if not self.algorithm.packs:
            raise InputError(
                f"--pack-seeds: {self.algorithm.name} cannot train several seeds as one network; "
                "omit it"
            )
        if not self.goal.uses_reward:
            raise InputError(
                f"--pack-seeds: --objective {self.objective} is measured in each run alone; omit "
                "one of the two"
            )

    @property
    def algorithm(self) -> AlgorithmCard:
        """Card of the algorithm."""
        return self.plan.algorithms[0][0]

    @property
    def scopes(self) -> list[StudyScope]:
        """Scopes of the studies.

        Raises:
            InputError: The algorithm fits no environment.
        """
        left_out = {pair.env: pair.why for pair in self.plan.not_applicable}
        found = [env_id for env_id in self.plan.environments if env_id not in left_out]
        if not found:
            env_id, why = next(iter(left_out.items()))
            raise InputError(f"--env: {self.algorithm.name} on {env_id}: {why}")
        if self.per == "suite":
            return [StudyScope(self.plan.suite.name, tuple(found))]
        return [StudyScope(env_id, (env_id,)) for env_id in found]

    def covered(self, scope: StudyScope) -> tuple[str, ...]:
        """Returns the environments that get a study's values.

        With `per` suite these are all that fit the algorithm, whichever of them it was tuned on.
        """
        if self.per != "suite":
            return scope.environments
        others = {
            env_id: card
            for env_id, card in self.plan.suite.environments.items()
            if card.variant_of is None and mismatch(self.algorithm, card) is None
        }
        return (*scope.environments, *(env for env in others if env not in scope.environments))

    def recorded_environments(self) -> dict[str, Any]:
        """Returns the environments as tuned values record them: if they are not all covered."""
        [scope, *others] = self.scopes
        if others or self.covered(scope) == scope.environments:
            return {}
        return {"environments": list(scope.environments)}

    @property
    def recorded_training(self) -> dict[str, Any]:
        """`search_share` and `pack_seeds` as files have them: left out if they are 1 and false."""
        share = {} if self.search_share == 1 else {"search_share": self.search_share}
        return share | ({"pack_seeds": True} if self.pack_seeds else {})

    @property
    def goal(self) -> Objective:
        """The objective."""
        return OBJECTIVES[self.objective]

    @property
    def base(self) -> dict[str, Scalar]:
        """All hyper-parameters, with `--set` and the card's defaults."""
        card, overrides = self.plan.algorithms[0]
        return card.resolve(overrides)

    def spec(self, env_id: str, values: Mapping[str, Scalar], seed: int) -> RunSpec:
        """Returns the specification of a run of the held-out comparison.

        Raises:
            InputError: An expert or demonstrations are missing.
        """
        return self._spec(env_id, values, seed, len(self.held_out_seeds))

    def trial_spec(self, env_id: str, values: Mapping[str, Scalar], seed: int) -> RunSpec:
        """Returns the specification of a trial's run, with its share of the budget.

        Raises:
            InputError: As `spec`.
        """
        spec = self._spec(env_id, values, seed, len(self.search_seeds))
        amount = max(1, round(spec.budget.amount * self.search_share))
        budget = spec.budget.model_copy(update={"amount": amount})
        return spec.model_copy(update={"budget": budget})

    def _spec(self, env_id: str, values: Mapping[str, Scalar], seed: int, seeds: int) -> RunSpec:
        plan, every = self.plan, {**self.base, **values}
        pack = seeds if self.pack_seeds and seeds > 1 else None
        request = plan.request.model_copy(update={"pack": pack})
        return make_spec(plan.suite, env_id, self.algorithm, every, seed, request)

    @property
    def defaults(self) -> dict[str, Scalar]:
        """Default values of the searched hyper-parameters."""
        return {name: self.base[name] for name in self.space}


def default_name(algo: str, suite: str, per: Per, objective: str, budget: str) -> str:
    """Returns the default name of a tuning."""
    parts = [algo, suite]
    parts += [f"per-{per}"] * (per != "environment")
    parts += [objective] * (objective != "return")
    parts += [budget.replace("/", "-")] * (budget != "default")
    return "-".join(parts)


class StudySettings(AbbreviatedRecord):
    """Settings that all trials of a study share (`study.json`).

    Attributes:
        env: The environment's id, or the suite's name for a study of the whole suite.
        environments: Environments of a whole suite; empty for one environment.
        search_share: As in `TuneRequest`; `None`, and not serialized, for 1.
        pack_seeds: As in `TuneRequest`; `None`, and not serialized, for false.
        first_run: Id of the first trial's first run on each environment, which depends on all
            inputs of a run, such as the content of demonstrations or the code of a plug-in.
    """

    optional = ("search_share", "pack_seeds")
    schema_version: Literal[1] = 1
    algo: str
    implementation: str
    suite: str
    env: str
    environments: list[str] = Field(default_factory=list)
    objective: ObjectiveName
    budget: str
    n_demos: int | None
    demo_every: int | None = None
    actions: Literal["hidden"] | None = None
    mixture: Mixture | None = None
    source: str
    device: str
    search_seeds: list[int]
    points: int
    episodes: int
    prune: bool
    sampler_seed: int
    search_share: float | None = None
    pack_seeds: Literal[True] | None = None
    storage: StorageKind
    space: dict[str, SearchSpace]
    values: dict[str, Scalar]
    first_run: str

    @classmethod
    def of(cls, request: TuneRequest, scope: StudyScope) -> StudySettings:
        """Returns the settings of a request."""
        settings = request.plan.request
        seed = request.search_seeds[0]
        first = [request.trial_spec(env_id, {}, seed).run_id for env_id in scope.environments]
        return cls(
            algo=request.algorithm.name,
            implementation=request.algorithm.implementation,
            suite=request.plan.suite.name,
            env=scope.name,
            environments=list(scope.environments) if request.per == "suite" else [],
            objective=request.objective,
            budget=settings.budget,
            **settings.regime.recorded,
            source=request.plan.source,
            device=settings.device,
            search_seeds=list(request.search_seeds),
            points=request.points,
            episodes=request.episodes,
            prune=request.prune,
            sampler_seed=request.seed,
            storage=request.storage,
            space=request.space,
            values=request.base,
            first_run=" ".join(first),
            **request.recorded_training,
        )

    @classmethod
    def read(cls, folder: Path) -> StudySettings | None:
        """Reads the settings of a study; `None` if there is none.

        Raises:
            InputError: The file is damaged.
        """
        path = folder / _SETTINGS_FILE
        try:
            return cls.model_validate_json(read_content(path))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{path}: not the settings of a study ({problem})") from error

    def check(self, folder: Path) -> None:
        """Checks that the settings equal those of the study in a folder, if there is one.

        Raises:
            InputError: A setting differs.
        """
        before = self.read(folder)
        for name in type(self).model_fields if before is not None else ():
            was, now = getattr(before, name), getattr(self, name)
            if was != now:
                raise InputError(
                    f"{folder}: this study was started with {_difference(name, was, now)}; give "
                    "another --name, or delete the folder to start again"
                )

    def write(self, folder: Path) -> None:
        """Writes the settings to a study's folder."""
        atomic_write_text(folder / _SETTINGS_FILE, self.model_dump_json(indent=1) + "\n")


def _difference(name: str, was: object, now: object) -> str:
    if name == "first_run":
        return "other demonstrations, another expert, environment or code of the method"
    if name == "environments":
        return f"{', '.join(map(str, was))}" if isinstance(was, list) and was else "one environment"
    values = "" if isinstance(was, dict) else f" ({was}, not {now})"
    return f"another {name.replace('_', ' ')}{values}"
