"""A sweep does missing runs, handles failures, and gives repeatable numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch as th
from support.command import Started
from support.observer import Recorder
from support.synthetic_runs import write_finished

from imitbench.bench.job import Job
from imitbench.bench.sweep import run_sweeps
from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.executors.options import RunOptions
from imitbench.policies.storage import load_policy
from imitbench.store.run_dir import RunDirectory

NUMBERS = ("raw_return", "return_std", "deterministic_return", "mean_length", "env_steps")


def directories(plan, out):
    return [RunDirectory.of(out, spec) for spec in plan]


def numbers(plan, out):
    results = [directory.read_result() for directory in directories(plan, out)]
    return [tuple(getattr(result, name) for name in NUMBERS) for result in results]


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("executor", ["inline", "local"])
def test_every_executor_leaves_the_same_complete_run_directories(
    tmp_path, plan_of, sweep, executor
):
    plan = plan_of(["bc", "random", "expert"], seeds=[3])
    outcome = sweep(plan, tmp_path, executor=executor)
    assert (outcome.done, outcome.failed, outcome.left) == (3, [], 0)
    for spec, directory in zip(plan, directories(plan, tmp_path), strict=True):
        assert directory.read_spec() == spec
        result = directory.read_result()
        assert json.loads((directory.path / "status.json").read_text())["state"] == "done"
        episodes = pq.read_table(directory.path / "episodes.parquet").to_pandas()
        stochastic = episodes[~episodes.deterministic]
        assert len(stochastic) == len(episodes) - len(stochastic) == spec.protocol.episodes
        assert result.raw_return == pytest.approx(stochastic.raw_return.mean())
        assert result.provenance.command == "imitbench run"
        assert load_policy(directory.policy).action_space.shape == (1,)
    assert not list((tmp_path / ".jobs").iterdir())


@pytest.mark.usefixtures("short_runs")
def test_the_observer_sees_every_run_and_a_second_sweep_does_nothing(tmp_path, plan_of, sweep):
    recorder, plan = Recorder(), plan_of()
    sweep(plan, tmp_path, observer=recorder)
    assert recorder.events[0] == ("planned", 2, 0)
    assert [event for event in recorder.events if event[0] == "finished"] == [
        ("finished", spec.run_id, None) for spec in plan
    ]
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    outcome = sweep(plan, tmp_path)
    assert (outcome.already_done, outcome.done) == (2, 0)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before


def test_runs_of_several_plans_are_counted_and_submitted_at_once(tmp_path, plan_of):
    plans = [plan_of(["bc"], seeds=[seed]) for seed in (0, 1, 1)]
    observer = Recorder()
    executor = Submissions()
    outcome = run_sweeps(
        plans,
        executor,
        out=tmp_path,
        command="x",
        observer=observer,
        options=RunOptions(),
    )
    runs = [run for plan in plans[:2] for run in plan]
    assert observer.events[0] == ("planned", 2, 0)
    assert [[run.run_id for run in job.runs] for job in executor.jobs] == [
        [run.run_id] for run in runs
    ]
    assert (outcome.queued, outcome.left) == (2, 0)
    assert len(list((tmp_path / ".sweeps").glob("*.json"))) == 2


class Submissions(Executor):
    """Keeps jobs in a queue, from which nothing takes them."""

    outlives = detached = True

    def __init__(self):
        super().__init__(None)
        self.jobs = []

    from_options = None

    def submit(self, jobs, expected_s=()):
        self.jobs += [Job.read(path) for path in jobs]

    def poll(self, timeout):
        return []

    def kill(self):
        pass

    def close(self):
        pass


class Ended(Submissions):
    """Has a job of an earlier process in its queue, which ends as soon as it is asked for."""

    detached = False

    def __init__(self, job, complete):
        super().__init__()
        self.job, self.complete = job, complete
        self.paths = []

    def adopt(self):
        self.complete()
        return [self.job]

    def submit(self, jobs, expected_s=()):
        super().submit(jobs)
        self.paths += jobs

    def poll(self, timeout):
        lost = [JobEvent(path, "lost") for path in self.paths]
        return [JobEvent(self.job, "finished"), *lost]


def test_a_job_that_ends_before_it_is_taken_over_is_not_done_again(tmp_path, plan_of):
    plan = plan_of(seeds=[0, 1])
    first = next(iter(plan))
    executor = Ended(tmp_path / ".jobs/gone.json", lambda: write_finished(tmp_path, first))
    outcome = run_sweeps(
        [plan], executor, out=tmp_path, command="imitbench run", observer=Recorder(),
        options=RunOptions(),
    )  # fmt: skip
    assert [run.seed for job in executor.jobs for run in job.runs] == [1]
    assert (outcome.done, outcome.lost, outcome.failed) == (1, 1, [])


@pytest.mark.usefixtures("short_runs")
def test_force_does_completed_runs_again_with_the_same_numbers(tmp_path, plan_of, sweep):
    plan = plan_of(["bc"])
    sweep(plan, tmp_path)
    first = numbers(plan, tmp_path)
    outcome = sweep(plan, tmp_path, force=True)
    assert (outcome.already_done, outcome.done) == (0, 2)
    assert numbers(plan, tmp_path) == first
    one_seed, another = first
    assert one_seed != another


@pytest.mark.usefixtures("short_runs")
def test_numbers_do_not_depend_on_what_ran_before_in_the_same_process(tmp_path, plan_of, sweep):
    both, alone = plan_of(["random", "bc"], seeds=[0]), plan_of(["bc"], seeds=[0])
    sweep(both, tmp_path / "both")
    sweep(alone, tmp_path / "alone")
    assert numbers(alone, tmp_path / "both") == numbers(alone, tmp_path / "alone")


@pytest.fixture
def own_source(tmp_path):
    source = tmp_path / "source"
    for kind in ("experts", "demos"):
        shutil.copytree(suite_directory("classic") / kind, source / kind)
    return source


@pytest.mark.usefixtures("short_runs")
def test_a_failed_run_is_recorded_and_does_not_stop_the_others(
    tmp_path, plan_of, sweep, own_source
):
    demos = own_source / "demos" / "sac-Pendulum-v1" / "data" / "train-00000-of-00001.parquet"
    plan = plan_of(["bc", "random"], seeds=[0], source=f"path:{own_source}")
    specs = list(plan)
    whole = demos.read_bytes()
    # Corrupt it after planning has counted its rows, as a failing disk would.
    demos.write_bytes(whole[: len(whole) // 2] + bytes(100) + whole[len(whole) // 2 + 100 :])
    changed = [spec.model_copy(update={"demos": _repinned(spec, own_source)}) for spec in specs]
    outcome = sweep(_Fixed(plan, changed), tmp_path / "out")
    assert outcome.done == 1
    [(spec, failure)] = outcome.failed
    assert (spec.algo, failure.phase) == ("bc", "load")
    assert "\n" not in failure.message
    assert demos.name in failure.message
    assert RunDirectory.of(tmp_path / "out", spec).has_failed


def _repinned(spec, source):
    from imitbench.bench.artifacts import ArtifactLocation, pin_demos

    if spec.demos is None:
        return None
    old = spec.demos
    return pin_demos(ArtifactLocation.of_spec(source, "demos", old, spec.suite), old.count, None)


class _Fixed:
    """A plan with given runs."""

    def __init__(self, plan, specs):
        self._plan, self._specs = plan, specs

    def __getattr__(self, name):
        return getattr(self._plan, name)

    def __iter__(self):
        return iter(self._specs)


@pytest.mark.usefixtures("short_runs")
def test_content_that_changed_since_planning_is_refused(tmp_path, plan_of, sweep, own_source):
    plan = plan_of(["expert"], seeds=[0], source=f"path:{own_source}")
    specs = list(plan)
    weights = own_source / "experts" / "sac-Pendulum-v1" / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    outcome = sweep(_Fixed(plan, specs), tmp_path / "out")
    [(_, failure)] = outcome.failed
    assert "content changed" in failure.message


def test_demonstrations_of_another_environment_are_refused(tmp_path, plan_of, sweep, own_source):
    demos = own_source / "demos"
    shutil.rmtree(demos / "sac-Pendulum-v1")
    shutil.copytree(demos / "ppo-seals-CartPole-v0", demos / "sac-Pendulum-v1")
    plan = plan_of(["bc"], seeds=[0], source=f"path:{own_source}")
    [(_, failure)] = sweep(plan, tmp_path / "out").failed
    assert failure.error_type == "InputError"
    assert "sac-Pendulum-v1" in failure.message


def test_missing_demonstrations_are_reported_before_anything_runs(
    tmp_path, plan_of, sweep, own_source
):
    shutil.rmtree(own_source / "demos" / "sac-Pendulum-v1")
    with pytest.raises(InputError, match="found no parquet file"):
        sweep(plan_of(["bc"], source=f"path:{own_source}"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("short_runs")
def test_fail_fast_stops_at_the_first_failure(tmp_path, plan_of, sweep, own_source):
    demos = own_source / "demos"
    shutil.rmtree(demos / "sac-Pendulum-v1")
    shutil.copytree(demos / "ppo-seals-CartPole-v0", demos / "sac-Pendulum-v1")
    plan = plan_of(["bc"], seeds=range(4), source=f"path:{own_source}")
    outcome = sweep(plan, tmp_path / "out", fail_fast=True)
    assert len(outcome.failed) == 1
    assert outcome.left == 3


def test_a_folder_that_cannot_be_written_is_reported_first(tmp_path, plan_of, sweep):
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(InputError, match="choose another folder"):
        sweep(plan_of(), blocked / "out")


@pytest.mark.parametrize("name", ["two\nlines", "two\rlines"])
def test_a_path_with_a_line_break_is_refused(tmp_path, plan_of, sweep, name):
    with pytest.raises(InputError, match="has a line break in its path") as caught:
        sweep(plan_of(), tmp_path / name)
    assert not {"\n", "\r"} & set(str(caught.value))
    assert not list(tmp_path.iterdir())


def run_command(out, *more, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "imitbench", "run", "--algo", "bc", "--env", "Pendulum-v1",
         "--seeds", "3", "--budget", "quick", "--jobs", "2", "--out", str(out), *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    assert run_command(out).wait() == 0
    return out


@pytest.mark.slow
def test_a_killed_sweep_is_completed_by_the_same_command(tmp_path, plan_of, uninterrupted):
    victim = run_command(tmp_path, start_new_session=True)
    while not list(tmp_path.rglob("status.json")):  # a worker has begun
        time.sleep(0.05)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert run_command(tmp_path).wait() == 0
    plan = plan_of(["bc"], seeds=range(3))
    assert numbers(plan, tmp_path) == numbers(plan, uninterrupted)
    assert len(list(tmp_path.glob("classic/*/*/*"))) == 3


@pytest.mark.slow
def test_two_concurrent_sweeps_both_finish_and_nothing_is_done_twice(
    tmp_path, plan_of, uninterrupted
):
    both = [run_command(tmp_path), run_command(tmp_path)]
    assert [process.wait() for process in both] == [0, 0]
    plan = plan_of(["bc"], seeds=range(3))
    assert numbers(plan, tmp_path) == numbers(plan, uninterrupted)
    workers = {
        json.loads((d.path / "status.json").read_text())["pid"] for d in directories(plan, tmp_path)
    }
    assert len(workers) >= 1
    logs = [(d.path / "log.txt").stat().st_ctime_ns for d in directories(plan, tmp_path)]
    results = [(d.path / "result.json").stat().st_mtime_ns for d in directories(plan, tmp_path)]
    # A run that was done twice would have started again after its result.
    assert all(log < result for log, result in zip(logs, results, strict=True))


def test_an_interrupted_sweep_stops_cleanly_and_says_how_to_resume(tmp_path):
    words = ("run", "--algo", "bc", "--env", "Pendulum-v1", "--seeds", 3, "--budget", "quick")
    process = Started(*words, "--jobs", 1, "--out", tmp_path, cwd=tmp_path)
    while not list(tmp_path.rglob("status.json")):  # a worker has begun
        assert process.running()
        time.sleep(0.05)
    process.signal(signal.SIGINT)
    answer = process.end()
    assert answer.code == 130
    assert "the same command resumes" in answer.err
    # Its worker received a request to stop, and has answered.
    states = {json.loads(path.read_text())["state"] for path in tmp_path.rglob("status.json")}
    assert states <= {"done", "interrupted"}
    assert np.all([not p.name.endswith(".tmp") for p in tmp_path.rglob("*")])


@pytest.mark.skipif(th.cuda.is_available(), reason="there is a GPU")
def test_a_worker_without_gpu_does_not_use_the_cpu_instead(plan_of, sweep, tmp_path):
    [(spec, failure)] = sweep(plan_of(["bc"], seeds=[0], device="cuda"), tmp_path).failed
    assert spec.device == "cuda"
    assert (failure.phase, failure.error_type) == ("load", "InputError")
    assert failure.message.startswith("device cuda: ")
    assert failure.provenance.gpu is None


def test_the_device_is_part_of_a_runs_identity(plan_of):
    [cpu], [cuda] = (plan_of(["bc"], seeds=[0], device=device) for device in ("cpu", "cuda"))
    assert cpu.run_id != cuda.run_id
    assert (cpu.algo_label, cuda.algo_label) == ("bc", "bc[device=cuda]")
