"""Options that several commands share, so that names and help texts are the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from imitbench import api
from imitbench.cli import completion
from imitbench.hub import DEFAULT_LOCK as DEFAULT_LOCK

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Results folder.", file_okay=False)]
Places = Annotated[
    list[str],
    typer.Option(
        "--out",
        metavar="DIR",
        help="Results folder, or a folder of published results, or 'published'; repeatable.",
        autocompletion=completion.results_places,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress on stderr.")]
WithoutCurves = Annotated[
    bool, typer.Option("--without-curves", help="Leave out the learning curves.")
]
Suite = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="NAME",
        help="Name of a suite of environments, or its folder.",
        autocompletion=completion.suites,
    ),
]
Env = Annotated[
    list[str],
    typer.Option(
        "--env",
        metavar="GLOB",
        help="Ids of environments, as a glob, e.g. 'seals/*'; repeatable [all].",
        autocompletion=completion.environments,
    ),
]

Lock = Annotated[
    Path, typer.Option("--lock", metavar="FILE", help="Lock file with hub commits.", dir_okay=False)
]
NamedLock = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        metavar="FILE",
        help=f"Lock file with hub commits [{DEFAULT_LOCK}, if it exists].",
        dir_okay=False,
    ),
]

Suites = Annotated[
    list[str],
    typer.Option(
        "--suite",
        metavar="NAME",
        help="Only these suites; repeatable [all].",
        autocompletion=completion.suites,
    ),
]
Envs = Annotated[
    list[str],
    typer.Option(
        "--env",
        metavar="GLOB",
        help="Only these environments, e.g. 'seals/*'; repeatable [all].",
        autocompletion=completion.environments,
    ),
]
Algos = Annotated[
    list[str],
    typer.Option(
        "--algo",
        metavar="GLOB",
        help="Only these algorithms, e.g. 'gail*'; repeatable [all].",
        autocompletion=completion.algorithms,
    ),
]
OneSuite = Annotated[
    str | None,
    typer.Option(
        "--suite", metavar="NAME", help="Name of a suite [all].", autocompletion=completion.suites
    ),
]

SuiteOfEnv = Annotated[
    str | None,
    typer.Option(
        "--suite",
        metavar="NAME",
        help="Suite of --env, or its folder [the first suite that has it].",
        autocompletion=completion.suites,
    ),
]

FailedRuns = Annotated[
    Literal["exclude", "count-as-random"],
    typer.Option("--failed-runs", help="How failed runs count."),
]
DEFAULT_REPLICATES, MOST_REPLICATES = 50_000, 1_000_000
Replicates = Annotated[
    int,
    typer.Option(
        "--replicates", min=100, max=MOST_REPLICATES, help="Number of bootstrap replicates."
    ),
]

DEFAULT_OUT = Path(api.DEFAULT_OUT)
DEFAULT_PLACES = [api.DEFAULT_OUT]
DEFAULT_SUITE = "classic"


def command_group(help: str, **settings: Any) -> typer.Typer:
    """Returns a group of commands, which shows its help if none is named."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=help, **settings)
