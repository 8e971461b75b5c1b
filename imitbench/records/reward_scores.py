"""Records of what a run's learned reward is worth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from imitbench.records.runs import Record

SCORES_FILE = "reward_scores.json"
"""File of a run directory with its `RewardScores`."""


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
    """

    version: Literal[1] = 1
    episodes: int = Field(default=8, ge=1)
    random_rates: tuple[float, ...] = (0.25, 0.5, 0.75)
    fragment_length: int = Field(default=50, ge=1)
    discount: float = Field(default=0.99, ge=0, le=1)
    samples: int = Field(default=512, ge=2)


class RewardScore(Record):
    """One number about a learned reward, with an interval of 95 %.

    Attributes:
        measure: What was measured, such as `spearman_step`.
        behavior: Episodes that it was measured on: `expert`, `learner`, `random`, `mixture`, or
            `all` of them.
        value: The number.
        low: Lower end of the interval.
        high: Upper end.
    """

    measure: str
    behavior: str
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
