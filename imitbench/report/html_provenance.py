"""How and where runs came about, as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from imitbench.records.runs import Provenance
from imitbench.report import text
from imitbench.report.html_data import published
from imitbench.report.html_markup import Markup, tag
from imitbench.report.html_tables import Column, TableCell, table


def origin(provenance: Provenance, device: str) -> str:
    """How and where a run came about, so that equal ones are counted together."""
    return json.dumps({**published(provenance), "device": device}, sort_keys=True)


def provenance_table(counts: Mapping[str, int], ids: Mapping[str, str] | None = None) -> Markup:
    """Versions, hardware and commands, and how many runs each stands for.

    Args:
        counts: Number of runs by `origin`.
        ids: Ids of the rows, for links to them.
    """
    columns = [
        Column("Runs", number=True),
        Column("imitbench"),
        Column("Commit"),
        Column("Python"),
        Column("Packages"),
        Column("Hardware"),
        Column("Command"),
    ]
    rows = [
        _row(each, count, ids[each] if ids else None)
        for each, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    caption = "How and where the runs came about, as recorded beside each result."
    return table(columns, rows, label="Provenance", caption=caption, classes="provenance", names=0)


def _row(serialized: str, count: int, id_: str | None) -> list[TableCell]:
    origin = json.loads(serialized)
    versions = [f"{name} {version}" for name, version in sorted(origin["packages"].items())]
    hardware = f"{origin['cpu']}{', ' + origin['gpu'] if origin['gpu'] else ''}"
    shown = str(count) if id_ is None else tag("span", str(count), id=id_)
    return [
        TableCell(shown, float(count)),
        TableCell(origin["imitbench"] or text.NOTHING),
        TableCell(tag("code", (origin["git_sha"] or text.NOTHING)[:10]), origin["git_sha"]),
        TableCell(origin["python"] or text.NOTHING),
        TableCell(", ".join(versions)),
        TableCell(f"{hardware} ({origin['device']})"),
        TableCell(tag("code", origin["command"] or ""), origin["command"]),
    ]
