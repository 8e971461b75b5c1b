"""`imitbench results tensorboard` and `imitbench results wandb`: curves for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options


def export_to_tensorboard(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Folder for TensorBoard.", file_okay=False)
    ] = Path("tensorboard"),
    out: options.Out = options.DEFAULT_OUT,
    suite: options.OneSuite = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write learning curves and results of all runs as event files for TensorBoard.

    Finished runs are shown whole, running ones up to their newest checkpoint: the same command
    again brings all up to date, and TensorBoard reloads by itself. Runs write no event files
    while they train; `imitbench train` does.

    Example: imitbench results tensorboard --out runs --to tb && tensorboard --logdir tb
    """
    from imitbench.cli.output import count, note, print_json
    from imitbench.report.tensorboard_export import export_tensorboard

    done = export_tensorboard(out, to, tell=note, suite=suite)
    if json:
        print_json({"folder": str(to), **vars(done)})
    elif not quiet:
        note(
            f"{to}: {count(done.written, 'run')} written, {done.unchanged} up to date, "
            f"{done.without} without a point yet"
        )


def upload_to_wandb(
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Project of W&B.")
    ] = "imitbench",
    entity: Annotated[
        str | None, typer.Option("--entity", metavar="NAME", help="User or team [W&B's default].")
    ] = None,
    out: options.Out = options.DEFAULT_OUT,
    suite: options.OneSuite = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--dir", metavar="DIR", help="Where W&B keeps its own folder wandb.", file_okay=False
        ),
    ] = Path(),
    again: Annotated[
        bool, typer.Option("--again", help="Upload runs that were uploaded before, too.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Upload finished runs to Weights & Biases: settings, learning curves and results.

    Each run is uploaded once; the results folder remembers which. With WANDB_MODE=offline nothing
    leaves this machine, and `wandb sync` uploads later. Workers never talk to W&B themselves.
    Needs the extra `wandb`.

    Example: imitbench results wandb --out runs --project imitation
    """
    from imitbench.cli.output import count, note, print_json
    from imitbench.report.wandb_upload import upload_runs

    done = upload_runs(
        out, project, tell=note, entity=entity, suite=suite, folder=folder, again=again
    )
    if json:
        print_json({"project": project, "entity": entity, **vars(done)})
    elif not quiet:
        kept = f", offline: `wandb sync {folder / 'wandb'}/offline-run-*` uploads them"
        note(
            f"{project}: {count(done.uploaded, 'run')} uploaded, {done.present} before, "
            f"{done.unfinished} unfinished{kept if done.offline else ''}"
        )
