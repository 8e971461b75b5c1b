"""`imitbench status`: what is done, running, failed."""

from __future__ import annotations

from imitbench.cli import options


def status(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Show how many runs of each cell are done, running, failed or unfinished.

    Example: imitbench status --out runs
    """
    from imitbench.cli.output import note, print_json, print_table
    from imitbench.store.overview import STATES, survey

    cells = survey(out)
    if json:
        print_json([cell.as_dict() for cell in cells])
        return
    if not cells:
        note(f"no runs in {out}")
        return
    print_table(
        ["suite", "algorithm", "environment", *STATES],
        [[c.suite, c.algo, c.env, *(c.counts[state] for state in STATES)] for c in cells],
    )
