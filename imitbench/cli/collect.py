"""`imitbench collect`: adds run directories to the database."""

from __future__ import annotations

from dataclasses import asdict

from imitbench.cli import options
from imitbench.cli.output import note, print_json
from imitbench.errors import InputError


def collect(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Add finished and failed runs, and imported results, to the database.

    Runs automatically at the end of `imitbench run` and before `report` and `sql`; a second call
    changes nothing. Directories that cannot be read are skipped and listed with the reason, and
    read again when a file in them changes. Published results need no database.

    Example: imitbench collect --out runs
    """
    from imitbench.published.opening import ResultsLocation
    from imitbench.store.collector import collect as collect_runs

    location = ResultsLocation.of(out)
    if not location.has_runs:
        raise InputError(
            f"--out {out}: holds published results, which need no database: `imitbench report` "
            "reads them as they are"
        )

    done = collect_runs(out)
    for left_out in done.quarantined:
        note(f"skipped: {left_out.path}: {left_out.reason}")
    if json:
        print_json(asdict(done))
    else:
        note(f"{done.added} added or changed, {done.removed} removed")
