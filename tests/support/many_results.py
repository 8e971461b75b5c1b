"""Published results of a large synthetic benchmark, written without training."""

import numpy as np

from imitbench.published.results_folder import export_results
from imitbench.published.run_checks import recompute
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun
from imitbench.records.runs import (
    Budget,
    EnvironmentSpec,
    Protocol,
    ReferenceScores,
    RunFailure,
    RunResult,
)
from support.results import PROVENANCE
from support.runs import make_spec

SUITE = "synthetic"
EPISODES = 50
STARTED, ENDED = "2026-01-01T00:00:00.000+00:00", "2026-01-01T00:01:00.000+00:00"
REFERENCES = ReferenceScores(random=-100.0, expert=100.0, version="1")


def write_many_results(folder, methods=100, environments=20, seeds=10, failing=200):
    """Writes published results of methods that do not ship with imitbench.

    Args:
        folder: Folder to write.
        methods: Number of methods; their typical scores are between 0 and 1.
        environments: Number of environments of the suite.
        seeds: Runs of each method on each environment.
        failing: Every run with a multiple of this number has failed.
    """
    runs = []
    for method in range(methods):
        for environment in range(environments):
            for seed in range(seeds):
                rng = np.random.default_rng([method, environment, seed])
                spec = _spec(method, environment, seed)
                fails = len(runs) % failing == failing - 1
                level = (method + 1) / (methods + 1) + 0.1 * rng.normal()
                runs.append(_failed(spec) if fails else _completed(spec, level, rng))
    export_results(runs, folder, version="0.1.0", command="imitbench results export")


def _spec(method, environment, seed):
    return make_spec(
        seed,
        f"method_{method:03d}",
        f"Task{environment:02d}-v0",
        suite=SUITE,
        environment=EnvironmentSpec(id=f"Task{environment:02d}-v0", horizon="variable"),
        budget=Budget(name="default", unit="env_steps", amount=100_000),
        protocol=Protocol(episodes=EPISODES, environments=25),
        hyperparameters={"learning_rate": 0.0003, "batch_size": 64},
        demos=None,
    )


def _completed(spec, level, rng):
    returns = 200 * (level + 0.1 * rng.normal(size=2 * EPISODES)) - 100
    episodes = EpisodeTable(
        returns=returns,
        lengths=rng.integers(50, 1000, 2 * EPISODES),
        terminated=rng.random(2 * EPISODES) < 0.5,
        deterministic=np.arange(2 * EPISODES) >= EPISODES,
    )
    result = RunResult(
        run_id=spec.run_id,
        **recompute(episodes),
        env_steps=spec.budget.amount,
        train_s=float(rng.uniform(30, 40)),
        wall_s=float(rng.uniform(40, 60)),
        started_at=STARTED,
        finished_at=ENDED,
        references=REFERENCES,
        provenance=PROVENANCE,
    )
    return PublishedRun(spec, result, None, episodes)


def _failed(spec):
    failure = RunFailure(
        run_id=spec.run_id,
        phase="train",
        error_type="FloatingPointError",
        message="the loss is nan",
        traceback="",
        failed_at=ENDED,
        references=REFERENCES,
        provenance=PROVENANCE,
    )
    return PublishedRun(spec, failure=failure)
