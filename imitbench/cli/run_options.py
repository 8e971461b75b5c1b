"""Options of commands that do runs: what to run."""

from __future__ import annotations

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
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and its expected cost only.")
]
