"""Checks that the stated numbers of a run are possible, and follow from its episodes."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np

from imitbench.cards.algorithm import STEP_UNITS
from imitbench.cards.suite import EnvironmentCard
from imitbench.published.findings import Findings
from imitbench.records.curves import LearningCurve
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunResult, RunSpec
from imitbench.util.text_line import one_line

NO_TIME = "is not a time with a time zone"
"""What is said of a text for which `parse_time` returns `None`."""

_LEAST, _MOST = 0.5, 2.0
_ROUND = 10_000
"""Environment steps by which a method may exceed its budget to finish a round."""


def check_values(
    run: PublishedRun, card: EnvironmentCard | None, where: str, findings: Findings
) -> None:
    """Checks lengths of episodes, environment steps and times."""

    def fail(what: str) -> None:
        findings.fail("values", where, what, "publish the original values of the runs")

    if run.failure is not None:
        if parse_time(run.failure.failed_at) is None:
            fail(f"failed_at {one_line(run.failure.failed_at, 40)!r} {NO_TIME}")
        return
    result = run.result
    assert result is not None and run.episodes is not None
    numbers = {
        name: value
        for name, value in (*result.model_dump().items(), *result.measures.items())
        if isinstance(value, float)
    }
    for name, value in numbers.items():
        if not math.isfinite(value):
            fail(f"{one_line(name, 40)} is {value}")
        elif name in ("train_s", "wall_s") and value < 0:
            fail(f"{name} is {value:g}")
    started, finished = parse_time(result.started_at), parse_time(result.finished_at)
    if started is None or finished is None:
        stated = result.started_at if started is None else result.finished_at
        fail(f"{one_line(stated, 40)!r} {NO_TIME}")
    elif finished < started:
        fail("it finished before it started")
    for what in (*_odd_lengths(run, run.episodes, card), *_odd_steps(run)):
        fail(what)


def _odd_lengths(
    run: PublishedRun, episodes: EpisodeTable, card: EnvironmentCard | None
) -> list[str]:
    shortest, longest = int(episodes.lengths.min()), int(episodes.lengths.max())
    if shortest < 1:
        return [f"an episode of {shortest} steps"]
    most = card.max_episode_steps if card is not None else None
    if most is not None and longest > most:
        return [f"an episode of {longest} steps; {run.spec.environment.id} ends after {most}"]
    fixed = run.spec.environment.horizon == "fixed"
    if fixed and (shortest < longest or (most is not None and shortest < most)):
        due = most if most is not None else longest
        return [f"an episode of {shortest} steps where all have {due}"]
    return []


def _odd_steps(run: PublishedRun) -> list[str]:
    assert run.result is not None
    steps, budget = run.result.env_steps, run.spec.budget
    if steps < 0:
        return [f"env_steps is {steps}"]
    if budget.unit in STEP_UNITS:
        least, most = _LEAST * budget.amount, _MOST * budget.amount + _ROUND
        if not least <= steps <= most:
            return [f"env_steps is {steps}, far from its budget of {budget.amount}"]
    return []


def parse_time(text: str) -> datetime | None:
    """Returns a time with a time zone; `None` if the text is none."""
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


TOLERANCE = 1e-9
"""Largest relative difference, absolute for numbers near zero: allows for rounding only."""

_NUMBERS = {
    "raw_return": "the mean of its episodes",
    "return_std": "the spread of its episodes",
    "deterministic_return": "the mean of its deterministic episodes",
    "mean_length": "the mean length of its episodes",
    "termination_rate": "the share of its episodes that ended by termination",
    "success_rate": "the share of its episodes that succeeded",
    "deterministic_success_rate": "the share of its deterministic episodes that succeeded",
}


def recompute(episodes: EpisodeTable) -> dict[str, float]:
    """Computes the numbers of a result that follow from its episodes, by the name of the field.

    Args:
        episodes: Episodes of both policies, at least one each.
    """
    stochastic = ~episodes.deterministic
    rates: dict[str, float] = {}
    if episodes.success is not None:
        rates["success_rate"] = float(episodes.success[stochastic].mean())
        rates["deterministic_success_rate"] = float(episodes.success[~stochastic].mean())
    with np.errstate(over="ignore", invalid="ignore"):
        return rates | {
            "raw_return": float(episodes.returns[stochastic].mean()),
            "return_std": float(episodes.returns[stochastic].std()),
            "deterministic_return": float(episodes.returns[episodes.deterministic].mean()),
            "mean_length": float(episodes.lengths[stochastic].mean()),
            "termination_rate": float(episodes.terminated[stochastic].mean()),
        }


def check_scores(run: PublishedRun, where: str, findings: Findings) -> None:
    """Checks a completed run's numbers against its episodes."""
    assert run.result is not None and run.episodes is not None
    wanted = run.spec.protocol.episodes
    for stated in (False, True):
        count = int((run.episodes.deterministic == stated).sum())
        if count != wanted:
            findings.fail(
                "episodes", where, f"{count} episodes, and the specification says {wanted}"
            )
            return
    told = run.spec.environment.success is not None
    for name in ("success_rate", "deterministic_success_rate"):
        if {getattr(run.result, name) is not None, run.episodes.success is not None} != {told}:
            findings.fail(
                "scores",
                where,
                f"{name}, or the success of its episodes, is {'not ' * told}there, though the "
                f"specification says {'how' if told else 'nothing of how'} it is measured",
            )
            return
    for name, found in recompute(run.episodes).items():
        claimed = getattr(run.result, name)
        if not math.isclose(claimed, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            findings.fail(
                "scores",
                where,
                f"{name} {claimed:.10g} is not {_NUMBERS[name]}, {found:.10g}",
                "publish the original values of the runs",
            )


def check_curve(
    curve: LearningCurve, spec: RunSpec, result: RunResult, name: str, findings: Findings
) -> None:
    """Checks that the steps of a learning curve are those of its run."""
    first, last = int(curve.steps[0]), int(curve.steps[-1])
    most = spec.budget.amount
    if spec.budget.unit in STEP_UNITS:  # the last round may exceed the budget
        most = max(most, result.env_steps)
    if first < 0:
        findings.fail("curves", name, f"a point at step {first}", "export the results again")
    elif last > most:
        unit = spec.budget.unit.replace("_", " ")
        what = f"a point at step {last}; the run had {most} {unit}"
        findings.fail("curves", name, what, "export the results again")


def check_rewards(run: PublishedRun, where: str, findings: Findings) -> None:
    """Checks the numbers about a run's learned reward against its result.

    Args:
        run: A run with such numbers.
        where: Their file and line.
        findings: Receives problems.
    """
    assert run.rewards is not None
    if run.result is None:
        findings.fail("rewards", where, f"run {run.spec.run_id} failed; it has no reward")
        return
    due = run.result.score()
    for score in run.rewards.scores:
        if score.key != ("score", "learner", None):
            continue
        if not math.isclose(score.value, due, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            what = f"score {score.value:.10g} of learner is not that of its result, {due:.10g}"
            findings.fail("rewards", where, what, "publish the original values of the runs")
