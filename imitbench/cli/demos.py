"""`imitbench demos`: lists, collects, fetches, converts, exports, checks, shows demonstrations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    note,
    print_json,
    print_table,
    print_text,
    progress_bar,
    typed_command,
)
from imitbench.cli.pull import pull_demos
from imitbench.cli.push import push_demos
from imitbench.errors import InputError, did_you_mean
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    import gymnasium as gym

    from imitbench.data.trajectory_source import TrajectorySource
    from imitbench.data.types import TrajectoryWithRew


Trust = Annotated[bool, option("--trust", "Read pickles: this executes code in the file.")]
Observation = Annotated[
    list[str] | None,
    option(
        "--obs",
        "Recording that is part of the observation, in HDF5 and LeRobot; repeatable, in order "
        "[all of flat numbers].",
        "NAME",
    ),
]
Rename = Annotated[
    list[str] | None,
    option(
        "--rename",
        "Name of an array in .npz or HDF5, and what it is, e.g. observations=obs; repeatable.",
        "NAME=NAME",
    ),
]
Limit = Annotated[
    int | None, option("--limit", "Only read the first N trajectories [all].", "N", min=1)
]
OneEnv = Annotated[str | None, option("--env", "Environment whose spaces the set must fit.", "ID")]


def convert(
    names: Annotated[
        list[str],
        argument(
            "[IN] OUT",
            "Set to read (a folder, .parquet, .arrow, .npz, .csv, .jsonl, .hdf5, a pickle, a "
            "bundled set or minari:NAME), and folder to write.",
            show_default=False,
        ),
    ],
    env: OneEnv = None,
    suite: options.SuiteOfEnv = None,
    source: Annotated[
        str | None, option("--source", "Read this Minari set instead of IN.", "minari:NAME")
    ] = None,
    limit: Limit = None,
    float32: Annotated[
        bool, option("--float32", "Store float64 as float32 where the error is at most 1e-6.")
    ] = False,
    infos: Annotated[bool, typer.Option(help="Keep infos, as JSON text.")] = True,
    obs: Observation = None,
    rename: Rename = None,
    trust: Trust = False,
    download: Annotated[bool, option("--download", "Let Minari download a missing set.")] = False,
    force: Annotated[bool, option("--force", "Replace an existing data set folder OUT.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Convert demonstrations of any format to the hub's layout: parquet files and a card.

    Example: imitbench demos convert rollouts/final.npz demos/CartPole --env CartPole-v1
    """
    from imitbench.data.conversion import convert_demonstrations

    wanted, target = _input_and_output(names, source)
    opened = open_set(
        wanted, trust=trust, download=download, obs=obs or (), rename=rename or (), limit=limit
    )
    environment_id = env or getattr(opened, "environment_id", None)
    with (
        environment_of(env, suite) as environment,
        progress_bar("trajectories", quiet=quiet) as report,
    ):
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


def export(
    source: Annotated[str, argument("IN", "Set to read, as IN of `imitbench demos convert`.")],
    target: Annotated[Path, argument("OUT", "File to write: .jsonl or .csv.", dir_okay=True)],
    limit: Limit = None,
    obs: Observation = None,
    rename: Rename = None,
    trust: Trust = False,
    force: Annotated[bool, option("--force", "Replace an existing file OUT.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write demonstrations as text for programs in other languages.

    JSON lines have one episode per line; CSV has one step per line.

    Example: imitbench demos export ppo-seals-CartPole-v0 cartpole.jsonl --limit 10
    """
    from imitbench.data.conversion import export_demonstrations

    opened = open_set(source, trust=trust, obs=obs or (), rename=rename or (), limit=limit)
    with progress_bar("trajectories", quiet=quiet) as report:
        summary = export_demonstrations(opened, target, limit=limit, replace=force, progress=report)
    if json:
        print_json({"file": str(target), **vars(summary)})
    for text in opened.notes:
        note(f"note: {text}")
    if not quiet:
        note(
            f"{target}: {summary.rows} trajectories, {summary.steps} steps, {summary.bytes:,} bytes"
        )


def open_set(
    name: str,
    *,
    trust: bool,
    download: bool = False,
    obs: Sequence[str] = (),
    rename: Sequence[str] = (),
    limit: int | None = None,
) -> TrajectorySource:
    """Opens a set of demonstrations by path, name of a bundled set, or `minari:NAME`.

    Args:
        name: What the user typed.
        trust: Whether to open pickles.
        download: Whether Minari may download a missing set.
        obs: Recordings that are the observation, in formats that have several.
        rename: Values of `--rename`; see `open_trajectories`.
        limit: How many trajectories will be read; `None` for all.

    Raises:
        InputError: There is no such set, or it cannot be read.
    """
    from imitbench.data.minari_source import PREFIX, MinariSource
    from imitbench.data.sources import open_trajectories
    from imitbench.experts.lookup import find_demos
    from imitbench.untrusted import gate

    if name.startswith(PREFIX):
        if obs:
            raise InputError(f"--obs {obs[0]}: {name} has a single observation; leave --obs out")
        if rename:
            raise InputError(f"--rename: {name} has its own names; leave --rename out")
        return MinariSource(name.removeprefix(PREFIX), download=download)
    open_untrusted = partial(open_trajectories, obs=obs, rename=_choices(rename))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        path = find_demos(name)
        if not trust:  # a pickle would be executed, also in a process with limits
            gate.try_reading(lambda: _read_all(open_untrusted(path), limit), path)
        opened = open_untrusted(path, trust=trust)
    for warning in caught:
        note(f"note: {warning.message}")
    return opened


def _choices(rename: Sequence[str]) -> dict[str, str]:
    """Reads `--rename`."""
    found = {}
    for given in rename:
        name, equals, wanted = given.partition("=")
        if not (name and equals and wanted):
            raise InputError(f"--rename {given}: must be NAME=NAME, such as observations=obs")
        found[name] = wanted
    return found


def _read_all(opened: TrajectorySource, limit: int | None) -> None:
    """Reads a set without checking its rows, which is done row by row later."""
    for _ in opened.chunks(with_infos=True, limit=limit):
        pass


@contextmanager
def environment_of(env_id: str | None, suite: str | None) -> Iterator[gym.Env[Any, Any] | None]:
    """Makes an environment by id, from the given suite if any; yields None without an id."""
    from imitbench.experts.lookup import find_environment_if_named

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


def _input_and_output(names: list[str], source: str | None) -> tuple[str, Path]:
    if source is not None and not source.startswith("minari:"):
        raise InputError(f"--source {source}: must be minari:NAME; name files as IN instead")
    needed = 1 if source is not None else 2
    if len(names) != needed:
        expected = "OUT alone" if source is not None else "IN and OUT"
        raise InputError(
            f"demos convert: got {len(names)} names, expected {expected}; "
            "e.g. imitbench demos convert rollouts.npz demos/CartPole"
        )
    return source or names[0], Path(names[-1])


_SHOWN = 20


def validate(
    path: Annotated[str, argument("PATH", "Set to check, as IN of `imitbench demos convert`.")],
    env: OneEnv = None,
    suite: options.SuiteOfEnv = None,
    limit: Limit = None,
    strict: Annotated[
        bool, option("--strict", "Count notes as problems, e.g. values out of bounds.")
    ] = False,
    obs: Observation = None,
    rename: Rename = None,
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Check demonstrations and list every wrong row; exit code 1 if there is one.

    Example: imitbench demos validate ppo-seals-CartPole-v0 --env seals/CartPole-v0
    """
    from imitbench.data.inspection import inspect_demonstrations

    opened = open_set(path, trust=trust, obs=obs or (), rename=rename or ())
    with environment_of(env, suite) as environment:
        found = inspect_demonstrations(opened, environment=environment, limit=limit)
    bad = bool(found.problems or (strict and found.notes))
    if json:
        print_json({"valid": not bad, **found.to_json()})
    else:
        for problem in found.problems[:_SHOWN]:
            typer.echo(problem)
        if len(found.problems) > _SHOWN:
            typer.echo(f"and {len(found.problems) - _SHOWN} more problems")
        for text in found.notes:
            note(f"note: {text}")
        verdict = f"{len(found.problems)} problems" if found.problems else "no problems"
        note(
            f"{found.where} ({found.form}): {found.rows} trajectories, {found.steps} steps, "
            f"{verdict}"
        )
    if bad:
        raise typer.Exit(1)


app = options.command_group("List, collect, fetch, convert, export, check and show demonstrations.")
app.command("pull")(pull_demos)
app.command("push")(push_demos)
app.command("convert")(convert)
app.command("export")(export)
app.command("validate")(validate)


@app.command("list")
def list_demos(
    suite: options.OneSuite = None,
    json: options.Json = False,
) -> None:
    """List the sets of demonstrations of the suites.

    Example: imitbench demos list --suite classic
    """
    from imitbench.experts.lookup import ListedEnvironment, suites_of

    rows, elsewhere = [], {}
    for found in suites_of(suite):
        for env_id, card in found.environments.items():
            size = 0
            if card.demos.package is None:
                data = ListedEnvironment(found, env_id, card).demos / "data"
                size = sum(path.stat().st_size for path in data.glob("*.parquet"))
            else:  # to make it takes a while, and needs the package of an extra
                elsewhere[found.name] = "made by the first run that needs them"
            if not size and card.minari is not None:
                command = f"imitbench prefetch --suite {found.name} --source minari"
                elsewhere[found.name] = f"not bundled; `{command}` fetches them"
            rows.append(
                {
                    "suite": found.name,
                    "env": env_id,
                    "repo": card.demos.repo,
                    "trajectories": card.demos.trajectories,
                    "bytes": size or None,
                }
            )
    if json:
        print_json(rows)
        return
    print_table(
        [
            TextColumn("suite", rank=1, above=True),
            "environment",
            TextColumn("demonstrations", rank=1),
            "trajectories",
            TextColumn("bytes", rank=3),
        ],
        [list(row.values()) for row in rows],
    )
    for name, where in elsewhere.items():
        note(f"{name}: sets without bytes are {where}")


@app.command("collect")
def collect(
    suite: options.Suite,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    experts: Annotated[
        Path | None, option("--experts", "Folder that has experts/ [bundled].", "DIR")
    ] = None,
    to: Annotated[
        Path | None, option("--to", "Folder to write [collected/SUITE/demos].", "DIR")
    ] = None,
    set_: Annotated[
        str | None,
        option("--set", "Set of the card to collect, such as random [demonstrations].", "NAME"),
    ] = None,
    card: Annotated[
        Path | None,
        option("--card", "Write the returns of the set to this suite card.", "FILE"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Roll out a suite's experts, and store complete episodes as parquet files.

    With --set, rolls out the policies of another set: uniformly random actions, or the policy that
    the expert had after some steps, to which it is trained first. The same command resumes a
    training that was stopped. The policy of a set that the suite does not bundle is stored beside
    it, under experts/.

    Example: imitbench demos collect --suite classic --to my-demos
    """
    if set_ is not None:
        if experts is not None:
            raise InputError(f"--experts {experts}: a set of the card needs no expert; omit it")
        _collect_set(suite, env, set_, to, card, json)
        return
    if card is not None:
        raise InputError(f"--card {card}: has returns of sets only; give --set, or omit it")
    from imitbench.cards.catalog import select_trained
    from imitbench.cards.plugins import find_suite
    from imitbench.experts.demonstrations import collect_demonstrations
    from imitbench.experts.lookup import ListedEnvironment

    start_torch()
    suite_card = find_suite(suite)
    target = to or Path("collected") / suite_card.name / "demos"
    rows = []
    for env_id, own in select_trained(suite_card, env, "demos").items():
        expert = ListedEnvironment(suite_card, env_id, own).expert
        assert expert is not None, "only environments with an expert were selected"
        root = experts or expert.parents[1]
        trajectories = collect_demonstrations(env_id, own, root, target, command=typed_command())
        rows.append(_collected(env_id, target / own.demos.repo, trajectories))
    if json:
        print_json(rows)


def _collect_set(
    suite: str, env: list[str], name: str, to: Path | None, card: Path | None, json: bool
) -> None:
    from imitbench.bench.stopping import RunStoppedError
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.experts.demonstrations import collect_set, set_digest
    from imitbench.experts.measurement import measure_set, update_set_returns

    suite_card = find_suite(suite)
    known = {set_name for own in suite_card.environments.values() for set_name in own.sets}
    selected = select_environments(suite_card, env)
    # Random actions need no expert; what does says so when it is collected.
    chosen = {key: own for key, own in selected.items() if suite_card.has_own_set(key, name)}
    if not chosen:
        raise InputError(
            f"--set {name}: the chosen environments of suite {suite_card.name} have no such set; "
            f"{did_you_mean(name, known)}"
        )
    start_torch()
    target = to or Path("collected") / suite_card.name / "demos"
    rows, command = [], typed_command()
    for env_id, own in chosen.items():
        try:
            trajectories = collect_set(
                env_id,
                own,
                name,
                suite_card.origin.folder,
                target,
                command=command,
                progress=lambda step, mean: note(f"  {step:>9,} steps  mean return {mean:.2f}"),
            )
        except RunStoppedError:
            note("stopped; the same command resumes from a checkpoint")
            raise typer.Exit(130) from None
        rows.append(_collected(env_id, target / own.sets[name].repo, trajectories))
        if card is not None:
            digest = set_digest(env_id, own, name, suite_card.origin.folder, target)
            measured = measure_set(trajectories, digest, command)
            update_set_returns(card, name, {env_id: measured})
    if json:
        print_json(rows)


def _collected(
    env_id: str, folder: Path, trajectories: Sequence[TrajectoryWithRew]
) -> dict[str, Any]:
    """Tells what was collected, and returns it as a row of JSON."""
    mean = sum(float(trajectory.rews.sum()) for trajectory in trajectories) / len(trajectories)
    note(f"{folder}: {len(trajectories)} episodes, mean return {mean:.2f}")
    return {
        "env": env_id,
        "directory": str(folder),
        "trajectories": len(trajectories),
        "mean_return": mean,
    }


@app.command("show")
def show(
    path: Annotated[
        str, argument("DIR_OR_REPO", "Folder, file, or bundled set.", completion.demos)
    ],
    obs: Observation = None,
    rename: Rename = None,
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Summarize a set of demonstrations.

    Example: imitbench demos show ppo-seals-CartPole-v0
    """
    from imitbench.data.rollout import rollout_stats
    from imitbench.data.types import TrajectoryWithRew, assert_not_dictobs

    read = open_set(path, trust=trust, obs=obs or (), rename=rename or ()).read()
    trajectories = [episode for episode in read if isinstance(episode, TrajectoryWithRew)]
    if len(trajectories) < len(read):
        raise InputError(
            f"{path}: has no rewards to sum; `imitbench demos validate` shows the rest"
        )
    first = trajectories[0]
    seen = assert_not_dictobs(first.obs)
    summary = {
        "observation": f"{seen.dtype}{list(seen.shape[1:])}",
        "action": f"{first.acts.dtype}{list(first.acts.shape[1:])}",
        **rollout_stats(trajectories),
    }
    if json:
        print_json(summary)
    else:
        for name, value in summary.items():
            text = f"{value:.2f}" if isinstance(value, float) else value
            print_text(f"{name:<12} {text}", indent=13)
