"""Options that select runs, for commands that do runs."""

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
        help="Algorithm: name, ./plugin or package.module; repeatable; or 'all'.",
        autocompletion=completion.algorithms_or_all,
    ),
]
Suites = Annotated[
    list[str],
    typer.Option(
        "--suite",
        metavar="NAME",
        help="Name of a suite of environments, or its folder; repeatable.",
        autocompletion=completion.suites,
    ),
]
Seeds = Annotated[
    str,
    typer.Option("--seeds", metavar="N|LIST", help="Number of seeds (3), or a list (0,3,5-9)."),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set a hyper-parameter: NAME=VALUE, or ALGO.NAME=VALUE."
    ),
]
Config = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="default|tuned|FILE",
        help="Hyper-parameters: the card's defaults, tuned per environment, or from a file.",
    ),
]
Budget = Annotated[BudgetName, typer.Option("--budget", help="Amount of training.")]
Demos = Annotated[
    str,
    typer.Option("--n-demos", metavar="N", help="Demonstrations to learn from: 10, or 1,3,all."),
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Source of experts and demonstrations: bundled, hub, path:DIR, or minari:NAME.",
        autocompletion=completion.sources,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print the plan and its expected cost.")
]
