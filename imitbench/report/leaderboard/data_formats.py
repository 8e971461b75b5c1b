"""Writes the board as JSON and as CSV; `docs/leaderboard.md` explains the columns."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from imitbench.published.verification import Verification
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.table_alarms import table_alarms
from imitbench.report.leaderboard.trust import package_versions
from imitbench.report.leaderboard.tuning import tuning_cost
from imitbench.report.model import CellResult, StatisticsSettings
from imitbench.stats.bootstrap import Interval
from imitbench.untrusted.csv_text import csv_text
from imitbench.util.quantities import json_value
from imitbench.version import __version__

FORMAT = "imitbench-leaderboard"
VERSION = 1
COLUMNS = (
    "suite", "budget", "n_demos", "source", "rank", "algorithm", "kind", "submitted_by",
    "score_iqm", "score_iqm_low", "score_iqm_high",
    "score_mean", "score_mean_low", "score_mean_high",
    "environments_covered", "environments_total", "seeds_min", "seeds_max", "runs", "failed",
    "uses_reward", "checked", "env_steps_per_run", "wall_s_per_run", "page", "registered_race",
    "isolated",
    "trained_again", "differing", "tuning_trials", "tuning_env_steps", "package_versions",
)  # fmt: skip
"""The header line of the CSV file."""


def render_json(board: Board) -> str:
    """Writes all content of the site, runs included, as one JSON document."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "imitbench": __version__,
        "title": board.title,
        "method": {
            "episodes": board.method.episodes,
            "replicates": board.method.replicates,
            "bootstrap_seed": board.method.seed,
            "level": board.method.level,
            "failed_runs": board.method.failed_runs.value,
        },
        "submissions": [
            {
                "name": source.name,
                "digest": source.digest,
                "failed_checks": list(source.failed),
                "alarms": [str(alarm) for alarm in source.alarms],
                "verifications": [_verification(record) for record in source.verifications],
                "superseded_by": source.superseded_by or None,
                "runs": sum(run.result is not None for run in source.runs),
                "failures": sum(run.failure is not None for run in source.runs),
            }
            for source in board.sources
        ],
        "tables": [_table(part, board.method) for part in board.sections],
    }
    return json.dumps(json_value(document), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _verification(record: Verification) -> dict[str, Any]:
    return {
        "verified_by": record.verified_by,
        "verified_at": record.verified_at,
        "public_seed": record.public_seed,
        "seed": record.seed,
        "digest": record.digest,
        "runs": [{"run_id": run.run_id, "verdict": run.verdict} for run in record.runs],
    }


def render_csv(board: Board) -> str:
    """Writes the rows of all tables as one CSV table with the header `COLUMNS`."""
    rows = (
        {**asdict(part.section.conditions), **_row(row, part)}
        for part in board.sections
        for row in part.rows
    )
    return csv_text(COLUMNS, ({name: json_value(row[name]) for name in COLUMNS} for row in rows))


def _table(part: BoardSection, method: StatisticsSettings) -> dict[str, Any]:
    section = part.section
    return {
        **asdict(section.conditions),
        "environments": list(section.environments),
        "version": part.version or None,
        "alarms": [asdict(each) for each in table_alarms(part, method)],
        "references": [row.model_dump(exclude={"suite"}) for row in section.references],
        "notes": list(section.notes),
        "rows": [
            {
                **_row(row, part),
                "place": row.place,
                "cells": [_cell(cell) for cell in row.result.cells],
                "runs": _runs(row),
                "failures": [
                    {
                        "run_id": each.run.spec.run_id,
                        "submitted_by": each.submitter,
                        "env": each.row.env,
                        "seed": each.row.seed,
                        "phase": each.row.phase,
                        "error_type": each.row.error_type,
                        "message": each.row.message,
                    }
                    for each in row.failures
                ],
            }
            for row in part.rows
        ],
    }


def _row(row: BoardRow, part: BoardSection) -> dict[str, Any]:
    result = row.result
    fewest, most = result.seeds
    tuning = tuning_cost(row.specs)
    names = [row.imported.said] if row.imported else [name or "own runs" for name in row.submitters]
    return {
        "rank": row.rank,
        "algorithm": row.name,
        "kind": row.kind,
        "submitted_by": ", ".join(names),
        **_interval("score_iqm", result.iqm),
        **_interval("score_mean", result.mean),
        "environments_covered": len(result.covered),
        "environments_total": len(part.section.environments),
        "seeds_min": fewest,
        "seeds_max": most,
        "runs": sum(cell.runs for cell in result.cells),
        "failed": result.failures,
        "uses_reward": result.uses_reward,
        "checked": row.checked,
        "env_steps_per_run": row.env_steps,
        "wall_s_per_run": row.wall_s,
        "page": None if row.page is None else f"{row.page}#{row.anchor}",
        "registered_race": row.raced,
        "isolated": row.isolated,
        "trained_again": row.trained_again.agreeing,
        "differing": row.trained_again.differing,
        "tuning_trials": tuning.trials,
        "tuning_env_steps": tuning.env_steps,
        "package_versions": ", ".join(package_versions((*row.runs, *row.failures))),
    }


def _interval(name: str, value: Interval | None) -> dict[str, float | None]:
    point, low, high = (value.point, value.low, value.high) if value else (None, None, None)
    return {name: point, f"{name}_low": low, f"{name}_high": high}


def _cell(cell: CellResult) -> dict[str, Any]:
    return {
        "env": cell.environment,
        "kind": cell.kind,
        "seeds": cell.seeds,
        "runs": cell.runs,
        "failed": cell.failures,
        "raw_return_mean": cell.raw_mean,
        "raw_return_std": cell.raw_std,
        "score_mean": cell.score,
        "score_deterministic_mean": cell.score_deterministic,
        "mean_length": cell.mean_length,
    }


def _runs(row: BoardRow) -> list[dict[str, Any]]:
    if row.imported is not None:
        return [run.model_dump(exclude_none=True) for run in row.imported.runs]
    return [
        {
            "run_id": each.run.spec.run_id,
            "spec_digest": each.run.spec.digest,
            "submitted_by": each.submitter,
            "env": each.row.env,
            "seed": each.row.seed,
            "raw_return": each.row.raw_return,
            "score": each.row.score,
            "score_deterministic": each.row.score_deterministic,
            "mean_length": each.row.mean_length,
            "env_steps": each.row.env_steps,
            "wall_s": each.row.wall_s,
            "finished_at": each.row.finished_at,
            "episodes": each.episodes,
            "isolated": each.run.isolated,
        }
        for each in row.runs
    ]
