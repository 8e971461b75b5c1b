"""Plans and sweeps over a small budget."""

import pytest
from support.evaluation import short_evaluation, short_training
from support.observer import Recorder
from support.plans import make_plan

from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class


@pytest.fixture(scope="session")
def plan_of():
    def make(algorithms=("random",), environment="Pendulum-v1", seeds=(0, 1), **settings):
        return make_plan(
            algorithms=list(algorithms),
            suite="classic",
            environment=environment,
            seeds=list(seeds),
            budget="quick",
            **settings,
        )

    return make


@pytest.fixture(scope="session")
def sweep():
    def run(plan, out, *, executor="inline", jobs=1, observer=None, runs_per_job=1, **options):
        return run_sweeps(
            [plan],
            executor_class(executor).from_options(RunOptions(jobs=jobs), JobWorker(), out),
            out=out,
            command="imitbench run",
            observer=observer or Recorder(),
            options=RunOptions(**options),
            runs_per_job=runs_per_job,
        )

    return run


@pytest.fixture
def short_runs():
    """Short evaluations, and few batches for those that learn from batches."""
    with short_evaluation(), short_training(batches=100):
        yield
