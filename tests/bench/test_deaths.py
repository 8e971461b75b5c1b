"""A worker that dies costs the run that it was at, in a pack too, and the reason is on record."""

import json
import textwrap

import pytest
from support.observer import Recorder

from imitbench.bench.sweep import run_sweep
from imitbench.executors.registry import make_executor
from imitbench.store.run_dir import RunDirectory

# The worker, with a hand in what happens once a run of it is in training.
ENTRY = """
import os, signal, sys, time
from imitbench.bench import worker
from imitbench.bench.worker import after_death, main

train = worker._Run._train

def act(run, learner):
    seed, attempt = run.spec.seed, run.attempt
    print("in training", flush=True)
    exec({program!r})
    return train(run, learner)

worker._Run._train = act

if __name__ == "__main__":
    sys.exit(main())
"""
KILL = "if seed == 1: os.write(2, b'last words'); os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def sweep_with(tmp_path, monkeypatch):
    """Does a sweep whose workers run a program in training, which knows `seed` and `attempt`."""

    def run(plan, program, *, entry="mischievous_worker", jobs=1, **options):
        text = ENTRY.format(program=textwrap.dedent(program))
        (tmp_path / f"{entry}.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        monkeypatch.syspath_prepend(str(tmp_path))
        return run_sweep(
            plan,
            make_executor("local", entry=entry, jobs=jobs),
            out=tmp_path / "out",
            command="imitbench run",
            observer=Recorder(),
            **options,
        )

    return run


@pytest.mark.parametrize("pack", [1, 4])
def test_only_the_run_at_work_is_lost(tmp_path, plan_of, sweep_with, pack):
    outcome = sweep_with(plan_of(seeds=range(4)), KILL, pack=pack)
    assert (outcome.done, outcome.left) == (3, 0)
    [(spec, failure)] = outcome.failed
    assert spec.seed == 1
    assert (failure.phase, failure.error_type) == ("worker", "WorkerDied")
    assert failure.message == (
        "worker was killed by SIGKILL, as when memory runs out, in phase train"
    )
    assert "last words" in failure.traceback  # what the process said
    assert "in training" in failure.traceback  # and what the run's log says
    directory = RunDirectory.of(tmp_path / "out", spec)
    assert directory.read_failure() == failure
    assert json.loads((directory.path / "status.json").read_text())["state"] == "failed"
    assert not list((tmp_path / "out" / ".jobs").iterdir())
