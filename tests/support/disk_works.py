"""Small tasks that need a disk, and checks of their results on a disk that fails."""

import contextlib
import dataclasses
import io
import shutil
import sys

from imitbench.bench import worker
from imitbench.bench.job import Job
from imitbench.bench.plan import Plan
from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker
from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.options import RunOptions
from imitbench.records.runs import Budget, Protocol, ReferenceScores
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.run_dir import RunDirectory
from support.observer import Recorder
from support.outcomes import database_content, finished_runs
from support.plans import make_plan
from support.results import write_finished_run


class TinyPlan(Plan):
    """A plan with very short runs."""

    def __iter__(self):
        for run in super().__iter__():
            yield run.model_copy(
                update={
                    "budget": Budget(name="quick", unit="batches", amount=2),
                    "protocol": Protocol(episodes=1, environments=1),
                }
            )


def tiny_plan():
    plan = make_plan(
        algorithms=["bc"],
        suite="classic",
        environment="Pendulum-v1",
        seeds=[0, 1],
        budget="quick",
        n_demos=1,
        overrides={"hidden_size": "4"},
    )
    return TinyPlan(**{field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)})


class WorkerAlone:
    """A worker does a job of one run, with a checkpoint after each batch.

    A retry is another job, because failed runs are not repeated in the same job.
    """

    def prepare(self, out):
        self._jobs = iter([self._write_job(out, name) for name in ("first.json", "second.json")])

    def _write_job(self, out, name):
        job = Job(
            out=str(out),
            source_root=str(suite_directory("classic")),
            runs=list(tiny_plan())[:1],
            references=ReferenceScores(random=-1000.0, expert=-150.0, version="1"),
            command="imitbench run",
            checkpoint_s=0.0,
        )
        return job.write().rename(out / name)

    def do(self, out):
        return worker.main([str(next(self._jobs))])

    def results(self, out):
        return finished_runs(out)


class Sweep:
    """A submitter and its worker do two runs, in one process."""

    def prepare(self, out):
        out.mkdir(parents=True)

    def do(self, out):
        executor = InlineExecutor(JobWorker())
        given = {"out": out, "command": "imitbench run", "observer": Recorder()}
        try:
            outcome = run_sweeps(
                [tiny_plan()], executor, options=RunOptions(checkpoint_s=0.0), **given
            )
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
        return 1 if outcome.failed else 0

    def results(self, out):
        return finished_runs(out)


class Collection:
    """A collector replaces one run and adds another."""

    def prepare(self, out):
        template = out.parent / "template"
        if not template.exists():
            for seed in (0, 1):
                last = write_finished_run(template, seed)
                last.write_curve([{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}])
            second = last.path
            second.rename(template.parent / "second")
            collect(template)
            (template.parent / "second").rename(second)
        # A copy is a new file, which is detected as a change.
        shutil.copytree(template, out)

    def do(self, out):
        try:
            collect(out)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
        return 0

    def results(self, out):
        """Returns the rows of each run, without the stamps of its files."""
        content = database_content(out)
        del content["ingested"]
        return {
            row[0]: {name: [r for r in rows if r[0] == row[0]] for name, rows in content.items()}
            for row in content["runs"]
        }


WORKS = {"worker": WorkerAlone, "sweep": Sweep, "collection": Collection}


def said_by(work, out):
    """Returns the exit code of the task and its output on stderr."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = work.do(out)
    return code, errors.getvalue()


def debris(out):
    """Returns files with temporary names."""
    drafts = [
        *out.rglob("*.tmp"),
        *out.rglob(".probe-*"),
        *out.glob(f".{database.DATABASE_FILE}.*"),
    ]
    return sorted(path.relative_to(out).as_posix() for path in drafts)


def untrue(results, expected):
    """Returns runs with a wrong result."""
    # Remaining temporary files of a complete run are not an error.
    return [
        name
        for name, result in results.items()
        if any(result[part] != expected[name][part] for part in result if part != "files")
    ]


def expected_results(work, out):
    """Returns the results of the task on a disk that works."""
    work.prepare(out)
    assert said_by(work, out) == (0, "")
    return work.results(out)


def trial(work, out, failing, expected):
    """Does the task on a disk that fails, then again on one that works.

    Args:
        work: The task.
        out: Results folder, which must not exist yet.
        failing: A context manager within which the disk fails.
        expected: Results on a disk that works.

    Returns:
        A JSON record of what happened.
    """
    work.prepare(out)
    with failing:
        code, said = said_by(work, out)
    record = {
        "code": code,
        "said": said,
        "failures": len(list(out.rglob("error.json"))),
        "untrue": untrue(work.results(out), expected),
        "claimed": [path.relative_to(out).as_posix() for path in out.rglob(".lease")],
    }
    code, said = said_by(work, out)
    if isinstance(work, WorkerAlone):
        RunDirectory(
            next(out.rglob("spec.json")).parent
        ).remove_leftover_checkpoints()  # as submitters do
    return record | {
        "code_after": code,
        "said_after": said,
        "whole_after": work.results(out) == expected,
        "left_out_after": [str(each) for each in collect(out).quarantined],
        "debris_after": debris(out),
    }


def check(record):
    """Checks a trial."""
    assert record["code"] in (0, 1, 2), record
    assert "Traceback" not in record["said"], record
    if record["code"] == 2:
        lines = record["said"].splitlines()
        # One of the submitter, and one for each run of the worker in the same process.
        assert 1 <= len(lines) <= 3, record
        for line in lines:
            errors = [text for text in ("Input/output error", "No space left") if text in line]
            assert len(errors) == 1, record
            assert "None" not in line, record
    assert (record["untrue"], record["claimed"]) == ([], []), record
    assert (record["code_after"], record["said_after"]) == (0, ""), record
    assert record["whole_after"], record
    assert (record["left_out_after"], record["debris_after"]) == ([], []), record
