"""Writes the report as one JSON document, for programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from imitbench.report.csv_table import section_rows
from imitbench.report.model import Report
from imitbench.report.race_tables import race_document
from imitbench.version import __version__

FORMAT = "imitbench-report"
VERSION = 1


def render_json(report: Report) -> str:
    """Writes a report as JSON.

    Each entry of `sections` has comparable runs: `rows` with the columns of `render_csv`, without
    empty fields; `notes` in whole sentences; `runs` with the completed runs behind the numbers, as
    in the view `scores` of the database. `failures` has every failed run. Numbers that JSON lacks
    are null.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "imitbench": __version__,
        "sections": [
            {
                "title": section.title,
                **asdict(section.conditions),
                "environments": list(section.environments),
                "references": [row.model_dump(mode="json") for row in section.references],
                "notes": list(section.notes),
                "rows": [
                    {name: value for name, value in row.items() if value is not None}
                    for row in section_rows(section, report.method)
                ],
                "runs": [row.model_dump(mode="json") for row in section.runs],
            }
            for section in report.sections
        ],
        "failures": [row.model_dump(mode="json") for row in report.failures],
    }
    if report.races:
        document["races"] = [race_document(each.design, each.found) for each in report.races]
    return json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
