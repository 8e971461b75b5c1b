"""Computes a run's numbers again from its episodes."""

from __future__ import annotations

import math

import numpy as np

from imitbench.published.findings import Findings
from imitbench.published.results_folder import PublishedRun
from imitbench.store.run_dir import EpisodeTable

TOLERANCE = 1e-9
"""Relative, and for numbers near zero absolute: what rounding may do, and no edit does."""

_NUMBERS = {
    "raw_return": "the mean of its episodes",
    "return_std": "the spread of its episodes",
    "deterministic_return": "the mean of its deterministic episodes",
    "mean_length": "the mean length of its episodes",
    "termination_rate": "the share of its episodes that ended by termination",
}


def recompute(episodes: EpisodeTable) -> dict[str, float]:
    """The numbers of a result that follow from its episodes, by the name of the field.

    Args:
        episodes: Of both policies, at least one episode each.
    """
    stochastic = ~episodes.deterministic
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            "raw_return": float(episodes.returns[stochastic].mean()),
            "return_std": float(episodes.returns[stochastic].std()),
            "deterministic_return": float(episodes.returns[episodes.deterministic].mean()),
            "mean_length": float(episodes.lengths[stochastic].mean()),
            "termination_rate": float(episodes.terminated[stochastic].mean()),
        }


def check_scores(run: PublishedRun, where: str, findings: Findings) -> None:
    """Checks a completed run's numbers against its episodes.

    Args:
        run: The run.
        where: What to call its place.
        findings: Told about problems.
    """
    assert run.result is not None and run.episodes is not None
    wanted = run.spec.protocol.episodes
    for stated in (False, True):
        count = int((run.episodes.deterministic == stated).sum())
        if count != wanted:
            findings.fail(
                "episodes", where, f"{count} episodes, and the specification says {wanted}"
            )
            return
    for name, found in recompute(run.episodes).items():
        claimed = getattr(run.result, name)
        if not math.isclose(claimed, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            findings.fail(
                "scores",
                where,
                f"{name} {claimed:.10g} is not {_NUMBERS[name]}, {found:.10g}",
                "publish what the runs gave",
            )
