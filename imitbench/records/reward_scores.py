"""Records of what a run's learned reward is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from imitbench.records.runs import Record, RunRow

SCORES_FILE = "reward_scores.json"
"""File of a run directory with its `RewardScores`."""

Optimizer = Literal["ppo", "sac"]
"""What trains fresh policies: PPO, or the agent of the methods with a replay buffer."""

BEHAVIORS = ("expert", "learner", "mixture", "random", "all")
"""Episodes on which rewards are compared; `all` has those of the others."""

LEAST: Mapping[str, float] = {
    "pearson_step": -1.0,
    "spearman_step": -1.0,
    "pearson_return": -1.0,
    "spearman_return": -1.0,
    "pair_accuracy": 0.0,
    "epic": 0.0,
    "dard": 0.0,
}
"""Measures of agreement with the true reward, each with its least value; the greatest is 1."""

_KINDS = ("reoptimized", "true_reward")
_REOPTIMIZED, _OF_TRUE = (
    tuple(f"{kind}_{name}" for name in get_args(Optimizer)) for kind in _KINDS
)
_FRESH = (*_REOPTIMIZED, *_OF_TRUE)
_ROUNDING = 1e-9
_USUAL_TRUE_POLICIES = 3
_Text = Annotated[str, Field(max_length=1000)]


class OptimizationProtocol(Record):
    """How fresh policies are trained on learned rewards.

    Each has the settings of the reference on the true reward, and the budget of the run that
    learned the reward.

    Attributes:
        optimizers: What trains them; SAC only where actions are continuous.
        policies: Fresh policies of each optimizer for each reward and environment, with seeds of
            their own.
        true_policies: Those on the true reward, which all rewards of an environment share.
    """

    optimizers: tuple[Optimizer, ...] = Field(default=("ppo",), min_length=1)
    policies: int = Field(default=3, ge=1)
    true_policies: int = Field(default=_USUAL_TRUE_POLICIES, ge=1)

    @model_serializer(mode="wrap")
    def _as_recorded(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out the usual number, so that earlier records keep their bytes."""
        fields: dict[str, Any] = handler(self)
        if self.true_policies == _USUAL_TRUE_POLICIES:
            del fields["true_policies"]
        return fields

    def covers(self, other: OptimizationProtocol) -> bool:
        """Whether the policies that are trained so include at least all of the other's."""
        return (
            set(other.optimizers) <= set(self.optimizers)
            and self.policies == other.policies
            and self.true_policies >= other.true_policies
        )


class RewardProtocol(Record):
    """How learned rewards are compared with the true one.

    Attributes:
        version: Version of the procedure; scores of different versions are not comparable. In
            version 1, EPIC and DARD saw mixtures with the smallest share of random actions only;
            version 2 had no learned score.
        episodes: Episodes of each behavior.
        random_rates: Shares of random actions of the mixtures of the learner's and random actions.
        fragment_length: Steps of the fragments that pairs are of; half an episode where that is
            shorter.
        discount: Discount factor of the shaping that EPIC and DARD remove.
        samples: Number of transitions that they compare, and of states and actions that EPIC's
            means are over; DARD's are over as many actions as its square root.
        optimization: How fresh policies are trained; `None` if none are.
    """

    version: Literal[1, 2, 3] = 3
    episodes: int = Field(default=8, ge=1)
    random_rates: tuple[float, ...] = (0.25, 0.5, 0.75)
    fragment_length: int = Field(default=50, ge=1)
    discount: float = Field(default=0.99, ge=0, le=1)
    samples: int = Field(default=512, ge=2)
    optimization: OptimizationProtocol | None = None

    def covers(self, other: RewardProtocol) -> bool:
        """Whether what was measured so includes all that the other measures."""
        if other.optimization is not None:
            trained = self.optimization is not None and self.optimization.covers(other.optimization)
            if not trained:
                return False
        return self == other.model_copy(update={"optimization": self.optimization})


class RewardScore(Record):
    """One number about a learned reward, with an interval of 95 %.

    Attributes:
        measure: What was measured, such as `spearman_step`; or `score` of a policy, and
            `hacking_gap` and `learned_score` of its training.
        behavior: Episodes that it was measured on: `expert`, `learner`, `random`, `mixture`, or
            `all` of them; or the policy: `learner`, `reoptimized_ppo` or `reoptimized_sac`, which
            were trained on the learned reward, `true_reward_ppo` or `true_reward_sac`.
        tested_in: Name of the environment with other dynamics; `None` for that of the run.
        value: The number.
        low: Lower end of the interval.
        high: Upper end.
    """

    measure: str
    behavior: str
    tested_in: _Text | None = None
    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What the number is about."""
        return self.measure, self.behavior, self.tested_in

    @property
    def optimizer(self) -> str | None:
        """What trained the policy that it is about; `None` if it is not about a fresh one."""
        return self.behavior.rpartition("_")[2] if self.behavior in _FRESH else None

    @model_validator(mode="after")
    def _is_a_known_number(self) -> RewardScore:
        name = f"{self.measure} of {self.behavior}"
        agrees = self.measure in LEAST and self.behavior in BEHAVIORS and self.tested_in is None
        scored = self.measure == "score" and self.behavior in ("learner", *_FRESH)
        hacked = self.measure == "hacking_gap"
        followed = hacked or self.measure == "learned_score"
        followed &= self.behavior in _REOPTIMIZED and self.tested_in is None
        if not (agrees or scored or followed):
            raise ValueError(f"{name}: is not a known number")
        if agrees:
            for number in (self.value, self.low, self.high):
                if not LEAST[self.measure] - _ROUNDING <= number <= 1 + _ROUNDING:
                    raise ValueError(f"{name}: cannot be {number:.6g}")
        if hacked and self.value < 0:
            raise ValueError(f"{name}: cannot be {self.value:.6g}")
        if self.low > self.high:
            raise ValueError(f"{name}: the interval ends below its start")
        return self


class RewardScoreRow(RunRow):
    """A row of the view `reward_board`: a number about the learned reward of a completed run.

    Attributes as those of `RewardScore`.
    """

    measure: str
    behavior: str
    tested_in: str | None
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, run: RunRow, score: RewardScore) -> RewardScoreRow:
        """Returns the row of a number about the reward of a run."""
        columns = {name: getattr(run, name) for name in RunRow.model_fields}
        return cls(**columns, **dict(score))


class RewardScores(Record):
    """All numbers about the learned reward of one run (`reward_scores.json`).

    Attributes:
        run_id: The run.
        protocol: How they were measured.
        without: Measures that this task does not have, each with the reason.
        scores: The numbers.
        imitbench: Version of this package.
    """

    schema_version: Literal[1] = 1
    run_id: str
    protocol: RewardProtocol
    without: dict[_Text, _Text] = Field(default_factory=dict, max_length=1000)
    scores: tuple[RewardScore, ...] = Field(max_length=1000)
    imitbench: str

    def with_policies_of(self, earlier: RewardScores) -> RewardScores:
        """Adds the numbers about policies that only an earlier measurement of the reward has.

        A measurement without policies, or of those of another optimizer, does not withdraw what was
        measured of others.

        Args:
            earlier: The earlier one. It must have followed the same protocol, but for what trains
                policies; otherwise nothing is added.
        """
        new, old = self.protocol.optimization, earlier.protocol.optimization
        alike = earlier.protocol.model_copy(update={"optimization": new}) == self.protocol
        if old is None or not alike:
            return self
        if new is not None and new.model_copy(update={"optimizers": old.optimizers}) != old:
            return self
        trained = () if new is None else new.optimizers
        added = [name for name in old.optimizers if name not in trained]
        kept = [
            score
            for score in earlier.scores
            if score.optimizer in added or (new is None and score.measure == "score")
        ]
        # Reasons begin with the policy; that of a learned score is of any optimizer.
        about = (*(f"{kind}_{name}" for kind in _KINDS for name in added),)
        without = {
            name: why
            for name, why in earlier.without.items()
            if name.startswith(about) or (new is None and name == "learned_score")
        }
        every = old.model_copy(update={"optimizers": (*trained, *added)})
        changes = {
            "protocol": self.protocol.model_copy(update={"optimization": every}),
            "scores": (*self.scores, *kept),
            "without": without | self.without,
        }
        return self.model_copy(update=changes)

    @model_validator(mode="after")
    def _numbers_follow_the_protocol(self) -> RewardScores:
        known = set()
        optimization = self.protocol.optimization
        trained = () if optimization is None else optimization.optimizers
        for score in self.scores:
            if score.key in known:
                raise ValueError(f"{score.measure} of {score.behavior} occurs twice")
            known.add(score.key)
            if score.optimizer not in (None, *trained):
                raise ValueError(
                    f"{score.behavior}: the protocol trains nothing by {score.optimizer}"
                )
        return self
