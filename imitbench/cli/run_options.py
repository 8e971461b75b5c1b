"""Options that select runs, for commands that do runs."""

from __future__ import annotations

from typing import Annotated, Literal

from imitbench.cards.budgets import parse_budget
from imitbench.cli import completion
from imitbench.cli.options import option

Algo = Annotated[
    list[str],
    option(
        "--algo",
        "Algorithm: name, ./plugin or package.module; repeatable; or 'all'.",
        "NAME",
        completion.algorithms_or_all,
    ),
]
Suites = Annotated[
    list[str],
    option(
        "--suite",
        "Name of a suite of environments, or its folder; repeatable.",
        "NAME",
        completion.suites,
    ),
]
Seeds = Annotated[str, option("--seeds", "Number of seeds (3), or a list (0,3,5-9).", "N|LIST")]
Set = Annotated[
    list[str],
    option("--set", "Set a hyper-parameter: NAME=VALUE, or ALGO.NAME=VALUE.", "NAME=VALUE"),
]
Config = Annotated[
    str,
    option(
        "--config",
        "Hyper-parameters: the card's defaults, tuned per environment, or from a file.",
        "default|tuned|FILE",
    ),
]
Budget = Annotated[
    str,
    option(
        "--budget",
        "Amount of training: quick, default, full, or a part of one, such as default/10.",
        "NAME",
        complete=completion.budgets,
        parser=parse_budget,
    ),
]
Demos = Annotated[
    str | None, option("--n-demos", "Demonstrations to learn from: 10, or 1,3,all.", "N")
]
DemoEvery = Annotated[
    int | None, option("--demo-every", "Keep one step out of N of each demonstration.", "N")
]
Regime = Annotated[
    str | None,
    option(
        "--regime", "Regime of the suite: what methods see, such as full, few or mixed.", "NAME"
    ),
]
Actions = Annotated[
    Literal["shown", "hidden"] | None,
    option("--actions", "Hide the demonstrations' actions, or show them against the regime."),
]
MixtureOption = Annotated[
    str | None,
    option(
        "--mixture",
        "Trajectories of other sets besides, e.g. medium:10,random:10; NAME=FILE:N or "
        "NAME=minari:SET:N for sets of your own.",
        "SET:N,...",
    ),
]
Source = Annotated[
    str,
    option(
        "--source",
        "Source of experts and demonstrations: bundled, hub, path:DIR, minari (sets on the "
        "suite's card), or minari:NAME.",
        "SOURCE",
        completion.sources,
    ),
]
DryRun = Annotated[bool, option("--dry-run", "Only print the plan and its expected cost.")]
