"""Synthetic finished and failed runs, written by the same code as real ones."""

import os
from contextlib import contextmanager

import numpy as np

from imitbench.bench import provenance
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import ReferenceScores, RunFailure, RunResult
from imitbench.store.run_dir import RunDirectory
from support.plans import make_plan

REFERENCES = ReferenceScores(random=-100.0, expert=100.0, version="1")
STARTED = "2026-01-01T00:00:00.000+00:00"
ALGORITHMS = ("bc", "dagger", "gail", "random", "expert")


def write_finished(
    out,
    spec,
    raw_return=0.0,
    at=STARTED,
    measures=None,
    metrics=("loss",),
    points=2,
    episodes=1,
    references=REFERENCES,
):
    """Writes the directory of a completed run.

    Args:
        out: Results folder.
        spec: Specification of the run.
        raw_return: Return of every episode of the stochastic policy.
        at: Time at which it started and finished.
        measures: Further measurements.
        metrics: Metrics of the learning curve, which start at 2.0 and halve.
        points: Number of points of the learning curve.
        episodes: Number of episodes of each policy.
        references: Returns of scores 0 and 1.
    """
    directory = RunDirectory.of(out, spec)
    with directory.claim(wait=False):
        directory.begin(spec)
        directory.write_curve(
            [{"step": step + 1} | dict.fromkeys(metrics, 2.0 / 2**step) for step in range(points)]
        )
        directory.write_episodes(
            EpisodeTable(
                returns=np.full(2 * episodes, raw_return),
                lengths=np.full(2 * episodes, 200),
                terminated=np.repeat([False, True], episodes),
                deterministic=np.repeat([False, True], episodes),
            )
        )
        directory.finish(
            RunResult(
                run_id=spec.run_id,
                raw_return=raw_return,
                return_std=0.0,
                deterministic_return=raw_return / 2,
                mean_length=200.0,
                termination_rate=0.0,
                env_steps=0,
                train_s=1.0,
                wall_s=2.0,
                started_at=at,
                finished_at=at,
                references=references,
                provenance=provenance.describe_provenance("imitbench run", "cpu"),
                measures=measures or {},
            )
        )
    return directory


def write_failed(out, spec, message="it broke", at=STARTED):
    """Writes the directory of a failed run."""
    directory = RunDirectory.of(out, spec)
    with directory.claim(wait=False):
        directory.begin(spec)
        directory.fail(
            RunFailure(
                run_id=spec.run_id,
                phase="train",
                error_type="RuntimeError",
                message=message,
                traceback="Traceback",
                failed_at=at,
                references=REFERENCES,
                provenance=provenance.describe_provenance("imitbench run", "cpu"),
            )
        )
    return directory


def plan_runs(count):
    """Plans at least `count` runs: five algorithms on every classic environment."""
    seeds = 1
    while len(plan := list(_plan(seeds))) < count:
        seeds = -(-count * seeds // len(plan))
    return plan[:count]


def _plan(seeds):
    return make_plan(
        algorithms=ALGORITHMS,
        suite="classic",
        environment=None,
        seeds=range(seeds),
    )


def write_results(out, specs, failed_every=0, **sizes):
    """Writes the directories of many runs; every `failed_every`-th run is a failed one.

    Files are not flushed to the disk, which would take long for thousands of runs. `sizes` are
    arguments of `write_finished`.
    """
    rng = np.random.default_rng(0)
    with _no_flushing():
        for number, spec in enumerate(specs, start=1):
            if failed_every and number % failed_every == 0:
                write_failed(out, spec)
            else:
                value = float(rng.normal(0.0, 30.0))
                write_finished(out, spec, value, **sizes)


@contextmanager
def _no_flushing():
    flush, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = flush
