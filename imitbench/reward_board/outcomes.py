"""The numbers that come out of fresh policies: scores, and how far they follow a reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.seeding import derive_seed
from imitbench.errors import InputError
from imitbench.experts.measurement import measure
from imitbench.records.reward_scores import RewardScore
from imitbench.records.runs import ReferenceScores
from imitbench.reward_board.optimization import FreshPolicies, Optimizations, reoptimized_folder
from imitbench.stats.normalization import has_scale, normalize
from imitbench.stats.significance import welch_margins
from imitbench.store.run_dir import RunDirectory

TRUE_RETURN, LEARNED_RETURN = "rollout/return_mean", "rollout/learned_return_mean"


def optimization_scores(
    directory: RunDirectory,
    found: Optimizations,
    policy: BasePolicy,
    learned_returns: Mapping[str, float],
) -> tuple[list[RewardScore], dict[str, str]]:
    """Returns the scores of the policies that belong to a run, and what is missing.

    Args:
        directory: The run that learned the reward.
        found: Its fresh policies.
        policy: The policy that came with the reward.
        learned_returns: Mean learned returns of the behaviors `random` and `expert`.

    Returns:
        Scores of the run's policy and of the fresh ones, where the reward was learned and in the
        environments with other dynamics, the hacking gap, and the learned score; and reasons by
        measure.

    Raises:
        InputError: The references define no scores.
    """
    spec, result = directory.read_spec(), directory.read_result()
    for references in (result.references, *(test.references for test in found.tests)):
        if not has_scale(references.random, references.expert):
            raise InputError(
                f"run {spec.run_id}: its suite's references define no scores; measure its reward "
                "without --reoptimize"
            )
    out = reoptimized_folder(directory.results)
    own = result.raw_return, result.return_std, result.success_rate
    scores = [_of_episodes(None, result.references, *own, spec.protocol.episodes)]
    for test in found.tests:
        episodes = measure(
            test.spec,
            policy,
            episodes=spec.protocol.episodes,
            deterministic=False,
            seed=derive_seed(spec.seed, f"reward board, unchanged in {test.spec.id}"),
        ).episodes
        shown = float(episodes.returns.mean()), float(episodes.returns.std()), episodes.success_rate
        scores.append(_of_episodes(test.spec.id, test.references, *shown, len(episodes.returns)))
    without: dict[str, str] = {}
    for kind, cells in (("reoptimized", found.learned), ("true_reward", found.true)):
        for fresh in cells:
            behavior = f"{kind}_{fresh.optimizer}"
            done, problem = _done(out, fresh)
            if problem:
                without[f"{behavior} in {fresh.env_id}"] = problem
            if not done:
                continue
            tested_in = None if fresh.env_id == spec.environment.id else fresh.env_id
            scores.append(
                _mean("score", behavior, tested_in, [run.read_result().score() for run in done])
            )
            if kind == "reoptimized" and tested_in is None:
                followed, problem = _followed(behavior, done, learned_returns)
                scores += followed
                if problem:
                    without["learned_score"] = problem
    return scores, without


def _followed(
    behavior: str, done: Sequence[RunDirectory], learned_returns: Mapping[str, float]
) -> tuple[list[RewardScore], str]:
    """Returns how far policies follow their reward, and why there is no learned score.

    There is no hacking gap where scores are shares of successes, which curves do not have.
    """
    curves = {run: points for run in done if _has_both(points := run.read_curve())}
    if not curves:
        return [], ""
    scales = {run: run.read_result().references for run in curves}
    gaps = [
        hacking_gap(points, scales[run].score)
        for run, points in curves.items()
        if scales[run].score_one != "success"
    ]
    scores = [_mean("hacking_gap", behavior, None, gaps)] if gaps else []
    ends = learned_returns["random"], learned_returns.get("expert", math.nan)
    if not has_scale(*ends):
        known = "expert" in learned_returns
        return scores, "the reward does not prefer the expert to random actions" if known else ""
    shares = [learned_score(points, *ends) for points in curves.values()]
    return [*scores, _mean("learned_score", behavior, None, shares)], ""


def learned_score(points: Sequence[Mapping[str, float]], random: float, expert: float) -> float:
    """Returns the learned return at the end of a training, as a score of the learned reward.

    Args:
        points: Points of the learning curve, in order.
        random: Mean learned return of random actions.
        expert: That of the expert, which is higher.
    """
    return normalize(float(_tenths(points)[LEARNED_RETURN][-1]), random, expert)


def _tenths(points: Sequence[Mapping[str, float]]) -> dict[str, npt.NDArray[np.float64]]:
    """Returns the means of both returns over tenths of a curve; single episodes are noisy."""
    both = [point for point in points if TRUE_RETURN in point and LEARNED_RETURN in point]
    parts = np.array_split(np.arange(len(both)), min(10, max(1, len(both))))
    return {
        name: np.array([np.mean([both[i][name] for i in part]) for part in parts if len(part)])
        for name in (TRUE_RETURN, LEARNED_RETURN)
    }


def hacking_gap(points: Sequence[Mapping[str, float]], score: Callable[[float], float]) -> float:
    """Returns how much of the true score was lost while the learned return still rose.

    The true return is followed from its highest point on; the gap is what is lost until the end,
    if the learned return is higher at the end than at that point. Returns are means over a tenth
    of the curve.

    Args:
        points: Points of the learning curve, in order, each with both returns.
        score: Returns the score of a mean return.

    Returns:
        The difference of scores, at least 0; 0 for a curve of fewer than two points.
    """
    true, learned = _tenths(points).values()
    if len(true) < 2:
        return 0.0
    best = int(true.argmax())
    if not learned[-1] > learned[best]:
        return 0.0
    return max(0.0, score(float(true[best])) - score(float(true[-1])))


def _has_both(points: Sequence[Mapping[str, float]]) -> bool:
    """Whether a curve has both returns of whole episodes."""
    return any(TRUE_RETURN in point and LEARNED_RETURN in point for point in points)


def _done(out: Path, fresh: FreshPolicies) -> tuple[list[RunDirectory], str]:
    """Returns the complete runs, and why there are not all."""
    found = [RunDirectory.of(out, spec) for spec in fresh.specs]
    done = [run for run in found if run.is_done]
    failed = sum(run.has_failed for run in found)
    if len(done) == len(found):
        return done, ""
    of = f"{len(done)} of {len(found)} fresh policies are trained"
    return done, f"{of}, {failed} failed" if failed else of


def _mean(
    measured: str, behavior: str, tested_in: str | None, values: Sequence[float]
) -> RewardScore:
    """Returns a mean with Student's interval; with one value, the value alone."""
    mean, margin = float(np.mean(values)), 0.0
    if len(values) > 1:
        spread = np.array([[np.var(values, ddof=1)]])
        margin = float(welch_margins(spread, np.array([[len(values)]]))[0])
    return RewardScore(
        measure=measured,
        behavior=behavior,
        tested_in=tested_in,
        value=mean,
        low=mean - margin,
        high=mean + margin,
    )


def _of_episodes(
    tested_in: str | None,
    references: ReferenceScores,
    mean: float,
    std: float,
    success_rate: float | None,
    count: int,
) -> RewardScore:
    """Returns the score of the run's policy, with the interval of its episodes, if several."""
    value, margin = references.headline(mean, success_rate), 0.0
    if references.score_one == "success":
        std = math.sqrt(value * (1 - value))
    if count > 1:
        unbiased = std**2 * count / (count - 1)
        margin = float(welch_margins(np.array([[unbiased]]), np.array([[count]]))[0])
    ends = sorted(references.score(end) for end in (value - margin, value + margin))
    return RewardScore(
        measure="score",
        behavior="learner",
        tested_in=tested_in,
        value=references.score(value),
        low=ends[0],
        high=ends[1],
    )
