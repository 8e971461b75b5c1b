"""Records of a run: its specification, its outcome and its provenance.

A `RunSpec` holds exactly the inputs that determine a run's numbers; its content hash is the run's
identity. Provenance (host, versions, times) is stored with the outcome.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from imitbench.cards.algorithm import BudgetUnit, Role, Scalar
from imitbench.cards.demonstrations import SET_NAME, Conversion, PackageData, Regime
from imitbench.cards.suite import ScoreOne
from imitbench.records.environments import POSITIONS_KEYS as POSITIONS_KEYS
from imitbench.records.environments import AbbreviatedRecord as AbbreviatedRecord
from imitbench.records.environments import EnvironmentSpec as EnvironmentSpec
from imitbench.records.environments import Record as Record
from imitbench.records.selection import Acting
from imitbench.stats.normalization import normalize
from imitbench.util.numbers import Count, Integer, Size
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from typing_extensions import Self


RUN_ID_LENGTH = 12

Share = Annotated[float, Field(ge=0, le=1)]

DeviceClass = Literal["cpu", "cuda", "hybrid"]
"""Processors of a run: the CPU, a GPU, or a GPU that trains and a CPU that evaluates."""


class ArtifactSpec(AbbreviatedRecord):
    """An expert or a set of demonstrations, pinned by content.

    Attributes:
        source: Where it came from: `bundled`, `hub`, `path:DIR`, `minari` or `minari:NAME`; for
            sets of a mixture also `file` or `collected`.
        repo: Repository name in hub layout, for example `ppo-seals-CartPole-v0`.
        revision: Commit of a hub repository; with `minari`, the start of the set's digest; `None`
            for other sources.
        digest: SHA-256 over the files that were read; of a set that was collected, of its recipe.
        home: Bundled suite in whose folder it is, if that is not the suite of the run; serialized
            only then.
        package: Data of an installed package that they are, in place of files; serialized only
            then.
        conversion: How a set of LeRobot on the hub was converted; serialized only then.
    """

    optional: ClassVar[tuple[str, ...]] = ("home", "package", "conversion")

    source: str
    repo: str
    revision: str | None = None
    digest: str
    home: str | None = None
    package: PackageData | None = None
    conversion: Conversion | None = None


class SupplementSpec(ArtifactSpec):
    """A set of trajectories of another policy, and how many of them a run uses.

    Attributes:
        name: Name of the set on the suite's card.
        available: Number of trajectories in the set.
        count: Number of trajectories used.
    """

    name: Annotated[str, Field(pattern=SET_NAME)]
    available: Size
    count: Size


class DemoSpec(ArtifactSpec):
    """Demonstrations, and which of them a run uses.

    Attributes:
        available: Number of trajectories in the set.
        count: Number of trajectories used.
        subsample_seed: Seed of the draw without replacement when `count` is less than all, of the
            first step that is kept of each trajectory, and of draw and order of the supplement.
        every: One step is kept out of so many of each trajectory; `None` for all steps. Serialized
            only if it is not `None`, as are the other two.
        actions: `hidden` if they are removed before the method gets the trajectories.
        supplement: Sets of a mixture by increasing name, offered besides the demonstrations.
    """

    optional = (*ArtifactSpec.optional, "every", "actions", "supplement")

    available: Size
    count: Size
    subsample_seed: Integer = 0
    every: Annotated[int, Field(ge=2)] | None = None
    actions: Literal["hidden"] | None = None
    supplement: Annotated[list[SupplementSpec], Field(min_length=1)] | None = None

    @property
    def regime(self) -> Regime:
        """What the run learned from, in the words of suite cards."""
        return Regime(
            n_demos=None if self.count == self.available else self.count,
            demo_every=self.every,
            actions=self.actions or "shown",
            mixture=self.mixture,
        )

    @property
    def mixture(self) -> dict[str, int]:
        """Numbers of trajectories of the supplement, by the name of their set."""
        return {part.name: part.count for part in self.supplement or ()}

    @property
    def whole(self) -> bool:
        """Whether a run uses all that there is, and nothing of it depends on its seed."""
        return self.count == self.available and self.every is None and self.supplement is None


class LearnedReward(Record):
    """The stored reward of a run, which another run optimizes in place of the environment's own.

    Attributes:
        run: Path of the run that learned it below its results folder:
            `suite/algorithm/environment/run_id`.
        digest: SHA-256 over its files.
    """

    run: Annotated[str, Field(pattern=r"^[^/.\\][^/\\]*(/[^/.\\][^/\\]*){3}$")]
    digest: str


class Budget(Record):
    """Amount of training of a run.

    Attributes:
        name: `quick`, `default` or `full`.
        unit: Counted quantity: environment steps or optimizer batches; `none` for learners that
            do not train.
        amount: Number of units.
    """

    name: str
    unit: BudgetUnit
    amount: Count


class Protocol(Record):
    """How a trained policy is evaluated.

    Attributes:
        episodes: Episodes for each of the stochastic and the deterministic policy.
        environments: Environments stepped in parallel; episode `i` always runs in environment
            `i % environments`, so short episodes are not over-counted.
        version: Raised when the procedure changes in a way that changes numbers.
    """

    episodes: Size = 50
    environments: Size = 25
    version: Literal[1] = 1


class RunSpec(AbbreviatedRecord):
    """One algorithm on one environment with one seed: everything that determines the numbers.

    Attributes:
        implementation_digest: Source digest of an algorithm from outside this package; `None`
            for built-in ones, whose behavior is identified by `schema_version` and the card.
        pack: Number of seeds that are trained together as one batched network; `None` for a run
            that is trained alone. Rounding depends on it. Serialized only if it is not `None`.
        variant: Label for hyper-parameters that differ from the card's. `variant`, `uses_reward`
            and `role` follow from the other fields, and are not part of the identity.
        uses_reward: Whether the method learns from the environment's own reward.
        role: Role of a reference or control from outside this package; `None` for methods, and for
            built-in algorithms, whose cards state it. `imitbench.records.bundled_cards` returns
            the role of any run. Serialized only if it is not `None`, so that earlier files stay
            unchanged.
        reward: Learned reward that replaces the environment's own in training; `None` for none.
            Serialized only if it is not `None`.
    """

    optional = ("role", "pack", "reward")

    schema_version: Literal[1] = 1
    suite: str
    algo: str
    implementation: str
    implementation_digest: str | None = None
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    environment: EnvironmentSpec
    demos: DemoSpec | None = None
    expert: ArtifactSpec | None = None
    seed: Count
    budget: Budget
    protocol: Protocol = Protocol()
    device: DeviceClass = "cpu"
    pack: Annotated[int, Field(ge=2)] | None = None
    variant: str = ""
    uses_reward: bool = False
    role: Literal["reference", "control"] | None = None
    reward: LearnedReward | None = None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> RunSpec:
        """Copies the record; a changed copy has hashes of its own."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("digest", "setting"):
            copied.__dict__.pop(name, None)
        return copied

    # A results folder has thousands of specifications, whose hashes are asked for again and again.
    @cached_property
    def digest(self) -> str:
        """Content hash; equal specifications have equal hashes on every machine."""
        identity = self.model_dump(mode="json", exclude={"variant", "uses_reward", "role"})
        return canonical_digest(identity)

    @cached_property
    def setting(self) -> str:
        """Content hash without the seed; runs with different hashes must not be averaged."""
        identity = self.model_dump(mode="json", exclude={"variant", "uses_reward", "role", "seed"})
        if identity["demos"] is not None:  # each seed draws its own
            del identity["demos"]["subsample_seed"]
        return canonical_digest(identity)

    @property
    def run_id(self) -> str:
        """The first 12 digits of the digest."""
        return self.digest[:RUN_ID_LENGTH]

    @property
    def source(self) -> str | None:
        """Where its demonstrations or its expert came from; `None` for runs with neither."""
        artifact = self.demos or self.expert
        return artifact.source if artifact else None

    @property
    def tuned(self) -> bool:
        """Whether its label says that it has the values tuned for the environment."""
        return self.variant.split(",")[0] == "tuned"

    @property
    def algo_label(self) -> str:
        """The algorithm's name in reports, with its variant."""
        return f"{self.algo}[{self.variant}]" if self.variant else self.algo

    @property
    def label(self) -> str:
        """Name of this run in messages."""
        name = f"{self.algo_label} on {self.environment.id}, seed {self.seed}"
        if self.reward is not None:
            _, algo, _, run_id = self.reward.run.split("/")
            name = f"{name.replace('_true_reward', '', 1)}, reward of {algo} {run_id}"
        return one_line(name, 300)


class _WithScoreOne(AbbreviatedRecord):
    """Fields of references that are serialized only where they say something.

    Attributes:
        score_one: Whose return is score 1.
        demonstrations: Mean return of the demonstrators, if it is known and there is no expert.
        expert_likely: Mean return of the expert's most likely actions, score 1 of policies that act
            in this way, as far as it is recorded: runs of suites of this package leave it to the
            card, see `imitbench.records.bundled_cards.likely_expert`.
    """

    optional = ("demonstrations", "expert_likely")

    score_one: ScoreOne = "expert"
    demonstrations: float | None = None
    expert_likely: float | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document = super()._without_absent(write)
        if document.get("score_one") == "expert":
            document.pop("score_one")
        return document


class ReferenceScores(_WithScoreOne):
    """Mean returns that define the scores 0 and 1.

    Attributes:
        random: Mean return of uniformly random actions.
        expert: Mean return of score 1: of the expert in use, or what `score_one` says. Where that
            is success, both are shares of successful episodes.
        version: Version of the suite card that they come from.
    """

    random: float
    expert: float
    version: str

    def score(self, raw_return: float) -> float:
        """Returns the score of a mean return; NaN if it is undefined, see `normalize`."""
        return normalize(raw_return, self.random, self.expert)

    def headline(self, mean_return: float, success_rate: float | None) -> float:
        """Returns what a score is computed from: the share of successes where that is the score."""
        if self.score_one != "success":
            return mean_return
        return math.nan if success_rate is None else success_rate

    def agrees(self, other: ReferenceScores) -> bool:
        """Whether both are the same, as far as both state the expert's most likely actions."""
        if None in (self.expert_likely, other.expert_likely):
            other = other.model_copy(update={"expert_likely": self.expert_likely})
        return self == other


Isolation = Literal["tested", "checked", "unchecked", "peeks", "program", "reward"]
"""How well a method was kept from true rewards: `tested`, a method of this package, whose tests
plant false rewards; `checked`, `check-algo` found no way that it takes to them; `unchecked`, they
were hidden, and nobody looked for other ways; `peeks`, `check-algo` found one; `program`, another
process with environments of its own; `reward`, its card asks for them."""


class Provenance(AbbreviatedRecord):
    """Versions, host and command of a result. Never part of a run's identity.

    Attributes:
        isolation: How well the method was kept from true rewards; `None`, and not serialized, in
            records of version 0.3 and earlier.
    """

    optional = ("isolation",)

    imitbench: str
    git_sha: str | None
    python: str
    packages: dict[str, str]
    host: str
    cpu: str
    gpu: str | None
    command: str
    isolation: Isolation | None = None


class RunResult(AbbreviatedRecord):
    """The outcome of a completed run; returns are undiscounted sums of the true reward.

    Attributes:
        raw_return: Mean return of the stochastic policy, the headline.
        return_std: Standard deviation over its episodes.
        deterministic_return: Mean return of the deterministic policy.
        mean_length: Mean episode length of the stochastic policy, in steps.
        termination_rate: Fraction of its episodes that ended by termination, not truncation.
        env_steps: Environment steps that training consumed.
        train_s: Seconds of training; of a pack, its seconds divided by the number of seeds.
        wall_s: Seconds of the whole run, evaluation included.
        started_at: ISO 8601 time in UTC, as is `finished_at`.
        measures: Other measurements of the method and of its episodes, by name.
        success_rate: Share of successful episodes of the stochastic policy; `None`, and not
            serialized, if it is not measured, as is the other one.
        deterministic_success_rate: Share of successful episodes of the deterministic policy.
    """

    optional = ("success_rate", "deterministic_success_rate")

    schema_version: Literal[1] = 1
    run_id: str
    raw_return: float
    return_std: float
    deterministic_return: float
    mean_length: float
    termination_rate: float
    env_steps: Integer
    train_s: float
    wall_s: float
    started_at: str
    finished_at: str
    references: ReferenceScores
    provenance: Provenance
    measures: dict[str, float] = Field(default_factory=dict)
    success_rate: Share | None = None
    deterministic_success_rate: Share | None = None

    def headline(self, acting: Acting = "sampled") -> float:
        """Returns what the score of a way of acting is computed from."""
        measured = (self.raw_return, self.success_rate)
        if acting == "likely":
            measured = (self.deterministic_return, self.deterministic_success_rate)
        return self.references.headline(*measured)

    def score(self, acting: Acting = "sampled") -> float:
        """Returns the score of a way of acting on the scale of `references`; NaN if undefined."""
        return self.references.score(self.headline(acting))


class RunTime(Record):
    """Seconds that a run takes on one core.

    Attributes:
        train_s: Seconds of training.
        other_s: Seconds of everything else, which is mostly the evaluation.
    """

    train_s: float = Field(ge=0)
    other_s: float = Field(ge=0)

    @property
    def total_s(self) -> float:
        """Seconds of the whole run."""
        return self.train_s + self.other_s


class RunFailure(Record):
    """Why a run did not complete.

    Attributes:
        phase: Phase of the failure: `load`, `setup`, `train`, `evaluate`, `save` or `worker` (the
            worker process crashed).
    """

    schema_version: Literal[1] = 1
    run_id: str
    phase: Literal["load", "setup", "train", "evaluate", "save", "worker"]
    error_type: str
    message: str
    traceback: str
    failed_at: str
    references: ReferenceScores
    provenance: Provenance


class RunRow(Record):
    """Columns of the database that identify the run of a row.

    Attributes:
        algo: Name of the algorithm, with its variant.
        budget: Name of the budget.
        n_demos: Number of demonstrations used; `None` if none were.
        all_demos: Whether these are all that the source has for the environment.
        demo_every: One step was used out of so many of each demonstration; `None` for all steps.
        demo_actions: `hidden` if the actions were removed; `None` if they were shown.
        mixture: Further trajectories, such as `medium:10,random:10`; `None` without any.
        source: Where experts and demonstrations came from; `None` if neither was used.
        uses_reward: Whether the method learns from the environment's own reward.
        role: Role of the algorithm, see `imitbench.cards.algorithm.AlgorithmCard`.
    """

    run_id: str
    suite: str
    env: str
    algo: str
    seed: int
    budget: str
    n_demos: int | None
    all_demos: bool | None
    demo_every: int | None = None
    demo_actions: str | None = None
    mixture: str | None = None
    source: str | None
    uses_reward: bool
    role: Role


Score = Annotated[float, BeforeValidator(lambda score: math.nan if score is None else score)]
"""A score from the database; an undefined score is NULL there and NaN here."""


class ScoreRow(RunRow):
    """A row of the database view `scores`: a completed run.

    Attributes:
        score: Score of the mean raw return, see `imitbench.stats.normalization.normalize`; NaN if
            it is undefined.
        score_deterministic: Score of the deterministic policy's mean return, on the same scale.
        score_likely: The same on the scale where the expert's most likely actions have 1, see
            `imitbench.records.bundled_cards.likely_score`; NaN if their return is unknown.
        termination_rate: Share of episodes that ended by termination, not truncation.
        score_one: Whose return is score 1.
        success_rate: Share of successful episodes with sampled actions; `None` if not measured.
    """

    raw_return: float
    score: Score
    score_deterministic: Score
    mean_length: float
    env_steps: int
    train_s: float
    wall_s: float
    finished_at: str
    termination_rate: float
    score_one: ScoreOne = "expert"
    score_likely: Score = math.nan
    success_rate: float | None = None

    def score_by(self, acting: Acting) -> float:
        """Returns the score of one way of acting; NaN if it is unknown."""
        return self.score if acting == "sampled" else self.score_likely


class MeasureRow(RunRow):
    """A row of the `measures` table: one further measurement of a completed run."""

    measure: str
    value: float


class FailureRow(RunRow):
    """A row of the `failures` table: a failed run."""

    phase: str
    error_type: str
    message: str


class ReferenceRow(_WithScoreOne):
    """A row of the `references` view: the reference scores of one environment."""

    suite: str
    env: str
    version: str
    random: float
    expert: float


def training_device(device: DeviceClass) -> Literal["cpu", "cuda"]:
    """Returns the processor that trains, as torch names it."""
    return "cpu" if device == "cpu" else "cuda"


def variant_label(
    changed: Mapping[str, Scalar],
    device: DeviceClass,
    *,
    tuned: bool = False,
    pack: int | None = None,
) -> str:
    """Returns a label that identifies settings that differ from the algorithm's card.

    Args:
        changed: Hyper-parameters that differ from the card's, or from those tuned for the
            environment.
        device: Class of the processor. Devices other than the CPU give other numbers, which no
            table may mix.
        tuned: Whether hyper-parameters tuned for the environment are in use.
        pack: Number of seeds that are trained together, if any.
    """
    different = dict(changed)
    if device != "cpu":
        different["device"] = device
    if pack is not None:
        different["pack"] = pack
    labels = [f"{name}={value}" for name, value in different.items()]
    return ",".join(["tuned", *labels] if tuned else labels)


def canonical_digest(document: object) -> str:
    """Hashes a JSON document independently of key order and white space.

    Args:
        document: Any value that `json.dumps` accepts, without non-finite numbers.

    Returns:
        SHA-256 as 64 hexadecimal digits.
    """
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class SealedRecord(Record):
    """A record with a digest over its other fields.

    Subclasses declare the field `digest: str = ""` themselves, as the order of fields is that of
    the lines in their files.
    """

    if TYPE_CHECKING:
        digest: str | None = ""

    @property
    def own_digest(self) -> str:
        """The correct value of `digest`."""
        return canonical_digest(self.model_dump(mode="json", exclude={"digest"}))

    def sealed(self) -> Self:
        """Returns the same record with its digest."""
        return self.model_copy(update={"digest": self.own_digest})

    def text(self) -> str:
        """Returns the content of its file."""
        return self.model_dump_json(indent=1) + "\n"
