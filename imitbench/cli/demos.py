"""`imitbench demos`: list, collect, fetch, convert, check and show demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import completion, options
from imitbench.cli.demos_convert import Trust, convert, open_set
from imitbench.cli.demos_validate import validate
from imitbench.cli.pull import pull_demos
from imitbench.cli.push import push_demos

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, collect, fetch, convert, check and show demonstrations.",
)
app.command("pull")(pull_demos)
app.command("push")(push_demos)
app.command("convert")(convert)
app.command("validate")(validate)


@app.command("list")
def list_demos(
    suite: options.OneSuite = None,
    json: options.Json = False,
) -> None:
    """List the bundled sets of demonstrations.

    Example: imitbench demos list --suite classic
    """
    from imitbench.cards.catalog import suite_names
    from imitbench.cards.plugins import find_suite
    from imitbench.cli.output import print_json, print_table

    rows = []
    for found in map(find_suite, [suite] if suite else suite_names()):
        for env_id, card in found.environments.items():
            data = found.origin.folder / "demos" / card.demos.repo / "data"
            rows.append(
                {
                    "suite": found.name,
                    "env": env_id,
                    "repo": card.demos.repo,
                    "trajectories": card.demos.trajectories,
                    "bytes": sum(path.stat().st_size for path in data.glob("*.parquet")),
                }
            )
    if json:
        print_json(rows)
    else:
        print_table(
            ["suite", "environment", "demonstrations", "trajectories", "bytes"],
            [list(row.values()) for row in rows],
        )


@app.command("collect")
def collect(
    suite: options.Suite,
    env: options.Env = None,
    experts: Annotated[
        Path | None,
        typer.Option("--experts", metavar="DIR", help="Folder with experts/ [bundled]."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Folder of sets [collected/SUITE/demos]."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Roll out a suite's experts and store whole episodes as parquet.

    Example: imitbench demos collect --suite classic --to my-demos
    """
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.cli.output import note, print_json
    from imitbench.cli.provenance import typed_command
    from imitbench.experts.demonstrations import collect_demonstrations
    from imitbench.util.torch_startup import use_one_thread

    use_one_thread()
    suite_card = find_suite(suite)
    root = experts or suite_card.origin.folder
    target = to or Path("collected") / suite_card.name / "demos"
    rows = []
    for env_id, card in select_environments(suite_card, env).items():
        trajectories = collect_demonstrations(env_id, card, root, target, command=typed_command())
        mean = sum(float(t.rews.sum()) for t in trajectories) / len(trajectories)
        note(f"{target / card.demos.repo}: {len(trajectories)} episodes, mean return {mean:.2f}")
        rows.append(
            {
                "env": env_id,
                "directory": str(target / card.demos.repo),
                "trajectories": len(trajectories),
                "mean_return": mean,
            }
        )
    if json:
        print_json(rows)


@app.command("show")
def show(
    path: Annotated[
        str,
        typer.Argument(
            metavar="DIR_OR_REPO",
            help="Folder or file, or a bundled set.",
            autocompletion=completion.demos,
        ),
    ],
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Summarize a set of demonstrations.

    Example: imitbench demos show ppo-seals-CartPole-v0
    """
    from imitbench.cli.output import print_json
    from imitbench.data.rollout import rollout_stats
    from imitbench.data.types import TrajectoryWithRew, assert_not_dictobs
    from imitbench.errors import InputError

    read = open_set(path, trust=trust).read()
    trajectories = [each for each in read if isinstance(each, TrajectoryWithRew)]
    if len(trajectories) < len(read):
        raise InputError(f"{path}: no rewards to sum up; `imitbench demos validate` shows the rest")
    first = trajectories[0]
    obs = assert_not_dictobs(first.obs)
    summary = {
        "observation": f"{obs.dtype}{list(obs.shape[1:])}",
        "action": f"{first.acts.dtype}{list(first.acts.shape[1:])}",
        **rollout_stats(trajectories),
    }
    if json:
        print_json(summary)
    else:
        for name, value in summary.items():
            text = f"{value:.2f}" if isinstance(value, float) else value
            typer.echo(f"{name:<12} {text}")
