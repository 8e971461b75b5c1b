"""Results folders with complete runs, whose outcomes follow from their episodes."""

import numpy as np

from imitbench.published.run_checks import recompute
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import Protocol, Provenance, ReferenceScores, RunFailure, RunResult
from imitbench.store.run_dir import RunDirectory
from support.runs import make_spec

EPISODES = 4
REFERENCES = ReferenceScores(random=-100.0, expert=100.0, version="1")
PROVENANCE = Provenance(
    imitbench="0.1.0",
    git_sha="0" * 40,
    python="3.11.0",
    packages={"numpy": "2"},
    host="secret-host",
    cpu="a processor",
    gpu=None,
    command="imitbench run",
)


def write_finished_run(out, seed=0, **changes):
    """Writes a completed run with random episodes; returns its directory."""
    spec = _spec(seed, **changes)
    rng = np.random.default_rng(seed)
    returns = rng.normal(size=2 * EPISODES)
    deterministic = np.arange(2 * EPISODES) >= EPISODES
    directory = RunDirectory.of(out, spec)
    directory.begin(spec)
    episodes = EpisodeTable(
        returns=returns,
        lengths=rng.integers(1, 200, 2 * EPISODES),
        terminated=rng.random(2 * EPISODES) < 0.5,
        deterministic=deterministic,
    )
    directory.write_episodes(episodes)
    directory.finish(
        RunResult(
            run_id=spec.run_id,
            **recompute(episodes),
            env_steps=10,
            train_s=1.0,
            wall_s=2.0,
            started_at="2026-01-01T00:00:00.000+00:00",
            finished_at="2026-01-01T00:00:02.000+00:00",
            references=REFERENCES,
            provenance=PROVENANCE,
            measures={"reward_correlation": 0.1 + seed},
        )
    )
    return directory


def write_failed_run(out, seed=0, **changes):
    """Writes a failed run; returns its directory."""
    spec = _spec(seed, **changes)
    directory = RunDirectory.of(out, spec)
    directory.begin(spec)
    directory.fail(
        RunFailure(
            run_id=spec.run_id,
            phase="train",
            error_type="RuntimeError",
            message="it broke",
            traceback='File "/home/somebody/x.py"',
            failed_at="2026-01-01T00:00:02.000+00:00",
            references=REFERENCES,
            provenance=PROVENANCE,
        )
    )
    return directory


def _spec(seed, **changes):
    return make_spec(seed, **{"protocol": Protocol(episodes=EPISODES, environments=2)} | changes)
