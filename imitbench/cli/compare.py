"""`imitbench compare`: is an algorithm better than others?"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.report.contest import Contest
    from imitbench.report.contest import Options as Method
    from imitbench.report.entries import Entry


class FailIf(str, Enum):
    """What makes the exit code 1."""

    worse = "worse"
    worse_anywhere = "worse-anywhere"
    undecided = "undecided"
    not_better = "not-better"


class FailedRuns(str, Enum):
    """What a failed run counts as."""

    either = "either"
    count_as_random = "count-as-random"
    exclude = "exclude"


def compare(
    algorithm: Annotated[str, typer.Argument(metavar="NEW", help="Algorithm to judge.")],
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline", metavar="ALGO", help="Compare with this one; again for more [all others]."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="Results folder, its database, or a CSV table."),
    ] = options.DEFAULT_OUT,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="PATH",
            help="Where the baselines' results are, if elsewhere; the same algorithm by default.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", metavar="NAME", help="Only this suite; its references for tables without."
        ),
    ] = None,
    env: options.Env = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME", help="Only this budget.")
    ] = None,
    fail_if: Annotated[
        list[FailIf] | None,
        typer.Option("--fail-if", help="Exit with 1 in this case; again for more."),
    ] = None,
    failed_runs: Annotated[
        FailedRuns,
        typer.Option("--failed-runs", help="What failed runs count as; either: must not matter."),
    ] = FailedRuns.either,
    level: Annotated[
        float, typer.Option("--level", min=0.5, max=0.999, help="Coverage of intervals.")
    ] = 0.95,
    replicates: Annotated[
        int, typer.Option("--replicates", min=100, help="Bootstrap replicates.")
    ] = 50_000,
    json: options.Json = False,
) -> None:
    """Say whether an algorithm is better or worse than others, or that it is undecided.

    A difference counts if a permutation test finds it, corrected for looking at several
    environments and baselines, and overall only if the interval of the IQM agrees. Results that
    were imported take part under the name IMPORT:ALGO.

    Example: imitbench compare airl --baseline bc --baseline gail --fail-if worse
    """
    from imitbench.cli.output import print_json
    from imitbench.report.contest import Options as Method
    from imitbench.report.contest import contests
    from imitbench.report.contest_text import document
    from imitbench.stats.cells import FailurePolicy

    policy = None if failed_runs is FailedRuns.either else FailurePolicy(failed_runs.value)
    method = Method(policy=policy, level=level, replicates=replicates)
    ours = _entries(out, suite, env, budget)
    theirs = ours if against is None else _entries(against, suite, env, budget)
    names = baseline or ([] if against is None else [algorithm])
    found = contests(algorithm, ours, theirs, names, method)
    if json:
        print_json(document(found, method))
    else:
        _print(found, method)
    if any(_is_case(case, contest) for case in fail_if or [] for contest in found):
        raise typer.Exit(1)


def _entries(path: Path, suite: str | None, env: str | None, budget: str | None) -> list[Entry]:
    """Runs of a results folder, a database or a table, as far as they are asked for."""
    from fnmatch import fnmatchcase

    from imitbench.errors import InputError

    found = [
        entry
        for entry in _all_entries(path, suite)
        if suite in (None, entry.setting.suite) or entry.setting.suite is None
        if budget in (None, entry.setting.group.budget) or entry.setting.group.budget is None
        if env is None or fnmatchcase(entry.env, env)
    ]
    if not found:
        raise InputError(f"{path}: no runs there that are asked for; see `imitbench status`")
    return found


def _all_entries(path: Path, suite: str | None) -> list[Entry]:
    from imitbench.cli.output import note
    from imitbench.report.entries import imported_entries, own_entries
    from imitbench.store import database
    from imitbench.store.collector import collect

    if path.suffix.lower() == ".csv":
        return _table(path, suite)
    if path.is_file():
        opened = database.reader_of_file(path)
    else:
        for left_out in collect(path).quarantined:
            note(f"left out: {left_out.path}: {left_out.reason}")
        opened = database.reader(path)
    with opened as connection:
        return [
            *own_entries(database.read_scores(connection), database.read_failures(connection)),
            *imported_entries(database.read_external_scores(connection)),
        ]


def _table(path: Path, suite: str | None) -> list[Entry]:
    from imitbench.cards.plugin import find_suite
    from imitbench.errors import InputError
    from imitbench.report.entries import table_entries
    from imitbench.store.importers.long_table import import_csv
    from imitbench.store.importers.suite_references import with_references

    results = import_csv(path)
    if suite is not None:
        results = with_references(results, find_suite(suite))
    found = table_entries(results.runs)
    if not any(entry.score is not None for entry in found):
        raise InputError(
            f"{path}: has returns and no scores; --suite NAME gives them the references of a suite"
        )
    return found


def _is_case(case: FailIf, contest: Contest) -> bool:
    decisions = {verdict.decision for verdict in contest.verdicts}
    if case is FailIf.not_better:
        return decisions != {"better"}
    if case is FailIf.worse_anywhere:
        decisions |= {
            found.decision for verdict in contest.verdicts for found in verdict.environments
        }
    return ("undecided" if case is FailIf.undecided else "worse") in decisions


def _print(found: list[Contest], method: Method) -> None:
    from imitbench.cli.output import note, print_table
    from imitbench.report import contest_text

    for contest in found:
        typer.echo(contest_text.heading(contest))
        for verdict in contest.verdicts:
            typer.echo()
            for line in contest_text.summary(verdict):
                typer.echo(line)
            rows = contest_text.environment_rows(contest, verdict)
            if rows:
                typer.echo()
                print_table(contest_text.ENVIRONMENT_HEADER, rows)
        typer.echo()
    note(contest_text.method(method))
