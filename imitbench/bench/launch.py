"""Carries out plans as a person asked, on any executor."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitbench.bench.devices import (
    DeviceClass,
    check_cuda,
    choose_device,
    find_cuda,
    parse_gpus,
    visible_gpus,
)
from imitbench.bench.sweep import WORKER, Observer, Outcome, run_sweep
from imitbench.errors import InputError
from imitbench.executors.registry import make_executor
from imitbench.store.run_dir import RunDirectory
from imitbench.util.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.executors.base import Executor
    from imitbench.executors.slurm.executor import ArrayRequest


@dataclass(frozen=True)
class Launch:
    """How plans are carried out; nothing here but the device changes a number.

    Attributes:
        out: Results folder.
        executor: Name of the executor.
        device: Class of the processor that was chosen.
        jobs: Runs at a time.
        gpus: GPUs that they use in turn, by number or UUID.
        max_memory: Bytes that each worker may use.
        retries: How often a run that failed is tried again.
        timeout_s: Seconds that an attempt at a run may take.
        force: Whether completed runs are done again.
        fail_fast: Whether the first failure stops the sweep.
        checkpoint_minutes: Between two checkpoints of a run.
        slurm: How tasks are submitted with the executor `slurm`.
        wait: Whether this process waits for tasks that were submitted.
    """

    out: Path
    executor: str = "local"
    device: DeviceClass = "cpu"
    jobs: int = 1
    gpus: tuple[str, ...] = ()
    max_memory: int | None = None
    retries: int = 0
    timeout_s: float | None = None
    force: bool = False
    fail_fast: bool = False
    checkpoint_minutes: float = 10.0
    slurm: ArrayRequest | None = None
    wait: bool = True

    @classmethod
    def of(
        cls,
        *,
        executor: str,
        profile: Path | None,
        min_task_minutes: float,
        device: str = "auto",
        jobs: int | None,
        gpus: str | None,
        per_gpu: int | None,
        timeout: str | None,
        max_mem: str | None,
        **others: Any,
    ) -> Launch:
        """Reads options as they are typed; those not named here are taken as they are.

        Raises:
            InputError: One is wrong, or two do not go together.
        """
        max_memory = None if max_mem is None else parse_size(max_mem, option="--max-mem")
        slurm = array_request(
            executor, profile, min_task_minutes, jobs=jobs, gpus=gpus, max_memory=max_memory
        )
        asked: Sequence[str] = () if gpus is None else parse_gpus(gpus)
        if slurm is not None:
            asked = [str(number) for number in range(slurm.profile.gpus)]
        chosen = choose_device(device, asked)
        return cls(
            executor=executor,
            slurm=slurm,
            device=chosen.device,
            jobs=count_workers(jobs, chosen.gpus, per_gpu),
            gpus=chosen.gpus,
            max_memory=max_memory,
            timeout_s=None if timeout is None else parse_duration(timeout, option="--timeout"),
            **others,
        )


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


def carry_out(plans: Sequence[Plan], how: Launch, *, command: str, observer: Observer) -> Outcome:
    """Runs one plan after the other, or submits them.

    Args:
        plans: What to do.
        how: Where and how.
        command: What the user typed, for provenance.
        observer: Told about progress.

    Returns:
        What happened to the runs of all plans. Once a plan was stopped, what is open of those
        after it counts as left.

    Raises:
        InputError: It cannot be carried out as asked.
    """
    outcome = Outcome()
    for plan in plans:
        if outcome.left or (how.fail_fast and outcome.failed):
            outcome.left += sum(not RunDirectory.of(how.out, run).is_done for run in plan)
        else:
            outcome.add(_execute(plan, how, command, observer))
    return outcome


def _execute(plan: Plan, how: Launch, command: str, observer: Observer) -> Outcome:
    pool = make_pool(how, WORKER, how.out, device=plan.settings.device)
    # What the summary needs is loaded while the workers are busy. It is waited for in any case:
    # a process that ends in the middle of an import may crash.
    loader = threading.Thread(target=importlib.import_module, args=("imitbench.store.collector",))
    loader.start()
    try:
        return run_sweep(
            plan,
            pool,
            out=how.out,
            command=command,
            observer=observer,
            force=how.force,
            fail_fast=how.fail_fast,
            checkpoint_s=60 * how.checkpoint_minutes,
            retries=how.retries,
            timeout_s=how.timeout_s,
        )
    finally:
        loader.join()


def make_pool(how: Launch, entry: str, out: Path, *, device: DeviceClass) -> Executor:
    """Makes the executor that was asked for.

    Args:
        how: How runs are carried out.
        entry: Module of the worker.
        out: Folder that all jobs lie below.
        device: What the runs ask for.

    Raises:
        InputError: It is not available here.
    """
    if how.slurm is not None:
        from imitbench.executors.slurm.executor import SlurmExecutor

        return SlurmExecutor(entry, out, how.slurm, wait=how.wait)
    return make_executor(
        how.executor,
        entry=entry,
        jobs=how.jobs,
        gpus=_gpus_for_workers(how) if device == "cuda" else (),
        max_memory=how.max_memory,
    )


def _gpus_for_workers(how: Launch) -> tuple[str, ...]:
    """Makes sure that the GPUs are there, and names them as workers need it."""
    gpus = how.gpus or ("0",)
    visible = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if how.executor == "inline":  # this process is the worker, and has not looked for GPUs yet
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[0]
        check_cuda(("0",), find_cuda())
    elif how.executor == "local":
        check_cuda(gpus, find_cuda())
    return visible
