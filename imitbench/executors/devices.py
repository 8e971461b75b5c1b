"""Which processor runs use: the CPU unless GPUs were asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

DeviceClass = Literal["cpu", "cuda"]

_BUILDS = "https://pytorch.org/get-started/previous-versions"
_SMI_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Choice:
    """What runs use.

    Attributes:
        device: What becomes part of their identity.
        gpus: The GPUs, by number or UUID; none for the CPU.
    """

    device: DeviceClass
    gpus: tuple[str, ...] = ()


def parse_gpus(text: str) -> tuple[str, ...]:
    """Reads `--gpus`.

    Args:
        text: Numbers, or UUIDs as `nvidia-smi -L` prints them, with commas between.

    Raises:
        InputError: Neither, or one GPU twice.
    """
    gpus = tuple(part.strip() for part in text.split(","))
    if any(re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", gpu) is None for gpu in gpus):
        raise InputError(f"--gpus {text}: must be numbers of GPUs such as 0,1 (see nvidia-smi)")
    if len(set(gpus)) < len(gpus):
        raise InputError(f"--gpus {text}: a GPU twice; for several workers on each, use --per-gpu")
    return gpus


def choose_device(device: str, gpus: Sequence[str] = ()) -> Choice:
    """Settles what `--device` and a choice of GPUs mean together.

    Args:
        device: `auto` (GPUs if any were asked for, else the CPU), `cpu`, `cuda`, or `cuda:N`.
        gpus: GPUs that were asked for; none leaves it to `device`.

    Raises:
        InputError: The two contradict each other, or there is no such device.
    """
    kind, colon, number = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and (kind != "cuda" or not number.isdigit())):
        raise InputError(f"--device {device}: must be auto, cpu, cuda, or cuda:N")
    asked = tuple(gpus)
    if kind == "cpu" and asked:
        raise InputError("--device cpu: GPUs were asked for as well; leave one of the two out")
    if number and asked and asked != (number,):
        raise InputError(
            f"--device {device}: other GPUs were asked for; use --device cuda --gpus {number}"
        )
    if kind == "cpu" or (kind == "auto" and not asked):
        return Choice("cpu")
    return Choice("cuda", asked or (number or "0",))


def visible_gpus(gpus: Sequence[str], visible: str | None) -> tuple[str, ...]:
    """Translates numbers of GPUs where only some of them may be used.

    Args:
        gpus: Numbers as torch counts them here, or UUIDs.
        visible: CUDA_VISIBLE_DEVICES of this process; `None` where it is not set.

    Returns:
        What to set CUDA_VISIBLE_DEVICES to for a process that uses one of them.

    Raises:
        InputError: One is not among those that may be used.
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


@dataclass(frozen=True)
class CudaFacts:
    """What torch and the driver say about GPUs.

    Attributes:
        torch: Version of torch.
        built_for: CUDA version that torch was built for; `None` for a CPU build.
        usable: Names of the GPUs that torch can use.
        seen: How many GPUs `nvidia-smi` sees; 0 without a driver.
        supports: Highest CUDA version that the driver supports; `None` where unknown.
        why: What torch says when it cannot use any.
    """

    torch: str
    built_for: str | None
    usable: tuple[str, ...]
    seen: int
    supports: str | None
    why: str = ""


def find_cuda() -> CudaFacts:
    """Asks torch and `nvidia-smi`."""
    import torch as th

    seen, supports = ask_driver()
    usable: tuple[str, ...] = ()
    why = ""
    try:
        if th.version.cuda is not None:
            th.cuda.init()  # type: ignore[no-untyped-call]
            usable = tuple(th.cuda.get_device_name(n) for n in range(th.cuda.device_count()))
    except Exception as error:  # torch raises many kinds, and each is the answer sought
        why = one_line(error)
    return CudaFacts(th.__version__, th.version.cuda, usable, seen, supports, why)


def ask_driver() -> tuple[int, str | None]:
    """How many GPUs `nvidia-smi` sees, and the highest CUDA version that the driver supports."""
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
    """Says in one line what runs can use.

    Args:
        facts: What was found.

    Returns:
        Whether that is as it should be, and the line; for a problem, with its fix.
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
    """Makes sure before anything starts that runs can use the GPUs that were asked for.

    Args:
        gpus: The GPUs, by number or UUID.
        facts: What this machine has.

    Raises:
        InputError: They cannot.
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


def require_device(device: DeviceClass) -> None:
    """Makes sure in a worker that a run uses what its identity says.

    Libraries that find no GPU use the CPU instead, without a word.

    Raises:
        InputError: It cannot be used here.
    """
    if device == "cuda":
        import torch as th

        if not th.cuda.is_available():
            raise InputError(f"device cuda: {explain_cuda(find_cuda())[1]}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _fitting_build(supports: str | None) -> str:
    if supports is None:
        return f"a CUDA build of torch, see {_BUILDS}"
    return f"a build for cu{supports.replace('.', '')} or older, see {_BUILDS}"
