"""`imitbench status`: shows the states of runs, and the expected time of open ones."""

from __future__ import annotations

from typing import Annotated

import typer

from imitbench.cli import options


def status(
    out: options.Out = options.DEFAULT_OUT,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Update the table while runs are active, or until Ctrl-C."),
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, help="Seconds between updates with --watch.")
    ] = 3.0,
    json: options.Json = False,
) -> None:
    """Show how many runs of each cell are done, running, failed, interrupted or waiting.

    The expected time comes from finished runs of the same cell, for the number of runs that are
    active now. The folder .sweeps of the results folder records the requested runs; delete a file
    there to forget runs that will not be done. Watching ends when all runs are done, and when no
    process works on the open runs.

    Example: imitbench status --out runs --watch
    """
    from imitbench.cli.output import command_for, note, print_json, print_table
    from imitbench.cli.status_table import (
        HEADER,
        is_idle,
        queue_line,
        summary,
        table_rows,
        watch_runs,
    )
    from imitbench.store.overview import StatusSurvey, total_status

    survey = StatusSurvey(out)
    cells = watch_runs(survey, every) if watch else survey.look()
    if json:
        print_json([cell.as_dict() for cell in cells])
        return
    if not cells:
        note(f"no runs in {out}")
        return
    print_table(HEADER, table_rows(cells))
    note(summary(cells))
    queued = queue_line(out)
    if queued is not None:
        note(queued)
    elif total_status(cells).open and is_idle(survey, cells):
        note(f"no process is working on them: `{command_for(out, 'resume')}` continues")
