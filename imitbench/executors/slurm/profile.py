"""A cluster's profile (a YAML file): resources and environment of tasks."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from imitbench.cards.yaml_file import read_yaml_model
from imitbench.records.runs import Record

_TIME = re.compile(
    r"(?:(?P<days>\d+)-(?P<day_hours>\d+)(?::(?P<day_minutes>\d+)(?::(?P<day_seconds>\d+))?)?)"
    r"|(?:(?P<hours>\d+):(?P<hour_minutes>\d+):(?P<hour_seconds>\d+))"
    r"|(?:(?P<minutes>\d+)(?::(?P<seconds>\d+))?)"
)
_SHOWN = ("partition", "account", "qos", "constraint", "time", "cpus_per_task", "mem")
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[MGT])")
_MEBIBYTES = {"M": 1, "G": 2**10, "T": 2**20}
# Profiles are shared between users; no value may start another line of the script.
_LINE = r"^[^\n\r\x00]*$"
_Line = Annotated[str, Field(pattern=_LINE)]
_Word = Annotated[str, Field(pattern=r"^[^\s\x00]+$")]


def _as_time(value: Any) -> Any:
    if isinstance(value, int):
        raise ValueError("write it in quotes, as in '4:00:00' (YAML reads it as a number)")
    if isinstance(value, str) and not (_TIME.fullmatch(value) and _minutes(value)):
        raise ValueError("must be a time such as '4:00:00', '1-12:00:00', or '90' in minutes")
    return value


def _as_memory(value: Any) -> Any:
    if not (isinstance(value, str) and _MEMORY.fullmatch(value)):
        raise ValueError("must be an amount such as 800M, 16G or 1.5T")
    return value


class Container(Record):
    """Image that tasks run in; imitbench must be installed in it.

    Attributes:
        image: File or address of the image, in the form that the runtime accepts.
        runtime: `apptainer` or `singularity` (started within the task), or `pyxis` (a SLURM
            plug-in with the option `--container-image`).
        options: Further options of the runtime, such as `--bind /data`.
        python: Command of the interpreter in the image.
    """

    image: _Line
    runtime: Literal["apptainer", "singularity", "pyxis"] = "apptainer"
    options: list[_Line] = Field(default_factory=list)
    python: _Word = "python3"


class Profile(Record):
    """Resources that one task of a job array requests, and its environment.

    Attributes:
        partition: Partition; the cluster's default if `None`, also for the next three.
        account: Account that is charged.
        qos: Quality of service.
        constraint: Features that a node must have.
        time: Time limit of a task, in SLURM's format. Runs that are incomplete by then are saved,
            and the task is requeued.
        cpus: Number of cores of a task.
        mem: Memory of a task, for example `16G`.
        gpus: Number of GPUs of a task.
        gpu_type: Type of the GPUs, if it matters.
        workers: Number of parallel runs in a task, which share its cores, memory and GPUs.
        array_parallelism: Maximum number of tasks of an array at a time.
        signal_before_s: Seconds before the time limit at which a task saves its runs.
        max_requeues: Maximum number of requeues of a task.
        setup: Shell commands before a task, such as `module load cuda`.
        environment: Environment variables of a task.
        container: Image that a task runs in; `None` for none.
        extra: Further options of `sbatch`, without their dashes.
    """

    partition: _Word | None = None
    account: _Word | None = None
    qos: _Word | None = None
    constraint: _Line | None = None
    time: Annotated[str, BeforeValidator(_as_time)] = "4:00:00"
    cpus: int = Field(default=1, ge=1)
    mem: Annotated[str, BeforeValidator(_as_memory)] | None = None
    gpus: int = Field(default=0, ge=0)
    gpu_type: _Word | None = None
    workers: int = Field(default=1, ge=1)
    array_parallelism: int = Field(default=256, ge=1)
    signal_before_s: int = Field(default=120, ge=1)
    max_requeues: int = Field(default=20, ge=0)
    setup: list[_Line] = Field(default_factory=list)
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str] = Field(
        default_factory=dict
    )
    container: Container | None = None
    extra: dict[Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")], _Line | int | bool] = Field(
        default_factory=dict
    )

    @property
    def minutes(self) -> int:
        """The time limit in minutes, rounded up."""
        return _minutes(self.time)

    def python(self, default: str) -> str:
        """Returns the shell command of the interpreter that runs a task.

        Args:
            default: Path of the interpreter without a container.
        """
        container = self.container
        if container is None:
            return shlex.quote(default)
        if container.runtime == "pyxis":
            return shlex.quote(container.python)
        options = " ".join(container.options)
        parts = [container.runtime, "exec", *(["--nv"] if self.gpus else []), options]
        return " ".join([*filter(None, parts), shlex.quote(container.image), container.python])

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of submitit's executor, by its names."""
        given = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "time": self.minutes,
            "cpus_per_task": self.cpus,
            "array_parallelism": self.array_parallelism,
            "signal_delay_s": self.signal_before_s,
            "mem": _memory(self.mem) if self.mem else None,
            "srun_args": self._srun_options() or None,
            "setup": self._setup() or None,
            # Overrides the cluster's default, so that a task that lost its node starts again.
            "additional_parameters": {"requeue": True, **self._gpus(), **self.extra},
        }
        return {name: value for name, value in given.items() if value is not None}

    def sbatch_options(self) -> dict[str, str]:
        """Returns the parameters as options of `sbatch`, with the environment, for display."""
        given = self.parameters()
        shown = {name: given[name] for name in _SHOWN if name in given}
        shown |= given["additional_parameters"]
        options = {
            f"--{name.replace('_', '-')}": "" if value is True else str(value)
            for name, value in shown.items()
        }
        options["--signal"] = f"USR2@{self.signal_before_s}"
        if self.workers > 1:
            options["workers"] = str(self.workers)
        for number, line in enumerate(given.get("setup", ()), start=1):
            options[f"setup {number}"] = line
        if self.container is not None:
            options["python"] = self.python("")
        return options

    def _gpus(self) -> dict[str, str]:
        if not self.gpus:
            return {}
        return {"gres": ":".join(filter(None, ["gpu", self.gpu_type, str(self.gpus)]))}

    def _setup(self) -> list[str]:
        exports = [f"export {name}={shlex.quote(v)}" for name, v in self.environment.items()]
        return [*exports, *self.setup]

    def _srun_options(self) -> list[str]:
        container = self.container
        if container is None or container.runtime != "pyxis":
            return []
        return [f"--container-image={container.image}", *container.options]


def read_profile(path: Path) -> Profile:
    """Reads a profile.

    Raises:
        InputError: The file cannot be read, or a value is invalid; the message says where.
    """
    return read_yaml_model(path, Profile)


def _minutes(text: str) -> int:
    """Returns the minutes of a time limit, rounded up."""
    match = _TIME.fullmatch(text)
    assert match is not None
    part = {name: int(value or 0) for name, value in match.groupdict().items()}
    seconds = (
        86400 * part["days"]
        + 3600 * (part["day_hours"] + part["hours"])
        + 60 * (part["day_minutes"] + part["hour_minutes"] + part["minutes"])
        + (part["day_seconds"] + part["hour_seconds"] + part["seconds"])
    )
    return math.ceil(seconds / 60)


def _memory(text: str) -> str:
    """Converts an amount of memory for SLURM, which accepts only whole numbers."""
    match = _MEMORY.fullmatch(text)
    assert match is not None
    return f"{math.ceil(float(match['number']) * _MEBIBYTES[match['unit']])}M"
