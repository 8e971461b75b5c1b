"""Writes the JSON data for the HTML report's script: single runs, provenances and curves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from imitbench.records.curves import is_return
from imitbench.records.runs import Provenance, ScoreRow
from imitbench.report import text
from imitbench.report.html_markup import Markup
from imitbench.report.model import Report, Section
from imitbench.store.run_details import ReportDetails

DIGITS = 7


def json_element(payload: Any, *, digits: int = DIGITS) -> Markup:
    """Returns a script element with JSON data, which browsers do not execute.

    Args:
        payload: Dictionaries, lists, texts and numbers.
        digits: Significant digits of numbers.

    Returns:
        The element; no text in it can end it. Numbers that are not finite are null.
    """
    document = json.dumps(
        _rounded(payload, digits), separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    for mark in "<>&":
        document = document.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(f'<script type="application/json" id="data">{document}</script>')


def published(provenance: Provenance) -> dict[str, Any]:
    """Returns a provenance without the host's name, as in published results."""
    return provenance.model_dump(exclude={"host"})


def payload(report: Report, details: ReportDetails, colors: dict[str, int]) -> dict[str, Any]:
    """Returns single runs and learning curves, with the palette index of algorithms."""
    names: dict[str, int] = {}
    metrics: dict[str, int] = {}
    origins: dict[str, int] = {}
    indices: dict[str, int] = {}
    runs: list[dict[str, Any]] = []
    for section in report.sections:
        for row in section.runs:
            if row.run_id not in indices:
                indices[row.run_id] = len(runs)
                runs.append(_run(row, details, names, metrics, origins))
    sections = [
        {
            "algorithms": [
                names.setdefault(result.algorithm, len(names))
                for result in section.algorithms
                if any(cell.runs or cell.failures for cell in result.cells)
            ],
            "environments": [_environment(section, env, indices) for env in section.environments],
        }
        for section in report.sections
    ]
    return {
        "algorithms": [{"name": name, "color": colors.get(name)} for name in names],
        "metrics": list(metrics),
        "returns": [index for name, index in metrics.items() if is_return(name)],
        "origins": [json.loads(origin) for origin in origins],
        "runs": runs,
        "sections": sections,
    }


def _environment(section: Section, env: str, indices: Mapping[str, int]) -> dict[str, Any]:
    references = [row for row in section.references if row.env == env]
    return {
        "name": env,
        "references": [row.model_dump(exclude={"suite", "env"}) for row in references],
        "runs": [indices[row.run_id] for row in section.runs if row.env == env],
    }


def _run(
    row: ScoreRow,
    details: ReportDetails,
    names: dict[str, int],
    metrics: dict[str, int],
    origins: dict[str, int],
) -> dict[str, Any]:
    """Returns one run; names, metrics and provenances are indices, numbered at first use."""
    run: dict[str, Any] = {
        "id": row.run_id,
        "algorithm": names.setdefault(row.algo, len(names)),
        "seed": row.seed,
        "raw": row.raw_return,
        "score": row.score,
        "deterministic": row.score_deterministic,
        "length": row.mean_length,
        "steps": row.env_steps,
        "wall": row.wall_s,
        "finished": row.finished_at,
    }
    detail = details.runs.get(row.run_id)
    if detail is not None:
        origin = json.dumps(published(detail.provenance), sort_keys=True)
        run |= {
            "spread": detail.return_std,
            "rawDeterministic": detail.deterministic_return,
            "termination": detail.termination_rate,
            "train": detail.train_s,
            "started": detail.started_at,
            "origin": origins.setdefault(origin, len(origins)),
            "spec": detail.spec.model_dump(mode="json", exclude={"schema_version"}),
        }
    run["curves"] = [
        {
            "metric": metrics.setdefault(metric, len(metrics)),
            "steps": curve.steps,
            "values": curve.values,
            "points": curve.points,
        }
        for metric, curve in sorted(details.curves.get(row.run_id, {}).items())
    ]
    return run


def _rounded(value: Any, digits: int) -> Any:
    """Returns data for JSON: finite, rounded numbers, and text on one line."""
    if isinstance(value, str):
        return text.one_line(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        shown = float(f"{value:.{digits}g}")
        return int(shown) if shown.is_integer() and abs(shown) < 2**53 else shown
    if isinstance(value, dict):
        return {text.one_line(key): _rounded(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    return value
