"""`imitbench leaderboard build`: a site made from published results, or from own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options


def build_site(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="SITE", help="Folder of the site.", file_okay=False),
    ],
    results: Annotated[
        Path,
        typer.Option(
            "--results", metavar="DIR", help="Published results, a folder of these, or own runs."
        ),
    ] = options.DEFAULT_OUT,
    title: Annotated[str, typer.Option("--title", metavar="TEXT")] = "Leaderboard",
    external: Annotated[
        bool, typer.Option("--external", help="Show imported results, too, unranked.")
    ] = False,
    failed_runs: options.FailedRuns = "count-as-random",
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a leaderboard: static pages, and the same as JSON, CSV and Markdown.

    The pages need no server and no network. The same results give the same files, byte by byte.
    An earlier site in the folder is replaced.

    Example: imitbench leaderboard build --results results --out site
    """
    from imitbench.cli.output import count, note, print_json
    from imitbench.errors import InputError
    from imitbench.published.results_sources import find_results
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.site import check_place, write_site
    from imitbench.stats.coverage import FailurePolicy

    if not title.strip():
        raise InputError("--title: is empty")
    check_place(out, results)
    found = find_results(results, external=external)
    board = build_board(
        found,
        title=title.strip(),
        replicates=replicates,
        failed_runs=FailurePolicy(failed_runs),
    )
    files = write_site(board, out, results=results)
    for text in found.notes:
        note(text)
    if json:
        print_json(
            {
                "site": str(out),
                "taken": found.taken,
                "submissions": [source.name for source in found.sources],
                "tables": len(board.sections),
                "files": files,
                "notes": list(found.notes),
            }
        )
    elif not quiet:
        runs = sum(len(source.runs) for source in found.sources)
        note(f"{results}: taken as {found.taken}, {count(runs, 'run')}")
        note(f"{out / 'index.html'}: {count(len(board.sections), 'table')}, {count(files, 'file')}")
