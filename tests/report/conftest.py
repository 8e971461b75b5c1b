"""Rows as the database gives them, with short ways to make them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from imitbench.cards.algorithm import Role
from imitbench.records.runs import FailureRow, MeasureRow, ReferenceRow, RunRow, ScoreRow
from imitbench.report.model import Report
from imitbench.report.tables import build_report
from imitbench.stats.normalization import normalize

REFERENCES = {"CartPole": (20.0, 500.0), "Pendulum": (-1200.0, -200.0), "Reacher": (-43.2, -3.7)}

ROLES: dict[str, Role] = {
    "ppo_true_reward": "reference",
    "zero_reward": "control",
    "constant_plus": "control",
    "random": "anchor",
    "expert": "anchor",
}

MakeScore = Callable[..., ScoreRow]
MakeFailure = Callable[..., FailureRow]
MakeMeasure = Callable[..., MeasureRow]


@pytest.fixture
def references() -> list[ReferenceRow]:
    return [
        ReferenceRow(suite="classic", env=env, version="1.0", random=random, expert=expert)
        for env, (random, expert) in REFERENCES.items()
    ]


@pytest.fixture
def make_score() -> MakeScore:
    """A completed run; the score follows from the raw return."""

    def make(algo: str, env: str, seed: int, raw_return: float, **changes: object) -> ScoreRow:
        anchor = algo in ("random", "expert")
        random, expert = REFERENCES[env]
        fields: dict[str, object] = {
            "run_id": f"{algo}-{env}-{seed}-{changes.get('budget', 'quick')}",
            "suite": "classic",
            "env": env,
            "algo": algo,
            "seed": seed,
            "budget": "quick",
            "n_demos": None if anchor else 10,
            "all_demos": None if anchor else False,
            "source": None if algo == "random" else "bundled",
            "uses_reward": False,
            "role": ROLES.get(algo, "method"),
            "raw_return": raw_return,
            "score": normalize(raw_return, random, expert),
            "score_deterministic": normalize(raw_return + 1, random, expert),
            "mean_length": 200.0,
            "env_steps": 0,
            "train_s": 0.5,
            "wall_s": 1.0,
            "finished_at": "2025-01-01T00:00:00Z",
            "termination_rate": 0.25,
        }
        return ScoreRow.model_validate({**fields, **changes})

    return make


@pytest.fixture
def make_failure() -> MakeFailure:
    def make(algo: str, env: str, seed: int, **changes: object) -> FailureRow:
        fields: dict[str, object] = {
            "run_id": f"{algo}-{env}-{seed}-failed",
            "suite": "classic",
            "env": env,
            "algo": algo,
            "seed": seed,
            "budget": "quick",
            "n_demos": 10,
            "all_demos": False,
            "source": "bundled",
            "uses_reward": False,
            "role": ROLES.get(algo, "method"),
            "phase": "train",
            "error_type": "FloatingPointError",
            "message": "loss is nan",
        }
        return FailureRow.model_validate({**fields, **changes})

    return make


@pytest.fixture
def make_measure(make_score: MakeScore) -> MakeMeasure:
    """A further measurement of the run that `make_score` makes from the same arguments."""

    def make(
        algo: str, env: str, seed: int, measure: str, value: float, **changes: object
    ) -> MeasureRow:
        run = make_score(algo, env, seed, 0.0, **changes).model_dump(
            include=set(RunRow.model_fields)
        )
        return MeasureRow.model_validate({**run, "measure": measure, "value": value})

    return make


@pytest.fixture
def rows(make_score: MakeScore) -> list[ScoreRow]:
    """`bc` with unequal seed counts, `gail` without Reacher and `random` on two environments."""
    returns = {
        ("bc", "CartPole"): [480.0, 470.0, 499.5],
        ("bc", "Pendulum"): [-310.25, -250.5],
        ("bc", "Reacher"): [-5.125, -4.5, -6.75],
        ("gail", "CartPole"): [500.0, 450.0, 200.0],
        ("gail", "Pendulum"): [-900.0, -850.0, -800.0],
        ("random", "CartPole"): [21.0, 18.5],
        ("random", "Pendulum"): [-1190.0, -1215.0],
    }
    return [
        make_score(algo, env, seed, raw_return)
        for (algo, env), values in returns.items()
        for seed, raw_return in enumerate(values)
    ]


@pytest.fixture
def failures(make_failure: MakeFailure) -> list[FailureRow]:
    """The failed runs of `bc` on Pendulum and of `gail` on Reacher."""
    return [
        make_failure(
            "bc", "Pendulum", 2, phase="evaluate", message="a | b\n<script>alert(1)</script>"
        ),
        make_failure("gail", "Reacher", 0),
        make_failure("gail", "Reacher", 1, phase="worker", error_type="SIGKILL", message="killed"),
    ]


@pytest.fixture
def report(
    rows: list[ScoreRow], failures: list[FailureRow], references: list[ReferenceRow]
) -> Report:
    return build_report(rows, failures, references, replicates=2000)


@pytest.fixture
def empty_report() -> Report:
    return build_report([], [], [])
