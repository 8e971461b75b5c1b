"""Options of commands that do runs: what to run, and how it is carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cards.suite import BudgetName
from imitbench.cli import completion

Algo = Annotated[
    list[str],
    typer.Option(
        "--algo",
        metavar="NAME",
        help="Name, ./plugin or package.module; repeatable; or 'all'.",
        autocompletion=completion.algorithms_or_all,
    ),
]
Seeds = Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,3,5-9).")]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Hyper-parameter, or ALGO.NAME=VALUE."),
]
Config = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="default|tuned|FILE",
        help="Hyper-parameters of the card, or tuned for each environment, or those of a file.",
    ),
]
Budget = Annotated[BudgetName, typer.Option("--budget", help="How much training.")]
Demos = Annotated[
    str,
    typer.Option("--n-demos", metavar="N", help="Demonstrations to learn from: 10, or 1,3,all."),
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        help="Experts and demos: bundled, hub, path:DIR, or minari:NAME.",
        autocompletion=completion.sources,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at a time [1, or as many as GPUs take]."),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Where runs are done: local, slurm or inline.",
        autocompletion=completion.executors,
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
Device = Annotated[
    str,
    typer.Option(
        "--device",
        help="auto (GPUs if asked for, else cpu), cpu, cuda or cuda:N.",
        autocompletion=completion.devices,
    ),
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
