"""Records of what a run's learned reward is worth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from imitbench.records.runs import Record, RunRow

SCORES_FILE = "reward_scores.json"
"""File of a run directory with its `RewardScores`."""


Optimizer = Literal["ppo", "sac"]
"""What trains fresh policies: PPO, or the agent of the methods with a replay buffer."""


class OptimizationProtocol(Record):
    """How fresh policies are trained on learned rewards.

    Each has the settings of the reference on the true reward, and the budget of the run that
    learned the reward.

    Attributes:
        optimizers: What trains them; SAC only where actions are continuous.
        policies: Fresh policies of each optimizer for each reward and environment, with seeds of
            their own.
    """

    optimizers: tuple[Optimizer, ...] = Field(default=("ppo",), min_length=1)
    policies: int = Field(default=3, ge=1)


class RewardProtocol(Record):
    """How learned rewards are compared with the true one.

    Attributes:
        version: Version of the procedure; scores of different versions are not comparable.
        episodes: Episodes of each behavior.
        random_rates: Shares of random actions of the mixtures of the learner's and random actions.
        fragment_length: Steps of the fragments that pairs are of; half an episode where that is
            shorter.
        discount: Discount factor of the shaping that EPIC and DARD remove.
        samples: Number of transitions that they compare, and of states and actions that their
            means are over.
        optimization: How fresh policies are trained; `None` if none are.
    """

    version: Literal[1] = 1
    episodes: int = Field(default=8, ge=1)
    random_rates: tuple[float, ...] = (0.25, 0.5, 0.75)
    fragment_length: int = Field(default=50, ge=1)
    discount: float = Field(default=0.99, ge=0, le=1)
    samples: int = Field(default=512, ge=2)
    optimization: OptimizationProtocol | None = None

    def covers(self, other: RewardProtocol) -> bool:
        """Whether what was measured so includes all that the other measures."""
        if other.optimization is None:
            other = other.model_copy(update={"optimization": self.optimization})
        return self == other


class RewardScore(Record):
    """One number about a learned reward, with an interval of 95 %.

    Attributes:
        measure: What was measured, such as `spearman_step`; or `score` of a policy, and
            `hacking_gap` of its training.
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
    tested_in: str | None = None
    value: float
    low: float
    high: float


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
    without: dict[str, str] = Field(default_factory=dict)
    scores: tuple[RewardScore, ...]
    imitbench: str
