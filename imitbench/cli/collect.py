"""`imitbench collect`: brings run directories into the database."""

from __future__ import annotations

from imitbench.cli import options


def collect(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Bring finished and failed runs, and imported results, into the database.

    Runs by itself at the end of `imitbench run` and before `report` and `sql`; doing it twice
    changes nothing. Directories that cannot be read are left out, named with the reason, and
    read again when a file in them changes.

    Example: imitbench collect --out runs
    """
    from dataclasses import asdict

    from imitbench.cli.output import note, print_json
    from imitbench.store.collector import collect as collect_runs

    done = collect_runs(out)
    for left_out in done.quarantined:
        note(f"left out: {left_out.path}: {left_out.reason}")
    if json:
        print_json(asdict(done))
    else:
        note(f"{done.added} added or changed, {done.removed} removed")
