"""`imitbench import`: imports results of other tools, separate from runs of this harness."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import TextColumn, count, nonzero, note, print_json, print_table
from imitbench.errors import InputError
from imitbench.untrusted import gate
from imitbench.util.name_lists import split_names
from imitbench.version import __version__

if TYPE_CHECKING:
    from imitbench.store.external_results import ImportedResults

app = options.command_group("Import results of other tools; they stay separate from your own runs.")

_Name = Annotated[str | None, option("--name", "Label of the import [name of the source].", "NAME")]
_Suite = Annotated[
    str | None, option("--suite", "Suite whose references convert returns to scores.", "NAME")
]
_Force = Annotated[bool, option("--force", "Replace different results of this name.")]
_DryRun = Annotated[bool, option("--dry-run", "Only report the contents; write nothing.")]
_MAX_SHOWN = 20


@app.command("sacred")
def import_sacred_runs(
    folder: Annotated[Path, argument("DIR", "Folder that has Sacred's run folders.")],
    out: options.Out = options.DEFAULT_OUT,
    name: _Name = None,
    suite: _Suite = None,
    force: _Force = False,
    dry_run: _DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Import runs of the reference library's scripts, as Sacred recorded them.

    Interrupted, killed and failed runs are imported with that status. Exits with 1 if some runs
    cannot be used.

    Example: imitbench import sacred output/sacred --name imitation-1.0
    """
    from imitbench.store.importers.sacred_runs import import_sacred

    results = gate.checked(lambda: import_sacred(folder), folder)
    _record(results, folder, out, name, suite, force, dry_run, json=json, quiet=quiet)


@app.command("csv")
def import_table(
    file: Annotated[Path, argument("FILE", "CSV table, one row per run.")],
    out: options.Out = options.DEFAULT_OUT,
    name: _Name = None,
    suite: _Suite = None,
    force: _Force = False,
    dry_run: _DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Import a table with columns algo, env, seed and raw_return or score.

    The output of `imitbench sql --format csv "select * from scores"` is such a table. If a line is
    wrong, every wrong line is reported and nothing is imported.

    Example: imitbench import csv published.csv --suite classic
    """
    from imitbench.store.importers.long_table import InvalidLinesError, import_csv

    try:
        gate.try_reading(lambda: _columns_and_lines(file), file)
        results = import_csv(file)
    except InvalidLinesError as error:
        for problem in error.problems:
            note(f"{file}, {problem}")
        raise
    _record(results, file, out, name, suite, force, dry_run, json=json, quiet=quiet)


@app.command("rliable")
def import_arrays(
    file: Annotated[Path, argument("FILE", "npz or JSON, runs by tasks per algorithm.")],
    out: options.Out = options.DEFAULT_OUT,
    env: Annotated[
        list[str] | None, option("--env", "Name of a task; once per column, in order.", "ID")
    ] = None,
    name: _Name = None,
    force: _Force = False,
    dry_run: _DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Import normalized scores in rliable's layout: an array of runs by tasks per algorithm.

    Example: imitbench import rliable scores.npz --env Ant-v4 --env Hopper-v4
    """
    from imitbench.store.importers.rliable_scores import import_rliable

    tasks = [name for text in env or [] for name in split_names("--env", text)]
    results = gate.checked(lambda: import_rliable(file, tasks=tasks), file)
    _record(results, file, out, name, None, force, dry_run, json=json, quiet=quiet)


@app.command("human-preferences")
def import_human_preferences(
    folder: Annotated[Path, argument("DIR", "Folder of label files, or of several tasks.")],
    data: Annotated[
        Path | None, option("--data", "The labeled D4RL data set.", "FILE.hdf5", dir_okay=False)
    ] = None,
    to: Annotated[
        Path | None, option("--to", "Folder of the new data set.", "OUT", file_okay=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Read human preferences in the format of Uni-RLHF and Clean-Offline-RLHF.

    Their pickles are read as data and never executed. Shows the labels of each task; with --data
    and --to, cuts the segments of one task from the data set, and writes preferences as
    `imitbench label export` does.

    Example: imitbench import human-preferences hopper-medium-v2_human_labels --data
    hopper_medium-v2.hdf5 --to preferences
    """
    from imitbench.labelling.human_preferences import (
        LABEL_NAMES,
        read_d4rl,
        read_human_preferences,
        to_rows,
        write_imported,
    )

    if (data is None) != (to is None):
        raise InputError("--data and --to: give both, or neither to see what the folder has")
    tasks = gate.checked(lambda: read_human_preferences(folder), folder)
    if data is not None and to is not None:
        if len(tasks) > 1:
            names = ", ".join(task.env for task in tasks[:5])
            raise InputError(
                f"{folder}: has {len(tasks)} tasks ({names} …); name the folder of one"
            )
        digest = write_imported(
            tasks[0], to_rows(tasks[0], gate.checked(lambda: read_d4rl(data), data)), to
        )
        note(f"{to}: {count(len(tasks[0].labels), 'pair')}, digest {digest[:12]}")
    rows = [
        {
            "task": task.env,
            "domain": task.domain,
            "by": "people" if task.human else "script",
            "steps": task.length,
            "pairs": len(task.labels),
            **{name: int((task.labels == value).sum()) for value, name in LABEL_NAMES.items()},
        }
        for task in tasks
    ]
    if json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _columns_and_lines(file: Path) -> None:
    """Reads a table; wrong lines are reported later, all of them."""
    from imitbench.store.importers.long_table import InvalidLinesError, import_csv

    with suppress(InvalidLinesError):
        import_csv(file)


def _record(
    results: ImportedResults,
    source: Path,
    out: Path,
    name: str | None,
    suite: str | None,
    force: bool,
    dry_run: bool,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Writes the results of an importer, and prints them."""
    from imitbench.published.submission import check_no_submission
    from imitbench.store.external_results import (
        check_name,
        default_name,
        external_path,
        write_external,
    )

    label = default_name(source) if name is None else check_name(name)
    if suite is not None:
        from imitbench.cards.plugins import find_suite
        from imitbench.store.external_results import with_references

        results = with_references(results, find_suite(suite))
    check_no_submission(out)
    written = not dry_run and write_external(results, out, label, version=__version__, force=force)
    path = external_path(out, label)
    if json:
        print_json(_document(results, label, path, written))
    elif not quiet:
        _print_results(results, label, path, written, dry_run)
    if results.counts.get("unusable"):
        raise typer.Exit(1)


def _document(results: ImportedResults, label: str, path: Path, written: bool) -> dict[str, Any]:
    from imitbench.store.external_results import STATUSES

    counts = results.counts
    return {
        "name": label,
        "tool": results.tool,
        "file": str(path),
        "written": written,
        "counts": {status: counts.get(status, 0) for status in STATUSES},
        "cells": _cells(results),
        "not_completed": [
            {
                "place": run.place,
                "status": run.status,
                "reason": run.reason,
                "algo": run.algo,
                "env": run.env,
                "seed": run.seed,
            }
            for run in results.runs
            if run.status != "completed"
        ],
        "notes": results.notes,
    }


def _cells(results: ImportedResults) -> list[dict[str, Any]]:
    """Returns a row per algorithm and environment: numbers of runs, and means of completed ones."""
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for run in results.runs:
        key = (run.algo or "", run.env or "")
        cell = cells.setdefault(
            key, {"algo": run.algo, "env": run.env, "completed": 0, "other": 0, "all": []}
        )
        cell["completed" if run.status == "completed" else "other"] += 1
        if run.status == "completed":
            cell["all"].append(run)
    for cell in cells.values():
        done = cell.pop("all")
        cell["mean_return"] = _mean([run.raw_return for run in done])
        cell["mean_score"] = _mean([run.any_score for run in done])
    return [cells[key] for key in sorted(cells)]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _print_results(
    results: ImportedResults, label: str, path: Path, written: bool, dry_run: bool
) -> None:
    print_table(
        [
            "algorithm",
            "environment",
            "completed",
            TextColumn("other", rank=2, color=nonzero("yellow")),
            TextColumn("mean return", rank=1),
            TextColumn("mean score", rank=3),
        ],
        [list(cell.values()) for cell in _cells(results)],
    )
    others = [run for run in results.runs if run.status != "completed"]
    for run in others[:_MAX_SHOWN]:
        what = f" ({run.algo} on {run.env}, seed {run.seed})" if run.algo and run.env else ""
        note(f"{run.status}: {run.place}{what}: {run.reason}")
    if len(others) > _MAX_SHOWN:
        note(f"… and {len(others) - _MAX_SHOWN} more; --json names all")
    for text in results.notes:
        note(f"note: {text}")
    told = ", ".join(f"{number} {status}" for status, number in results.counts.items())
    done = "would be written" if dry_run else "written" if written else "is up to date"
    note(f"{label}: {told}; {path} {done}")
