"""`imitbench status`: shows the states of runs, and the expected time of open ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import options
from imitbench.cli.options import option
from imitbench.cli.output import command_for, note, print_json, print_table
from imitbench.errors import InputError
from imitbench.records.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imitbench.store.overview import CellStatus, StatusSurvey


def status(
    out: options.Results = options.DEFAULT_RESULTS,
    watch: Annotated[
        bool, option("--watch", "Update the table while runs are active, or until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, option("--every", "Seconds between updates with --watch.", min=0.1)
    ] = 3.0,
    json: options.Json = False,
) -> None:
    """Show how many runs of each cell are done, running, failed, interrupted or waiting.

    Of running runs it shows the step, the share of the budget, the main metric and the time left,
    and with --watch the last message in the log. Times come from how fast a run is, from finished
    runs of the same cell, and before any has finished from the costs on the cards; those of cells
    are for the number of runs that are active now.

    The folder .sweeps of the results folder records the requested runs; delete a file there to
    forget runs that will not be done. Watching ends when all runs are done, and when no process
    works on the open runs.

    Example: imitbench status --out runs --watch
    """
    from imitbench.cli.watching import (
        COLUMNS,
        FOLDER,
        LIVE_COLUMNS,
        live_rows,
        live_runs,
        summary,
        table_rows,
        watch_runs,
    )
    from imitbench.published.opening import ResultsLocation, published_cells, results_location
    from imitbench.report.build import read_reported_races
    from imitbench.report.race_tables import state_line
    from imitbench.store.overview import StatusSurvey

    locations = [ResultsLocation.of(results_location(name)) for name in out]
    surveys = {
        location.path: StatusSurvey(location.path) for location in locations if location.has_runs
    }
    if watch and not (len(locations) == 1 and surveys):
        raise InputError("--watch: follows one results folder; name one with --out")
    found: dict[Path, list[CellStatus]] = {}
    for location in locations:
        survey = surveys.get(location.path)
        found[location.path] = published_cells(location, notify=note)
        if survey is not None:
            found[location.path] += watch_runs(survey, every) if watch else survey.cells()
    several = len(found) > 1
    if json:
        print_json(
            [
                {**({"folder": str(path)} if several else {}), **cell.as_dict()}
                for path, cells in found.items()
                for cell in cells
            ]
        )
        return
    cells = [cell for cells in found.values() for cell in cells]
    if not cells:
        note(f"no runs in {', '.join(map(str, found))}")
        return
    rows = [
        [*([str(path)] if several else []), *row]
        for path, cells in found.items()
        for row in table_rows(cells)
    ]
    print_table([FOLDER, *COLUMNS] if several else COLUMNS, rows)
    if running := live_runs(cells):
        typer.echo()
        print_table(LIVE_COLUMNS, live_rows(running))
    note(summary(cells))
    for race in read_reported_races(list(surveys), Selection(), note):
        note(state_line(race.design, race.found))
    for path, survey in surveys.items():
        if not watch:
            note(f"`{command_for(path, 'logs')}` lists the runs with their ids")
        _note_open_runs(path, survey, found[path])


def _note_open_runs(out: Path, survey: StatusSurvey, cells: Sequence[CellStatus]) -> None:
    from imitbench.cli.watching import is_idle, queue_line
    from imitbench.store.overview import total_status

    queued = queue_line(out)
    if queued is not None:
        note(queued)
    elif total_status(cells).open and is_idle(survey, cells):
        note(f"no process is working on them: `{command_for(out, 'resume')}` continues")
