"""`imitbench logs`: shows the log of a run, or the failures of all runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import TextColumn, command_for, count, note, print_json, print_table
from imitbench.errors import InputError
from imitbench.records.selection import Selection
from imitbench.untrusted.files import read_end
from imitbench.util.text_line import printable_log

if TYPE_CHECKING:
    from pathlib import Path

    from imitbench.records.runs import RunFailure, RunSpec
    from imitbench.store.failure_groups import FailureGroup
    from imitbench.store.run_dir import RunDirectory

_RUNS_SHOWN = 3
_ERROR_FIELDS = {"phase", "error_type", "message", "traceback", "failed_at"}


def logs(
    run: Annotated[
        str | None, argument("[RUN]", "Run id, or its first characters.", completion.runs)
    ] = None,
    failed: Annotated[bool, option("--failed", "Show all failures, grouped by message.")] = False,
    tail: Annotated[
        int | None, option("--tail", "Only show the last N lines [all].", "N", min=0)
    ] = None,
    algo: Annotated[list[str], option("--algo", "Only these algorithms; repeatable.", "GLOB")] = [],  # noqa: B006 (typer copies it)
    env: Annotated[list[str], option("--env", "Only these environments; repeatable.", "GLOB")] = [],  # noqa: B006
    follow: Annotated[
        bool, option("--follow -f", "Show new lines and progress until the run ends, or Ctrl-C.")
    ] = False,
    out: options.Out = options.DEFAULT_OUT,
    json: options.Json = False,
) -> None:
    """Show the log of a run, with its error if it failed; or all failures, grouped by message.

    Without a run it lists the ids of all runs.

    With --follow, lines of the log are printed on stdout as they come, and the step, the share of
    the budget, the main metric and the time left on stderr. It waits while an interrupted run may
    be resumed, because a sweep is active or tasks are in a queue.

    Failures whose messages differ only in numbers, ids and paths form one group, which shows the
    number of runs, their cells, and the end of the traceback.

    Example: imitbench logs --failed --algo 'gail*'
    """
    if run is not None and failed:
        raise InputError("logs: name one run by the start of its id, or use --failed")
    if run is not None and (algo or env):
        raise InputError("logs: --algo and --env select runs: leave out the id of a run")
    if follow and (failed or json):
        raise InputError(f"logs: --follow and {'--failed' if failed else '--json'}: choose one")
    if run is None and follow:
        raise InputError("logs: --follow: name a run by the start of its id")
    if run is not None and follow:
        from imitbench.cli.watching import follow_run
        from imitbench.store.overview import find_run

        follow_run(out, find_run(out, run), tail)
    elif run is not None:
        _show_run(out, run, tail, json)
    elif failed:
        _show_failures(out, Selection.of(env=env, algo=algo), tail, json)
    else:
        _list_runs(out, Selection.of(env=env, algo=algo), json)


def _list_runs(out: Path, selection: Selection, json: bool) -> None:
    """Prints the id of each run, sorted by cell."""
    from imitbench.store.overview import StatusSurvey

    found = sorted(
        (
            run
            for run in StatusSurvey(out).runs()
            if selection.selects(run.suite, run.env, run.algo)
        ),
        key=lambda run: (run.cell, run.path),
    )
    rows = [
        {
            "run_id": run.path.rpartition("/")[2],
            "suite": run.suite,
            "algo": run.algo,
            "env": run.env,
            "state": run.state,
        }
        for run in found
    ]
    if json:
        print_json(rows)
        return
    print_table(
        ["run", TextColumn("suite", rank=2, above=True), "algorithm", "environment", "state"],
        [list(row.values()) for row in rows],
    )
    note(f"{count(len(rows), 'run')}; `{command_for(out, 'logs', 'RUN')}` shows the log of one")


def _show_run(out: Path, start: str, tail: int | None, json: bool) -> None:
    from imitbench.store.overview import find_run

    directory = find_run(out, start)
    failure = directory.read_failure() if directory.has_failed else None
    parts = dict(_texts(out, directory, failure))
    if json:
        print_json(
            {
                "run_id": directory.path.name,
                "folder": str(directory.path),
                "logs": {name: _last(text, tail) for name, text in parts.items()},
                "error": failure and failure.model_dump(include=_ERROR_FIELDS),
            }
        )
        return
    if not parts:
        raise InputError(f"run {directory.path.name}: has no log yet in {directory.path}")
    for name, text in parts.items():
        if len(parts) > 1:
            note(f"--- {name}")
        typer.echo("\n".join(_last(text, tail)))
    if failure is not None:
        note(printable_log(f"failed ({failure.phase}): {failure.error_type}: {failure.message}"))


def _texts(
    out: Path, directory: RunDirectory, failure: RunFailure | None
) -> Iterator[tuple[str, str]]:
    """Returns the log texts of a run, by name."""
    from imitbench.executors.registry import executors_of

    for executor in executors_of(out):
        for title, path in executor.logs(out, directory.path.name):
            if text := _log_text(path):
                yield title, text
    log = ""
    if directory.log.exists():
        log = _log_text(directory.log)
        yield directory.log.name, log
    # A run that fails writes its traceback into its log, unless its process was killed.
    if failure is not None and failure.traceback.strip() and failure.traceback.strip() not in log:
        yield "error.json", failure.traceback


def _log_text(path: Path) -> str:
    try:
        return read_end(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _show_failures(out: Path, selection: Selection, tail: int | None, json: bool) -> None:
    from imitbench.store.failure_groups import read_failure_groups

    def wanted(spec: RunSpec) -> bool:
        return selection.selects(spec.suite, spec.environment.id, spec.algo_label)

    found = read_failure_groups(out, wanted)
    for message in found.unreadable:
        note(f"skipped: {message}")
    if json:
        print_json([_document(group) for group in found.groups])
        return
    for group in found.groups:
        _print_group(out, group, tail)
    runs = sum(len(group.runs) for group in found.groups)
    note(f"{runs} failed runs, {len(found.groups)} kinds" if runs else "no failed runs")


def _print_group(out: Path, group: FailureGroup, tail: int | None) -> None:
    alone = len(group.runs) == 1
    message = group.example if alone else group.message
    head = f"{len(group.runs)} x {group.error_type} ({group.phase}): {message}"
    ids = [spec.run_id for spec, _ in group.runs[:_RUNS_SHOWN]]
    cells = [f"{algo} on {env} ({count})" for (algo, env), count in group.cells.most_common()]
    typer.echo(printable_log(head))
    typer.echo(f"  where:  {', '.join(cells)}")
    typer.echo(f"  runs:   {', '.join(ids)}{', …' if len(group.runs) > len(ids) else ''}")
    for line in _last("\n".join(group.last_lines), tail):
        typer.echo(f"    {line}")
    typer.echo(f"  whole:  {command_for(out, 'logs', ids[0])}\n")


def _document(group: FailureGroup) -> dict[str, Any]:
    return {
        "count": len(group.runs),
        "error_type": group.error_type,
        "message": group.message,
        "example": group.example,
        "phase": group.phase,
        "cells": [
            {"algo": algo, "env": env, "count": count}
            for (algo, env), count in group.cells.most_common()
        ],
        "runs": [spec.run_id for spec, _ in group.runs],
        "last_lines": group.last_lines,
    }


def _last(text: str, tail: int | None) -> list[str]:
    lines = printable_log(text).splitlines()
    return lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
