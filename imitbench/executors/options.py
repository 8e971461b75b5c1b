"""Execution options: one record, from which command line, API and job files are derived."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from imitbench.executors.devices import choose_device, parse_gpus
from imitbench.util.options import Option, OptionRecord
from imitbench.util.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from imitbench.records.runs import DeviceClass

CHECKPOINT_S = 600.0
CheckpointInterval = Annotated[
    float,
    Field(ge=0.0),
    Option(
        "Minutes between checkpoints, from which runs resume.",
        keyword="checkpoint_minutes",
        unit=60.0,
    ),
]
Device = Annotated[
    str,
    Option(
        "auto (requested GPUs where they help), cpu, cuda, hybrid (evaluate on cpu), cuda:N.",
        metavar="DEVICE",
    ),
]


class JobOptions(OptionRecord):
    """Options that a worker needs: they are part of every job file (`imitbench.bench.job.Job`)."""

    force: Annotated[bool, Option("Do completed runs again.")] = False
    checkpoint_s: CheckpointInterval = CHECKPOINT_S
    retries: Annotated[int, Field(ge=0), Option("How often a failed run is tried again.")] = 0
    timeout_s: Annotated[
        float | None,
        Field(gt=0.0),
        Option(
            "Time limit of an attempt at a run, e.g. 90m.",
            keyword="timeout",
            kind=str | None,
            read=lambda text: parse_duration(str(text), option="--timeout"),
            metavar="DURATION",
        ),
    ] = None
    threads: Annotated[
        int | None,
        Field(ge=1),
        Option("MuJoCo's threads in each run [idle cores / runs at a time].", metavar="N"),
    ] = None


class RunOptions(JobOptions):
    """Options of how runs are executed; only the device and packs change results.

    A new option takes two edits:

    1. a field here, or in `JobOptions` if workers need it;
    2. the line that uses it.

    The field defines the option of `imitbench run`, `resume` and `tune`, the keyword of
    `imitbench.run`, the entry of the job file, and the options of executors. A command that does
    not offer it excludes it where it uses this record
    (`imitbench.cli.record_options.with_options_of`).
    """

    executor: Annotated[str, Option("Where runs are done.", metavar="NAME")] = "local"
    profile: Annotated[
        Path | None,
        Option("Resources that tasks request.", kind=Path | None, read=Path, metavar="FILE"),
    ] = None
    wait: Annotated[bool, Option("Stay until the tasks are done.")] = False
    min_task_s: Annotated[
        float,
        Field(ge=0.0),
        Option("Short runs share a task of this length.", keyword="min_task_minutes", unit=60.0),
    ] = 300.0
    jobs: Annotated[
        int | None,
        Field(ge=1),
        Option("Runs at a time [1, or as many as GPUs take].", letter="-j"),
    ] = None
    pack: Annotated[
        int | None,
        Field(ge=2),
        Option("Train seeds together, this many as one network; part of a run's id.", metavar="N"),
    ] = None
    device: Device = "auto"
    gpus: Annotated[
        tuple[str, ...],
        Option(
            "GPUs that runs use in turn [none].",
            kind=str | None,
            read=lambda text: parse_gpus(str(text)),
            metavar="0,1",
        ),
    ] = ()
    per_gpu: Annotated[int | None, Field(ge=1), Option("Runs at a time on each GPU [1].")] = None
    max_memory: Annotated[
        int | None,
        Option(
            "Memory that each worker may use, e.g. 4G.",
            keyword="max_mem",
            kind=str | None,
            read=lambda text: parse_size(str(text), option="--max-mem"),
            metavar="SIZE",
        ),
    ] = None
    fail_fast: Annotated[bool, Option("Stop at the first failure.")] = False

    @property
    def for_jobs(self) -> JobOptions:
        """The options that are written to job files."""
        return JobOptions(**{name: getattr(self, name) for name in JobOptions.model_fields})

    @property
    def device_class(self) -> DeviceClass | Literal["auto"]:
        """The resolved device as requests name it."""
        return choose_device(self.device, self.gpus).device

    @property
    def on_gpu(self) -> bool:
        """Whether workers need a GPU; `auto` is decided before, see `imitbench.bench.plan.Plan`."""
        return self.device not in ("auto", "cpu")
