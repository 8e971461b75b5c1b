"""Options that several commands share, so that they are spelled and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cards.suite import BudgetName

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Results folder.", file_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Suite = Annotated[str, typer.Option("--suite", metavar="NAME", help="Suite of environments.")]
Env = Annotated[
    str | None,
    typer.Option("--env", metavar="GLOB", help="Environments by id, e.g. 'seals/*' [all]."),
]

DEFAULT_LOCK = Path("imitbench-hub.lock")
Lock = Annotated[
    Path, typer.Option("--lock", metavar="FILE", help="Lock file of the hub.", dir_okay=False)
]
NamedLock = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        metavar="FILE",
        help=f"Lock file of the hub [{DEFAULT_LOCK}, if it is there].",
        dir_okay=False,
    ),
]

# What is run.
Algo = Annotated[
    list[str], typer.Option("--algo", metavar="NAME", help="Algorithm; repeatable; or 'all'.")
]
Seeds = Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,3,5-9).")]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Hyper-parameter, or ALGO.NAME=VALUE."),
]
Budget = Annotated[BudgetName, typer.Option("--budget", help="How much training.")]
NDemos = Annotated[
    int | None, typer.Option("--n-demos", help="Demonstrations to learn from [all].")
]
Source = Annotated[
    str, typer.Option("--source", help="Experts and demos: bundled, hub, path:DIR, or minari:NAME.")
]

# How it is run, which changes no number.
Executor = Annotated[
    str, typer.Option("--executor", help="Where runs are done: local, slurm or inline.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time.")]
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

DEFAULT_OUT = Path("runs")
DEFAULT_SUITE = "classic"
DEFAULT_MIN_TASK_MINUTES = 5.0
