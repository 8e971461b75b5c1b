"""Carries out plans as a person asked, on any executor."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imitbench.bench.sweep import WORKER, Observer, Outcome, run_sweep
from imitbench.errors import InputError
from imitbench.executors.devices import check_cuda, choose_device, find_cuda, visible_gpus
from imitbench.executors.options import RunOptions
from imitbench.executors.registry import make_executor
from imitbench.store.run_dir import RunDirectory

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.executors.base import Executor
    from imitbench.executors.slurm.executor import ArrayRequest


def resolve(options: RunOptions) -> RunOptions:
    """Fills in what options leave open: the device, its GPUs, and how many runs are done at a time.

    Raises:
        InputError: Two options do not go together.
    """
    slurm = array_request(options)
    gpus: Sequence[str] = options.gpus
    if slurm is not None:
        for option, value, keys in (
            ("--jobs", options.jobs, "workers and array_parallelism"),
            ("--gpus", ",".join(options.gpus) or None, "gpus"),
        ):
            if value is not None:
                raise InputError(
                    f"{option} {value}: with --executor slurm, {keys} of the profile say"
                )
        gpus = [str(number) for number in range(slurm.profile.gpus)]
    chosen = choose_device(options.device, gpus)
    return options.model_copy(
        update={
            "device": chosen.device,
            "gpus": chosen.gpus,
            "jobs": count_workers(options.jobs, chosen.gpus, options.per_gpu),
        }
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


def array_request(options: RunOptions) -> ArrayRequest | None:
    """What the options of SLURM say; `None` for another executor.

    Raises:
        InputError: A profile for another executor, or it is wrong.
    """
    if options.executor != "slurm":
        if options.profile is not None:
            raise InputError(f"--profile {options.profile}: goes with --executor slurm only")
        return None
    from imitbench.executors.slurm.executor import ArrayRequest
    from imitbench.executors.slurm.profile import Profile, read_profile

    return ArrayRequest(
        profile=Profile() if options.profile is None else read_profile(options.profile),
        min_task_s=options.min_task_s,
        max_memory=options.max_memory,
    )


def carry_out(
    plans: Sequence[Plan], options: RunOptions, *, out: Path, command: str, observer: Observer
) -> Outcome:
    """Runs one plan after the other, or submits them.

    Args:
        plans: What to do.
        options: How, as `resolve` gives it.
        out: Results folder.
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
        if outcome.left or (options.fail_fast and outcome.failed):
            outcome.left += sum(not RunDirectory.of(out, run).is_done for run in plan)
        else:
            outcome.add(_execute(plan, options, out, command, observer))
    return outcome


def _execute(
    plan: Plan, options: RunOptions, out: Path, command: str, observer: Observer
) -> Outcome:
    pool = make_pool(options, WORKER, out, device=plan.settings.device)
    # What the summary needs is loaded while the workers are busy. It is waited for in any case:
    # a process that ends in the middle of an import may crash.
    loader = threading.Thread(target=importlib.import_module, args=("imitbench.store.collector",))
    loader.start()
    try:
        return run_sweep(plan, pool, out=out, command=command, observer=observer, options=options)
    finally:
        loader.join()


def make_pool(options: RunOptions, entry: str, out: Path, *, device: str) -> Executor:
    """Makes the executor that was asked for.

    Args:
        options: How runs are carried out, as `resolve` gives it.
        entry: Module of the worker.
        out: Folder that all jobs lie below.
        device: What the runs ask for.

    Raises:
        InputError: It is not available here.
    """
    slurm = array_request(options)
    if slurm is not None:
        from imitbench.executors.slurm.executor import SlurmExecutor

        return SlurmExecutor(entry, out, slurm, wait=options.wait)
    return make_executor(
        options.executor,
        entry=entry,
        jobs=options.jobs or 1,
        gpus=_gpus_for_workers(options) if device == "cuda" else (),
        max_memory=options.max_memory,
    )


def _gpus_for_workers(options: RunOptions) -> tuple[str, ...]:
    """Makes sure that the GPUs are there, and names them as workers need it."""
    gpus = options.gpus or ("0",)
    visible = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if options.executor == "inline":  # this process is the worker, and has not looked for GPUs yet
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[0]
        check_cuda(("0",), find_cuda())
    elif options.executor == "local":
        check_cuda(gpus, find_cuda())
    return visible
