"""Options of commands that do runs: what to run, and how it is carried out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from imitbench.cards.suite import BudgetName
from imitbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imitbench.executors.slurm.executor import ArrayRequest

Algo = Annotated[
    list[str],
    typer.Option(
        "--algo",
        metavar="NAME",
        help="Name, ./plugin or package.module; repeatable; or 'all'.",
    ),
]
Seeds = Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,3,5-9).")]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Hyper-parameter, or ALGO.NAME=VALUE."),
]
Config = Annotated[
    Literal["default", "tuned"],
    typer.Option("--config", help="Hyper-parameters of the card, or tuned for each environment."),
]
Budget = Annotated[BudgetName, typer.Option("--budget", help="How much training.")]
Demos = Annotated[
    str,
    typer.Option("--n-demos", metavar="N", help="Demonstrations to learn from: 10, or 1,3,all."),
]
Source = Annotated[
    str,
    typer.Option("--source", help="Experts and demos: bundled, hub, path:DIR, or minari:NAME."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at a time [1, or as many as GPUs take]."),
]
Executor = Annotated[
    str, typer.Option("--executor", help="Where runs are done: local, slurm or inline.")
]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile", metavar="FILE", help="With slurm: what tasks ask for.", dir_okay=False
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="With slurm: stay until the tasks are done.")]
MinTaskMinutes = Annotated[
    float,
    typer.Option(
        "--min-task-minutes", min=0.0, help="With slurm: short runs share a task of this length."
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="auto (GPUs if asked for, else cpu), cpu, cuda or cuda:N.")
]
Gpus = Annotated[
    str | None, typer.Option("--gpus", metavar="0,1", help="GPUs that runs use in turn [none].")
]
PerGpu = Annotated[
    int | None, typer.Option("--per-gpu", min=1, help="Runs at a time on each GPU [1].")
]
Retries = Annotated[
    int, typer.Option("--retries", min=0, help="How often a run that failed is tried again.")
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="DURATION", help="Longest an attempt at a run may take, e.g. 90m."
    ),
]
MaxMem = Annotated[
    str | None,
    typer.Option("--max-mem", metavar="SIZE", help="Memory that each worker may use, e.g. 4G."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and its expected cost only.")
]
Force = Annotated[bool, typer.Option("--force", help="Do completed runs again.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")]
CheckpointMinutes = Annotated[
    float,
    typer.Option(
        "--checkpoint-minutes", min=0.0, help="Between checkpoints, from which runs resume."
    ),
]


DEFAULT_MIN_TASK_MINUTES = 5.0


def count_workers(jobs: int | None, gpus: Sequence[str], per_gpu: int | None) -> int:
    """How many runs are done at a time.

    Args:
        jobs: What `--jobs` says, which wins.
        gpus: GPUs in use.
        per_gpu: What `--per-gpu` says.

    Raises:
        InputError: Runs per GPU without GPUs.
    """
    if per_gpu is not None and not gpus:
        raise InputError(f"--per-gpu {per_gpu}: no GPUs were asked for; add --gpus 0")
    return jobs or max(1, len(gpus) * (per_gpu or 1))


def array_request(
    executor: str,
    profile: Path | None,
    min_task_minutes: float,
    *,
    jobs: int | None = None,
    gpus: str | None = None,
    max_memory: int | None = None,
) -> ArrayRequest | None:
    """What the options of SLURM say; `None` for another executor.

    Args:
        executor: Name of the executor.
        profile: File of the profile.
        min_task_minutes: What a task should take at least.
        jobs: What `--jobs` says, of which the profile decides.
        gpus: What `--gpus` says, of which the profile decides.
        max_memory: Bytes that each worker may use.

    Raises:
        InputError: Options that do not go together, or the profile is wrong.
    """
    if executor != "slurm":
        if profile is not None:
            raise InputError(f"--profile {profile}: goes with --executor slurm only")
        return None
    for option, value, keys in (
        ("--jobs", jobs, "workers and array_parallelism"),
        ("--gpus", gpus, "gpus"),
    ):
        if value is not None:
            raise InputError(f"{option} {value}: with --executor slurm, {keys} of the profile say")
    from imitbench.executors.slurm.executor import ArrayRequest
    from imitbench.executors.slurm.profile import Profile, read_profile

    return ArrayRequest(
        profile=Profile() if profile is None else read_profile(profile),
        min_task_s=60 * min_task_minutes,
        max_memory=max_memory,
    )
