"""Options of `imitbench tune`: what is searched, and how it is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ObjectiveName = Literal[
    "return", "demo-likelihood", "discriminator", "episode-length", "state-match"
]

Algo = Annotated[str | None, typer.Option("--algo", metavar="NAME", help="Algorithm to tune.")]
PerOption = Annotated[
    Literal["environment", "suite"],
    typer.Option("--per", help="What gets values of its own; suite: the same everywhere."),
]
Trials = Annotated[
    int, typer.Option("--trials", min=1, help="Trials of each environment or suite, all in all.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Trials at a time [1, or 8 in a scheduler's queue]."),
]
Objective = Annotated[
    ObjectiveName, typer.Option("--objective", help="What to maximize; return uses the reward.")
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Of the tuning [ALGO-SUITE].")
]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="Where to write tuned values.", dir_okay=False),
]
KeepAnyway = Annotated[
    bool, typer.Option("--keep-anyway", help="Write values that do not beat the default, too.")
]
Best = Annotated[
    int, typer.Option("--best", min=1, help="Best trials that compete with the default.")
]
SearchSeeds = Annotated[
    str, typer.Option("--search-seeds", metavar="SEEDS", help="Seeds of each trial.")
]
HeldOutSeeds = Annotated[
    str, typer.Option("--held-out-seeds", metavar="SEEDS", help="Seeds of the contest.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the proposals.")]
Points = Annotated[
    int,
    typer.Option("--points", min=1, help="Parts of the budget; each is measured."),
]
Prune = Annotated[bool, typer.Option("--prune/--no-prune", help="Give up what does badly.")]
Storage = Annotated[
    Literal["auto", "sqlite", "journal"],
    typer.Option(
        "--storage",
        help="File of the study; auto: journal if jobs run on other machines, else sqlite.",
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Print what there is, and run nothing.")]
