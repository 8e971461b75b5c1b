"""Options that several commands share, so that names and help texts are the same everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from imitbench import api
from imitbench.cli import completion
from imitbench.errors import InputError
from imitbench.hub import DEFAULT_LOCK as DEFAULT_LOCK
from imitbench.records.selection import ActingChoice

_Format = TypeVar("_Format", bound=str)


def option(
    flags: str,
    help: str,
    metavar: str | None = None,
    complete: Callable[..., Any] | None = None,
    **settings: Any,
) -> Any:
    """Returns an option, for the annotation of a parameter.

    Args:
        flags: Its names, such as `--jobs -j`.
        help: One line.
        metavar: Placeholder of the value in the help.
        complete: Completes values in the shell.
        **settings: As for `typer.Option`.
    """
    names = flags.split()
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=complete, **settings)


def argument(
    metavar: str, help: str, complete: Callable[..., Any] | None = None, **settings: Any
) -> Any:
    """Returns an argument, for the annotation of a parameter; see `option`."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete, **settings)


def command_group(help: str, **settings: Any) -> typer.Typer:
    """Returns a group of commands, which shows its help if none is named."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=help, **settings)


def typed_options(context: typer.Context) -> dict[str, str]:
    """Returns the options that the user typed, as flags by the names of their parameters.

    Args:
        context: Context of the command; values that are defaults were not typed.
    """
    typed = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        # By name: versions of the library have classes of their own.
        if parameter.param_type_name == "option" and source and source.name == "COMMANDLINE":
            typed[str(parameter.name)] = parameter.opts[0]
    return typed


def is_alone(context: typer.Context) -> bool:
    """Whether a group of commands, which does something by itself, was called without a command.

    Args:
        context: Context of the group.

    Raises:
        InputError: There is a command, and options of the group, which it would not get.
    """
    name = context.invoked_subcommand
    if name is None:
        return True
    group: Any = context.command
    command = group.commands[name]
    called = f"imitbench {context.info_name} {name}"
    known = {flag for own in command.params for flag in own.opts}
    for parameter, flag in typed_options(context).items():
        value = context.params[parameter]
        given = value[0] if isinstance(value, list) else value
        typed = flag if given is True else f"{flag} {shlex.quote(str(given))}"
        if flag not in known:
            raise InputError(f"{typed}: `{called}` has no such option; leave it out")
        metavars = [own.metavar for own in command.params if own.param_type_name == "argument"]
        line = " ".join([called, *metavars, typed])
        raise InputError(f"{typed}: give it after the command: {line}")
    return False


def chosen_format(format: _Format | None, *, json: bool) -> _Format | Literal["json"] | None:
    """Returns the format that the user asked for by --format or --json; `None` by neither.

    Args:
        format: Value of --format.
        json: Whether --json is given.

    Raises:
        InputError: They contradict each other.
    """
    if json and format not in (None, "json"):
        raise InputError(f"--format {format}: contradicts --json; leave one of them out")
    return "json" if json else format


Out = Annotated[Path, option("--out", "Results folder.", "DIR", file_okay=False)]
Results = Annotated[
    list[str],
    option(
        "--out",
        "Results folder, or a folder of published results, or 'published'; repeatable.",
        "DIR",
        completion.results_locations,
    ),
]
Json = Annotated[bool, option("--json", "Print one JSON document on stdout.")]
Quiet = Annotated[bool, option("--quiet -q", "Print no progress on stderr.")]
WithoutCurves = Annotated[bool, option("--without-curves", "Leave out the learning curves.")]
Suite = Annotated[
    str,
    option("--suite", "Name of a suite of environments, or its folder.", "NAME", completion.suites),
]
Env = Annotated[
    list[str],
    option(
        "--env",
        "Ids of environments, as a glob, e.g. 'seals/*' or 'Ant-*'; repeatable [all].",
        "GLOB",
        completion.environments,
    ),
]

Lock = Annotated[Path, option("--lock", "Lock file with hub commits.", "FILE", dir_okay=False)]
NamedLock = Annotated[
    Path | None,
    option(
        "--lock",
        f"Lock file with hub commits [{DEFAULT_LOCK}, if it exists].",
        "FILE",
        dir_okay=False,
    ),
]

Suites = Annotated[
    list[str], option("--suite", "Only these suites; repeatable [all].", "NAME", completion.suites)
]
Envs = Annotated[
    list[str],
    option(
        "--env",
        "Only these environments, e.g. 'seals/*' or 'Ant-*'; repeatable [all].",
        "GLOB",
        completion.environments,
    ),
]
Algos = Annotated[
    list[str],
    option(
        "--algo",
        "Only these algorithms, e.g. 'gail*'; repeatable [all].",
        "GLOB",
        completion.algorithms,
    ),
]
OneSuite = Annotated[
    str | None, option("--suite", "Name of a suite [all].", "NAME", completion.suites)
]

SuiteOfEnv = Annotated[
    str | None,
    option(
        "--suite",
        "Suite of --env, or its folder [the first suite that has it].",
        "NAME",
        completion.suites,
    ),
]

FailedRuns = Annotated[
    Literal["exclude", "count-as-random"], option("--failed-runs", "How failed runs count.")
]
Acting = Annotated[
    ActingChoice | None,
    option(
        "--acting",
        "How policies act: sampled actions, the most likely ones, or both "
        "[both where the expert is measured in both ways].",
    ),
]
DEFAULT_REPLICATES, MOST_REPLICATES = 50_000, 1_000_000
Replicates = Annotated[
    int, option("--replicates", "Number of bootstrap replicates.", min=100, max=MOST_REPLICATES)
]

DEFAULT_OUT = Path(api.DEFAULT_OUT)
DEFAULT_RESULTS = [api.DEFAULT_OUT]
DEFAULT_SUITE = "classic"
