"""`imitbench collect`: adds run directories to the database."""

from __future__ import annotations

from imitbench.cli import options


def collect(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Add finished and failed runs, and imported results, to the database.

    Runs automatically at the end of `imitbench run` and before `report` and `sql`; a second call
    changes nothing. Directories that cannot be read are skipped and listed with the reason, and
    read again when a file in them changes.

    Example: imitbench collect --out runs
    """
    from dataclasses import asdict

    from imitbench.cli.output import note, print_json
    from imitbench.store.collector import collect as collect_runs

    done = collect_runs(out)
    for left_out in done.quarantined:
        note(f"skipped: {left_out.path}: {left_out.reason}")
    if json:
        print_json(asdict(done))
    else:
        note(f"{done.added} added or changed, {done.removed} removed")
