"""Results folders whose runs match the bundled cards, with synthetic episodes."""

import numpy as np

from imitbench.bench.spec import reference_scores
from imitbench.published.run_checks import recompute
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import RunFailure, RunResult
from imitbench.store.run_dir import RunDirectory
from support.plans import make_plan
from support.results import PROVENANCE

LEVELS = {"bc": 0.8, "gail": 0.5, "zero_reward": 0.1, "random": 0.0, "expert": 1.0}
"""Typical score by algorithm."""


def write_submitted_runs(
    out,
    algorithms=("bc", "gail", "random"),
    env="Pendulum-v1",
    seeds=3,
    failing=(("gail", "Pendulum-v1", 1),),
    message="the loss is nan",
    suite="classic",
    **settings,
):
    """Writes run directories.

    Args:
        out: Results folder.
        algorithms: Names of bundled algorithms.
        env: Glob over the environments of the suite.
        seeds: Number of seeds.
        failing: Algorithm, environment and seed of runs that fail.
        message: Error message of these.
        suite: Name of the suite.
        **settings: Further settings of the plan.
    """
    plan = make_plan(
        algorithms=list(algorithms),
        suite=suite,
        environment=env,
        seeds=range(seeds),
        **{"budget": "quick"} | settings,
    )
    for number, spec in enumerate(plan):
        references = reference_scores(plan.suite, spec.environment.id, "bundled")
        directory = RunDirectory.of(out, spec)
        directory.begin(spec)
        if (spec.algo, spec.environment.id, spec.seed) in failing:
            directory.fail(_failure(spec, references, message))
            continue
        rng = np.random.default_rng([number, spec.seed])
        count, width = spec.protocol.episodes, references.expert - references.random
        level = references.random + width * (LEVELS[spec.algo] + 0.02 * rng.normal())
        steps = plan.environments[spec.environment.id].max_episode_steps
        episodes = EpisodeTable(
            returns=level + 0.1 * width * rng.normal(size=2 * count),
            lengths=np.full(2 * count, steps),
            terminated=np.zeros(2 * count, bool),
            deterministic=np.arange(2 * count) >= count,
        )
        directory.write_episodes(episodes)
        directory.finish(_result(spec, references, episodes))


def _failure(spec, references, message):
    return RunFailure(
        run_id=spec.run_id,
        phase="train",
        error_type="FloatingPointError",
        message=message,
        traceback="Traceback",
        failed_at="2026-01-01T00:00:02.000+00:00",
        references=references,
        provenance=PROVENANCE,
    )


def _result(spec, references, episodes):
    return RunResult(
        run_id=spec.run_id,
        **recompute(episodes),
        env_steps=spec.budget.amount if spec.budget.unit == "env_steps" else 0,
        train_s=1.0,
        wall_s=2.0 + spec.seed,
        started_at="2026-01-01T00:00:00.000+00:00",
        finished_at="2026-01-01T00:00:02.000+00:00",
        references=references,
        provenance=PROVENANCE,
    )
