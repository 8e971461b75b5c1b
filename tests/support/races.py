"""Races whose runs are written directly, with returns that a test chooses."""

from pathlib import Path
from unittest import mock

import numpy as np

from imitbench.bench import provenance
from imitbench.bench.spec import reference_scores
from imitbench.bench.sweep import SweepOutcome
from imitbench.executors.options import RunOptions
from imitbench.published.run_checks import recompute
from imitbench.race import driver
from imitbench.race.planning import RaceOptions, plan_race
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import RunResult
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepRequest
from support.results import PROVENANCE
from support.synthetic_runs import write_failed

LEVELS = {"bc": 0.9, "gail": 0.5, "sqil": 0.9, "airl": 0.5}


def draw(spec, levels=LEVELS, spread=0.02):
    """Returns the score of a run, which depends on the run alone."""
    rng = np.random.default_rng([spec.seed, *spec.algo.encode(), *spec.environment.id.encode()])
    return levels[spec.algo] + spread * rng.normal()


class Training:
    """Does the runs of plans at once, and remembers them.

    Args:
        out: Results folder.
        score: Score of a run from its specification, see `write_scored`; `None` fails it.
        stop_after: Number of runs after which it behaves like a stopped sweep.
    """

    def __init__(self, out, score=draw, stop_after=None):
        self.out, self.score, self.left = out, score, stop_after
        self.trained = []

    def __call__(self, plan):
        outcome = SweepOutcome()
        for spec in plan:
            if self.left == 0:
                outcome.left += 1
                continue
            self.left = None if self.left is None else self.left - 1
            self.write(plan, spec)
            outcome.done += 1
        return outcome

    def write(self, plan, spec):
        self.trained.append((spec.algo, spec.environment.id, spec.seed))
        references = reference_scores(plan.suite, spec.environment.id, "bundled")
        score, now = self.score(spec), provenance.now()
        if score is None:
            write_failed(self.out, spec, at=now)
        else:
            write_scored(self.out, spec, score, references, now)


def write_scored(out, spec, score, references, at):
    """Writes a completed run, whose numbers follow from its episodes.

    `score` is that of both ways of acting, on the scale of sampled actions, or one of each.
    """
    ways = np.repeat(score if isinstance(score, tuple) else (score, score), spec.protocol.episodes)
    episodes = EpisodeTable(
        returns=references.random + ways * (references.expert - references.random),
        lengths=np.full(ways.size, 200),
        terminated=np.zeros(ways.size, bool),
        deterministic=np.arange(ways.size) >= spec.protocol.episodes,
    )
    directory = RunDirectory.of(out, spec)
    directory.begin(spec)
    directory.write_episodes(episodes)
    directory.finish(
        RunResult(
            run_id=spec.run_id,
            **recompute(episodes),
            env_steps=spec.budget.amount if spec.budget.unit == "env_steps" else 0,
            train_s=1.0,
            wall_s=2.0,
            started_at=at,
            finished_at=at,
            references=references,
            provenance=PROVENANCE,
        )
    )


class Watching:
    """Remembers what it is told."""

    def __init__(self):
        self.standings, self.waited = [], 0

    def looked(self, standing):
        self.standings.append(standing)

    def waiting(self):
        self.waited += 1


def planned(
    new=("gail",),
    baselines=("bc",),
    env="Pendulum-v1",
    suite="classic",
    settings=None,
    out=None,
    **options,
):
    """Plans a race, by sampled actions unless another way of acting is named."""
    values = {"batch": 3, "max_seeds": 12, "acting": "sampled"} | options
    request = SweepRequest(
        algorithms=[],
        suite=suite,
        environment=env,
        seeds=[],
        budget="quick",
        folder=str(Path.cwd()),
        **(settings or {}),
    )
    return plan_race(
        new, baselines, request, RaceOptions(**values), command="imitbench race", out=out
    )


def carry_out(race, out, train=None, observer=None):
    """Carries out a race with `train`, which writes runs; returns its result."""
    train = train or Training(out)
    with mock.patch.object(driver, "carry_out", lambda plans, *_, **__: train(*plans)):
        return driver.run_race(
            race,
            RunOptions(),
            out=out,
            command="imitbench race",
            observer=observer or Watching(),
        )
