"""Selects the processor of runs: the CPU, unless GPUs are requested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from imitbench.records.runs import DeviceClass

_KINDS: dict[str, DeviceClass | Literal["auto"]] = {
    "auto": "auto",
    "cpu": "cpu",
    "cuda": "cuda",
    "hybrid": "hybrid",
}

_BUILDS = "https://pytorch.org/get-started/previous-versions"
_SMI_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Choice:
    """Selected device of runs.

    Attributes:
        device: Class of the device, which is part of a run's identity; `auto` if GPUs are there and
            each method's card decides.
        gpus: GPUs by number or UUID; empty for the CPU.
    """

    device: DeviceClass | Literal["auto"]
    gpus: tuple[str, ...] = ()


def parse_gpus(text: str) -> tuple[str, ...]:
    """Parses the value of `--gpus`.

    Args:
        text: Numbers, or UUIDs as `nvidia-smi -L` prints them, separated by commas.

    Raises:
        InputError: The text has another form, or names one GPU twice.
    """
    gpus = tuple(part.strip() for part in text.split(","))
    if any(re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", gpu) is None for gpu in gpus):
        raise InputError(f"--gpus {text}: must be numbers of GPUs such as 0,1 (see nvidia-smi)")
    if len(set(gpus)) < len(gpus):
        raise InputError(f"--gpus {text}: a GPU twice; for several workers on each, use --per-gpu")
    return gpus


def choose_device(device: str, gpus: Sequence[str] = ()) -> Choice:
    """Combines `--device` and the requested GPUs to a device.

    Args:
        device: `auto` (the CPU, and requested GPUs for methods that gain from them), `cpu`,
            `cuda`, `hybrid` (train on the GPU, evaluate on the CPU), or with a number, `cuda:N`.
        gpus: Requested GPUs; if empty, `device` decides.

    Raises:
        InputError: The two contradict each other, or `device` is invalid.
    """
    kind, colon, number = device.partition(":")
    numbered = kind in ("cuda", "hybrid") and number.isdecimal()
    if kind not in _KINDS or (colon and not numbered):
        raise InputError(f"--device {device}: must be auto, cpu, cuda, hybrid, or cuda:N")
    asked = tuple(gpus)
    if kind == "cpu" and asked:
        raise InputError("--device cpu: GPUs were requested as well; omit one of the two")
    if number and asked and asked != (number,):
        raise InputError(
            f"--device {device}: other GPUs were requested; use --device {kind} --gpus {number}"
        )
    if kind == "cpu" or (kind == "auto" and not asked):
        return Choice("cpu")
    return Choice(_KINDS[kind], asked or (number or "0",))


def visible_gpus(gpus: Sequence[str], visible: str | None) -> tuple[str, ...]:
    """Translates GPU numbers if CUDA_VISIBLE_DEVICES restricts this process.

    Args:
        gpus: Numbers as torch counts them in this process, or UUIDs.
        visible: CUDA_VISIBLE_DEVICES of this process; `None` if it is not set.

    Returns:
        Value of CUDA_VISIBLE_DEVICES for a process that uses each GPU.

    Raises:
        InputError: A GPU is not among the visible ones.
    """
    if visible is None:
        return tuple(gpus)
    allowed = [name.strip() for name in visible.split(",") if name.strip()]
    try:
        return tuple(allowed[int(gpu)] if gpu.isdigit() else gpu for gpu in gpus)
    except IndexError:
        raise InputError(
            f"--gpus {','.join(gpus)}: CUDA_VISIBLE_DEVICES={visible} leaves "
            f"{len(allowed)} to choose from; GPUs are counted from 0 among those"
        ) from None


def count_workers(jobs: int | None, gpus: Sequence[str], per_gpu: int | None) -> int:
    """Returns the number of runs at a time.

    Args:
        jobs: Value of `--jobs`, which takes precedence; `None` if not given.
        gpus: GPUs in use.
        per_gpu: Value of `--per-gpu`; `None` if not given.

    Raises:
        InputError: `per_gpu` is given without GPUs.
    """
    if per_gpu is not None and not gpus:
        raise InputError(f"--per-gpu {per_gpu}: no GPUs were requested; add --gpus 0")
    return jobs or max(1, len(gpus) * (per_gpu or 1))


def usable_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_threads(threads: int | None, jobs: int) -> int:
    """Returns the number of the simulator's threads in each run on this machine.

    Without a request these are the cores that runs leave idle. Other processes count, because on
    a busy core threads that wait for one another are slower than one thread.

    Args:
        threads: Value of `--threads`; `None` if not given.
        jobs: Number of runs at a time.

    Raises:
        InputError: There are fewer cores.
    """
    cores = usable_cores()
    if threads is None:
        idle = cores - round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else cores
        return max(1, idle // jobs)
    if threads > cores:
        raise InputError(
            f"--threads {threads}: this process may use {cores} cores; choose 1 to {cores}"
        )
    return threads


@dataclass(frozen=True)
class CudaFacts:
    """What torch and the driver report about GPUs.

    Attributes:
        torch: Version of torch.
        built_for: CUDA version that torch was built for; `None` for a CPU build.
        usable: Names of the GPUs that torch can use.
        seen: Number of GPUs that `nvidia-smi` reports; 0 without a driver.
        supports: Highest CUDA version that the driver supports; `None` if unknown.
        why: Error message of torch if it cannot use any GPU.
    """

    torch: str
    built_for: str | None
    usable: tuple[str, ...]
    seen: int
    supports: str | None
    why: str = ""


def find_cuda() -> CudaFacts:
    """Queries torch and `nvidia-smi`."""
    import torch as th

    seen, supports = ask_driver()
    usable: tuple[str, ...] = ()
    why = ""
    try:
        if th.version.cuda is not None:
            th.cuda.init()  # type: ignore[no-untyped-call]
            usable = tuple(th.cuda.get_device_name(n) for n in range(th.cuda.device_count()))
    except Exception as error:  # torch raises many kinds; each explains the problem
        why = one_line(error)
    return CudaFacts(th.__version__, th.version.cuda, usable, seen, supports, why)


def ask_driver() -> tuple[int, str | None]:
    """Returns the number of GPUs of `nvidia-smi` and the highest CUDA version of the driver."""
    listed = re.findall(r"^GPU ", _nvidia_smi("-L"), re.MULTILINE)
    if not listed:
        return 0, None
    version = re.search(r"CUDA[ \w]* Version\s*:\s*(\d+\.\d+)", _nvidia_smi())
    return len(listed), version[1] if version else None


def _nvidia_smi(*arguments: str) -> str:
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    try:
        answer = subprocess.run(
            [command, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SMI_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def explain_cuda(facts: CudaFacts) -> tuple[bool, str]:
    """Describes in one line the device that runs can use.

    Args:
        facts: Facts about GPUs on this machine.

    Returns:
        Whether there is no problem, and the line; for a problem, it includes how to fix it.
    """
    if facts.usable:
        more = f" and {len(facts.usable) - 1} more" if len(facts.usable) > 1 else ""
        support = f", the driver supports up to {facts.supports}" if facts.supports else ""
        build = f"torch {facts.torch} built for CUDA {facts.built_for}"
        return True, f"{facts.usable[0]}{more}: {build}{support}"
    if facts.seen == 0:
        return True, "no GPU: runs use the CPU"
    if facts.built_for is None:
        return True, (
            f"CPU build of torch ({facts.torch}), while nvidia-smi sees a GPU; runs use the CPU: "
            f"for the GPU, install {_fitting_build(facts.supports)}"
        )
    if facts.supports is not None and _version(facts.supports) < _version(facts.built_for):
        return False, (
            f"CUDA: torch {facts.torch} built for CUDA {facts.built_for}, the driver supports up "
            f"to {facts.supports}: install {_fitting_build(facts.supports)}, or a newer driver"
        )
    return False, (
        f"CUDA: torch {facts.torch} built for CUDA {facts.built_for} cannot use the GPU that "
        f"nvidia-smi sees ({facts.why or 'no reason given'}): look at CUDA_VISIBLE_DEVICES and "
        "at the permissions of /dev/nvidia*"
    )


def check_cuda(gpus: Sequence[str], facts: CudaFacts) -> None:
    """Checks, before anything starts, that runs can use the requested GPUs.

    Args:
        gpus: Requested GPUs by number or UUID.
        facts: Facts about GPUs on this machine.

    Raises:
        InputError: Runs cannot use them.
    """
    if not facts.usable:
        line = explain_cuda(facts)[1]
        if facts.seen == 0:
            build = f"built for CUDA {facts.built_for}" if facts.built_for else "a CPU build"
            line = f"neither nvidia-smi nor torch (which is {build}) sees a GPU here"
        raise InputError(f"--device cuda: {line}; or use --device cpu")
    count = len(facts.usable)
    absent = [gpu for gpu in gpus if gpu.isdigit() and int(gpu) >= count]
    if absent:
        raise InputError(
            f"--gpus {','.join(gpus)}: no GPU {absent[0]} here; "
            f"there {'is 1: 0' if count == 1 else f'are {count}: 0 to {count - 1}'}"
        )


def usable_gpus(gpus: Sequence[str]) -> tuple[str, ...]:
    """Checks that this process can use the requested GPUs.

    Args:
        gpus: Requested GPUs by number or UUID; the first one if there are none.

    Returns:
        Value of CUDA_VISIBLE_DEVICES for a process that uses each GPU.

    Raises:
        InputError: It cannot use them.
    """
    asked = tuple(gpus) or ("0",)
    visible = visible_gpus(asked, os.environ.get("CUDA_VISIBLE_DEVICES"))
    check_cuda(asked, find_cuda())
    return visible


def require_device(device: DeviceClass) -> None:
    """Checks in a worker that the run can use the device of its specification.

    Libraries that find no GPU would silently use the CPU instead.

    Raises:
        InputError: The device cannot be used here.
    """
    if device != "cpu":
        import torch as th

        if not th.cuda.is_available():
            raise InputError(f"device {device}: {explain_cuda(find_cuda())[1]}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _fitting_build(supports: str | None) -> str:
    if supports is None:
        return f"a CUDA build of torch, see {_BUILDS}"
    return f"a build for cu{supports.replace('.', '')} or older, see {_BUILDS}"
