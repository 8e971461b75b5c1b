"""What a tuning is asked to do, and what of that a study must have been begun with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from imitbench.bench.plan import Plan
from imitbench.bench.spec import make_spec
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.search import Search
from imitbench.errors import InputError
from imitbench.executors.options import JobOptions
from imitbench.store.records import Record, RunSpec
from imitbench.tune.objectives import OBJECTIVES, Objective, ObjectiveName
from imitbench.tune.search_space import searched
from imitbench.tune.storage import StorageKind
from imitbench.util.files import atomic_write_text

TUNING_FOLDER = ".tuning"
"""Folder of all studies below a results folder, which nothing that reads results looks into."""
_SETTINGS_FILE = "study.json"

Per = Literal["environment", "suite"]
"""What gets values of its own."""


@dataclass(frozen=True)
class Scope:
    """What one study finds values for.

    Attributes:
        name: The environment's id; the suite's name where all of it gets the same values.
        environments: Ids of the environments, in the order in which a trial goes through them.
    """

    name: str
    environments: tuple[str, ...]


@dataclass(frozen=True)
class TuneRequest:
    """What is asked for.

    Attributes:
        plan: One algorithm, the environments, and choices that hold for every run.
        per: What gets values of its own: each environment, or the suite as a whole.
        objective: Name of what is maximized; its mean, where a study has several environments.
        trials: Trials of each study, all in all.
        search_seeds: Seeds of the runs of a trial.
        held_out_seeds: Seeds of the contest with the defaults.
        best: How many of the best trials take part in that.
        points: Parts of the budget after which the objective is measured.
        episodes: Episodes of a measurement in the course of a training.
        prune: Whether trials are given up that do worse than the median.
        seed: Seed of the proposals.
        storage: Kind of the study's file.
        command: The command that the user typed, for provenance.
        options: What workers need to know of how runs are carried out.
    """

    plan: Plan
    per: Per = "environment"
    objective: ObjectiveName = "return"
    trials: int = 50
    search_seeds: tuple[int, ...] = (100, 101, 102)
    held_out_seeds: tuple[int, ...] = (200, 201, 202, 203, 204)
    best: int = 3
    points: int = 5
    episodes: int = 10
    prune: bool = True
    seed: int = 0
    storage: StorageKind = "sqlite"
    command: str = "imitbench tune"
    options: JobOptions = field(default_factory=JobOptions)
    space: dict[str, Search] = field(init=False)

    def __post_init__(self) -> None:
        """Looks for what can be refused at once.

        Raises:
            InputError: Seeds are shared, there is nothing to search, or no mean of the objective.
        """
        if self.per == "suite" and not self.goal.has_one_scale:
            raise InputError(
                f"--objective {self.objective}: its scale differs between environments, so that "
                "their mean says little; choose another objective, or --per environment"
            )
        shared = sorted(set(self.search_seeds) & set(self.held_out_seeds))
        if shared:
            raise InputError(
                f"--held-out-seeds: {', '.join(map(str, shared))} also among --search-seeds; "
                "values must be judged on seeds that they were not chosen on"
            )
        overrides = self.plan.algorithms[0][1]
        object.__setattr__(self, "space", searched(self.algorithm, self.goal, overrides))

    @property
    def algorithm(self) -> AlgorithmCard:
        """Card of the algorithm."""
        return self.plan.algorithms[0][0]

    @property
    def scopes(self) -> list[Scope]:
        """The studies.

        Raises:
            InputError: The algorithm fits no environment.
        """
        left_out = {pair.env: pair.why for pair in self.plan.not_applicable}
        found = [env_id for env_id in self.plan.environments if env_id not in left_out]
        if not found:
            env_id, why = next(iter(left_out.items()))
            raise InputError(f"--env: {self.algorithm.name} on {env_id}: {why}")
        if self.per == "suite":
            return [Scope(self.plan.suite.name, tuple(found))]
        return [Scope(env_id, (env_id,)) for env_id in found]

    @property
    def goal(self) -> Objective:
        """What is maximized."""
        return OBJECTIVES[self.objective]

    @property
    def base(self) -> dict[str, Scalar]:
        """Every hyper-parameter as it is where the search does not vary it."""
        card, overrides = self.plan.algorithms[0]
        return card.resolve(overrides)

    def spec(self, env_id: str, values: Mapping[str, Scalar], seed: int) -> RunSpec:
        """A run with some hyper-parameters of its own.

        Raises:
            InputError: An expert or demonstrations are missing.
        """
        plan, every = self.plan, {**self.base, **values}
        return make_spec(plan.suite, env_id, self.algorithm, every, seed, plan.settings)

    @property
    def defaults(self) -> dict[str, Scalar]:
        """The card's values of what is searched."""
        return {name: self.base[name] for name in self.space}


def default_name(algo: str, suite: str, per: Per, objective: str, budget: str) -> str:
    """What a tuning is called unless it is named."""
    parts = [algo, suite]
    parts += [f"per-{per}"] * (per != "environment")
    parts += [objective] * (objective != "return")
    parts += [budget] * (budget != "default")
    return "-".join(parts)


class StudySettings(Record):
    """What all trials of a study have in common (`study.json`).

    Attributes:
        env: The environment; the suite's name where all of it gets the same values.
        environments: Those of a whole suite; empty where there is one.
        first_run: Identity of the first trial's first run on each environment: it changes with
            whatever a run's numbers depend on, such as the content of demonstrations or the code
            of a plug-in.
    """

    schema_version: Literal[1] = 1
    algo: str
    implementation: str
    suite: str
    env: str
    environments: list[str] = Field(default_factory=list)
    objective: ObjectiveName
    budget: str
    n_demos: int | None
    source: str
    device: str
    search_seeds: list[int]
    points: int
    episodes: int
    prune: bool
    sampler_seed: int
    storage: StorageKind
    space: dict[str, Search]
    values: dict[str, Scalar]
    first_run: str

    @classmethod
    def of(cls, request: TuneRequest, scope: Scope) -> StudySettings:
        """Those of a request."""
        settings = request.plan.settings
        seed = request.search_seeds[0]
        first = [request.spec(env_id, {}, seed).run_id for env_id in scope.environments]
        return cls(
            algo=request.algorithm.name,
            implementation=request.algorithm.implementation,
            suite=request.plan.suite.name,
            env=scope.name,
            environments=list(scope.environments) if request.per == "suite" else [],
            objective=request.objective,
            budget=settings.budget,
            n_demos=settings.n_demos,
            source=settings.source,
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
        )

    @classmethod
    def read(cls, folder: Path) -> StudySettings | None:
        """Those that a study was begun with; `None` where there is none.

        Raises:
            InputError: The file is damaged.
        """
        path = folder / _SETTINGS_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{path}: not the settings of a study ({problem})") from error

    def check(self, folder: Path) -> None:
        """Makes sure that they are those that the study of a folder was begun with, if it was.

        Raises:
            InputError: They are not.
        """
        before = self.read(folder)
        for name in type(self).model_fields if before is not None else ():
            was, now = getattr(before, name), getattr(self, name)
            if was != now:
                raise InputError(
                    f"{folder}: this study was begun with {_difference(name, was, now)}; give "
                    "another --name, or delete the folder to start again"
                )

    def write(self, folder: Path) -> None:
        """Writes them down."""
        atomic_write_text(folder / _SETTINGS_FILE, self.model_dump_json(indent=1) + "\n")


def _difference(name: str, was: object, now: object) -> str:
    if name == "first_run":
        return "other demonstrations, another expert, environment or code of the method"
    if name == "environments":
        return f"{', '.join(map(str, was))}" if isinstance(was, list) and was else "one environment"
    told = "" if isinstance(was, dict) else f" ({was}, not {now})"
    return f"another {name.replace('_', ' ')}{told}"
