"""`imitbench sql`: runs read-only queries on the results database."""

from __future__ import annotations

import csv
import sys
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
        Literal["table", "csv", "json"], option("--format", "Format of the rows.")
    ] = "table",
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
    if json or format == "json":
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    else:
        print_table(header, rows)
