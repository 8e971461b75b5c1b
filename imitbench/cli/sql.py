"""`imitbench sql`: runs read-only queries on the results database."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import note, print_json, print_table
from imitbench.errors import InputError
from imitbench.util.text_line import one_line


def sql(
    query: Annotated[str, argument("QUERY", "One SELECT statement.")],
    out: options.Results = options.DEFAULT_RESULTS,
    format: Annotated[
        Literal["table", "csv", "json"] | None, option("--format", "Format of the rows [table].")
    ] = None,
    json: options.Json = False,
) -> None:
    """Query the results database, read-only: a query reads and writes no files.

    Tables: runs, curves, measures, reward_scores, episodes, failures, external. Views: scores,
    latest, latest_failures, reward_board, external_scores, quarantine, "references". Published
    results have one metric per curve.

    Example: imitbench sql "select algo, avg(score) from scores group by algo"
    """
    import duckdb

    from imitbench.published.opening import open_results, results_location
    from imitbench.store.database_access import fetch_interruptibly
    from imitbench.untrusted.limits import beyond

    chosen = options.chosen_format(format, json=json)
    try:
        if not duckdb.extract_statements(query):  # as for a query of comments only
            raise InputError("query: is empty; pass a SELECT statement")
        with open_results([results_location(name) for name in out], notify=note) as connection:
            header, rows = fetch_interruptibly(connection, query)
    except duckdb.PermissionException as error:
        raise InputError(
            "query: may read and write no files; to write rows to a file, use `--format csv > FILE`"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise InputError(f"query: {beyond('database_bytes', 'needs more memory')}") from error
    except duckdb.Error as error:
        # DuckDB's message with its suggestions, and without the marked query.
        problem = one_line(str(error).partition("\nLINE ")[0], limit=400)
        raise InputError(f"query: {problem}") from error
    if chosen == "json":
        _check_distinct(header)
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    elif chosen == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    else:
        print_table(header, rows)


def _check_distinct(header: Sequence[str]) -> None:
    """Checks that an object of JSON can have all columns.

    Raises:
        InputError: Two columns have the same name.
    """
    for name, times in Counter(header).items():
        if times > 1:
            raise InputError(
                f"query: has {times} columns {one_line(name, 60)}, of which JSON would keep one; "
                "name them by AS, or use --format csv"
            )
