"""`imitbench collect`: brings run directories into the database."""

from __future__ import annotations

from imitbench.cli import options


def collect(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Bring finished and failed runs into the database.

    Runs by itself at the end of `imitbench run` and before `report` and `sql`; doing it twice
    changes nothing.

    Example: imitbench collect --out runs
    """
    from imitbench.cli.output import note, print_json
    from imitbench.store.collector import collect as collect_runs

    done = collect_runs(out)
    for message in done.unreadable:
        note(f"left out: {message}")
    if json:
        print_json(
            {"added": done.added, "removed": done.removed, "unreadable": list(done.unreadable)}
        )
    else:
        note(f"{done.added} added or changed, {done.removed} removed")
