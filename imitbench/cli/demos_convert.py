"""`imitbench demos convert`: any set of demonstrations in the layout of the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.errors import InputError

if TYPE_CHECKING:
    import gymnasium as gym

    from imitbench.data.trajectory_source import TrajectorySource

Trust = Annotated[
    bool,
    typer.Option("--trust", help="Open pickles, which can run any program: trust their maker."),
]
OneEnv = Annotated[
    str | None,
    typer.Option("--env", metavar="ID", help="Environment whose spaces the set must fit."),
]


def convert(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[IN] OUT",
            help="What to read (a folder, .parquet, .arrow, .npz, a pickle, a bundled set or "
            "minari:NAME), and the folder to make.",
            show_default=False,
        ),
    ],
    env: OneEnv = None,
    suite: options.SuiteOfEnv = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="minari:NAME", help="Read this set of Minari, not IN."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="First N trajectories [all].")
    ] = None,
    float32: Annotated[
        bool,
        typer.Option("--float32", help="Store float64 as float32 where it moves by at most 1e-6."),
    ] = False,
    infos: Annotated[bool, typer.Option(help="Keep the infos, as text.")] = True,
    trust: Trust = False,
    download: Annotated[
        bool, typer.Option("--download", help="Let Minari download a set that is missing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the data set folder OUT.")
    ] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write demonstrations of any format as the hub has them: parquet files and a card.

    Example: imitbench demos convert rollouts/final.npz demos/CartPole --env CartPole-v1
    """
    from imitbench.cli.output import note, print_json
    from imitbench.data.conversion import convert_demonstrations

    wanted, target = _read_places(places, source)
    opened = open_set(wanted, trust=trust, download=download)
    environment_id = env or getattr(opened, "environment_id", None)
    with environment_of(env, suite) as environment, progress(quiet=quiet) as report:
        summary = convert_demonstrations(
            opened,
            target,
            environment=environment,
            environment_id=environment_id,
            limit=limit,
            float32=float32,
            with_infos=infos,
            replace=force,
            progress=report,
        )
    if json:
        print_json({"directory": str(target), **summary.to_json()})
    for text in summary.notes:
        note(f"note: {text}")
    if not quiet:
        note(
            f"{target}: {summary.rows} trajectories, {summary.steps} steps, "
            f"{summary.files} files, {summary.bytes:,} bytes"
        )


def open_set(name: str, *, trust: bool, download: bool = False) -> TrajectorySource:
    """Opens what a person named: a path, a bundled set, or `minari:NAME`.

    Raises:
        InputError: Nothing of the kind, or it cannot be read.
    """
    import warnings

    from imitbench.cli.output import note
    from imitbench.data.minari_source import PREFIX, MinariSource
    from imitbench.data.sources import open_trajectories
    from imitbench.experts.catalog import find_demos

    if name.startswith(PREFIX):
        return MinariSource(name.removeprefix(PREFIX), download=download)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        opened = open_trajectories(find_demos(name), trust=trust)
    for warning in caught:
        note(f"note: {warning.message}")
    return opened


@contextmanager
def environment_of(env_id: str | None, suite: str | None) -> Iterator[gym.Env[Any, Any] | None]:
    """Makes the environment that a person named, of the named suite if any; or none."""
    from imitbench.experts.catalog import find_environment_if_named

    found = find_environment_if_named(env_id, suite)
    if found is None:
        yield None
        return
    from imitbench.bench.environments import make_environment

    environment = make_environment(found)
    try:
        yield environment
    finally:
        environment.close()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr for people; a log gets the line at the end only."""
    import os

    from imitbench.cli.output import on_terminal

    if quiet or not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True, no_color="NO_COLOR" in os.environ)
    columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _read_places(places: list[str], source: str | None) -> tuple[str, Path]:
    if source is not None and not source.startswith("minari:"):
        raise InputError(f"--source {source}: must be minari:NAME; name files as IN instead")
    needed = 1 if source is not None else 2
    if len(places) != needed:
        names = "OUT alone" if source is not None else "IN and OUT"
        raise InputError(
            f"demos convert: got {len(places)} names, expected {names}; "
            "e.g. imitbench demos convert rollouts.npz demos/CartPole"
        )
    return source or places[0], Path(places[-1])
