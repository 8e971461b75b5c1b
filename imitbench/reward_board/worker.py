"""Measures rewards in the worker processes of an executor, or in this process.

python -m imitbench.reward_board.worker JOBFILE     one job, a `Measurement`
python -m imitbench.reward_board.worker -           job files from standard input, one per line

It serves jobs as `imitbench.bench.worker` does, with the same exit codes. The numbers of a job are
in a file next to it, from which the process that asked for them writes the run's record.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from imitbench.bench import worker as bench
from imitbench.bench.stopping import StopRequest
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import executor_class
from imitbench.records.reward_scores import RewardProtocol, RewardScores
from imitbench.records.runs import Record
from imitbench.reward_board.evaluation import evaluate_reward
from imitbench.reward_board.optimization import Optimizations, plugin_of_run
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted import mark_as_command
from imitbench.util.files import atomic_write_text
from imitbench.util.source_import import SourceLocation, register, registered_sources

_FOLDER = ".measurements"  # of an executor of other machines, below the results folder
_EXPECTED_S = 5.0  # of a measurement, roughly: it only decides how many share a task
_POLL_S = 0.2


class Measurement(Record):
    """A job: the reward of one run, and how it is measured; see `evaluate_reward`.

    Attributes:
        run: Directory of the run, absolute.
        sources: Locations of source outside this package that the user has named, by digest.
    """

    run: str
    protocol: RewardProtocol
    suite: str | None = None
    trust: bool = False
    optimizations: Optimizations | None = None
    sources: dict[str, SourceLocation] = Field(default_factory=registered_sources)


class Measured(Record):
    """What a job found.

    Attributes:
        scores: The numbers; `None` if they could not be measured.
        problem: Why not.
    """

    scores: RewardScores | None = None
    problem: str = ""


@dataclass(frozen=True)
class MeasurementWorker:
    """The worker program of measurements; implements `imitbench.executors.base.Worker`."""

    module: str = __name__

    def main(self, arguments: list[str]) -> int:
        """Runs the program within this process and returns its exit code."""
        return bench.main(arguments, _do)

    def after_death(self, job: Path, detail: str) -> bool:
        """Records a crash as the problem of the job's run; nothing of the job remains."""
        how, *output = detail.splitlines()
        _write(job, Measured(problem=f"{how}: {output[-1]}" if output else how))
        return False


def measure_all(
    wanted: Sequence[Measurement], options: RunOptions, out: Path
) -> Iterator[Measured]:
    """Measures rewards, several at a time, and waits for them.

    Args:
        wanted: What is measured.
        options: Execution options, as `imitbench.executors.registry.resolve` returns them. Rewards
            are measured on the CPU; a single local job at a time is one of this process.
        out: Results folder of the runs, below which an executor of other machines has its files.

    Yields:
        What was found, in the order of `wanted`.

    Raises:
        InputError: The executor is not available on this machine, or refuses the jobs.
    """
    if not wanted:
        return
    folder = out.resolve() / _FOLDER if executor_class(options.executor).distributed else None
    if folder is not None:
        folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="imitbench-rewards-", dir=folder) as scratch:
        paths = [Path(scratch) / f"{index}.json" for index in range(len(wanted))]
        for path, job in zip(paths, wanted, strict=True):
            atomic_write_text(path, job.model_dump_json())
        executor = _executor(options, len(wanted), folder or Path(scratch))
        try:
            executor.submit(paths, [_EXPECTED_S] * len(paths))
            ended: dict[Path, str] = {}
            for path in paths:
                while path not in ended:
                    events = executor.poll(_POLL_S)
                    ended |= {event.job: _why(event) for event in events if event.kind != "started"}
                yield _read(path, ended[path])
        except BaseException:
            executor.kill()
            raise
        executor.close()


def _executor(options: RunOptions, measurements: int, folder: Path) -> Executor:
    """Returns the executor of measurements, which this process waits for."""
    jobs = min(options.jobs or 1, measurements)
    if options.executor == "local" and jobs == 1:
        return InlineExecutor(MeasurementWorker())
    own = options.model_copy(update={"device": "cpu", "gpus": (), "jobs": jobs, "wait": True})
    return executor_class(options.executor).from_options(own, MeasurementWorker(), folder)


def _why(event: JobEvent) -> str:
    """Returns why a job found nothing, if it did not."""
    if event.kind == "lost":
        return "its task left the queue before it was done: cancelled, or on a lost node"
    return event.detail


def _do(path: Path, _stop: StopRequest, _supervised: bool) -> None:
    job = Measurement.model_validate_json(path.read_bytes())
    for digest, source in job.sources.items():
        register(digest, source)
    directory = RunDirectory(Path(job.run))
    try:
        scores = evaluate_reward(
            directory,
            job.protocol,
            suite=job.suite,
            plugin=plugin_of_run(directory) if job.trust else None,
            trust=job.trust,
            optimizations=job.optimizations,
        )
    except InputError as error:
        _write(path, Measured(problem=str(error)))
    else:
        _write(path, Measured(scores=scores))


def _write(job: Path, found: Measured) -> None:
    atomic_write_text(job.with_suffix(".found"), found.model_dump_json())


def _read(job: Path, detail: str) -> Measured:
    """Reads what a job found; a worker that was stopped has found nothing."""
    found = job.with_suffix(".found")
    if found.exists():
        return Measured.model_validate_json(found.read_bytes())
    return Measured(problem=detail.partition("\n")[0] or "the worker was stopped")


if __name__ == "__main__":
    mark_as_command()  # files of other people are read as by the command itself
    sys.exit(bench.main(do=_do))
