"""Writes the board as JSON, CSV and Markdown; `docs/leaderboard.md` explains the columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from imitbench.published.disclosure import tuning_cost
from imitbench.published.verification import Verification
from imitbench.records.runs import RunRow
from imitbench.report import text
from imitbench.report.leaderboard import model
from imitbench.report.leaderboard.answers import answer_of
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.row_facts import package_versions, values_text
from imitbench.report.markdown import escape, laid_out, table
from imitbench.report.model import (
    CellResult,
    Report,
    RewardBoardRow,
    RewardSummary,
    StatisticsSettings,
    Table,
)
from imitbench.report.regimes import regime_document
from imitbench.report.report_tables import LIKELY, regime_tables
from imitbench.report.reward_board import NUMBERS, SUMMARY_NUMBERS, reward_table, summary_table
from imitbench.report.success_table import success_table
from imitbench.stats.bootstrap import Interval
from imitbench.untrusted.csv_text import csv_text
from imitbench.util.quantities import json_value
from imitbench.version import __version__

FORMAT = "imitbench-leaderboard"
VERSION = 1
COLUMNS = (
    "suite", "budget", "n_demos", "source", "rank", "algorithm", "kind", "submitted_by",
    "score_iqm", "score_iqm_low", "score_iqm_high",
    "score_mean", "score_mean_low", "score_mean_high", "score_worst", "worst_environment",
    "environments_covered", "environments_total", "seeds_min", "seeds_max", "runs", "failed",
    "uses_reward", "checked", "env_steps_per_run", "wall_s_per_run", "page", "registered_race",
    "isolated",
    "trained_again", "differing", "tuning_trials", "tuning_env_steps", "package_versions",
    "values_chosen", "score_iqm_likely", "score_iqm_likely_low", "score_iqm_likely_high",
    "demo_every", "demo_actions", "mixture", "tuning_core_hours",
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
        "regimes": [regime_document(one, board.method.level) for one in board.regimes],
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
    answer = answer_of(part, method)
    return {
        **asdict(section.conditions),
        "environments": list(section.environments),
        "version": part.version or None,
        "answer": answer.sentences,
        "alarms": [asdict(alarm) for alarm in answer.alarms],
        "references": [row.model_dump(exclude={"suite"}) for row in section.references],
        "notes": list(section.notes),
        "reward_board": [_rewards(row) for row in section.rewards],
        "reward_summaries": [_summary(summary) for summary in section.reward_summaries],
        "rows": [
            {
                **_row(row, part),
                "track": row.track,
                "tier": row.tier,
                "provisional": row.provisional,
                "disclosures": [
                    disclosure.model_dump(exclude_none=True) for disclosure in row.disclosures
                ],
                "cells": [_cell(cell) for cell in row.result.cells],
                "runs": _runs(row),
                "failures": [
                    {
                        "run_id": failure.run.spec.run_id,
                        "submitted_by": failure.submitter,
                        **_columns(failure.row, "env", "seed", "phase", "error_type", "message"),
                    }
                    for failure in row.failures
                ],
            }
            for row in part.rows
        ],
    }


def _row(row: BoardRow, part: BoardSection) -> dict[str, Any]:
    result = row.result
    fewest, most = result.seeds
    tuning = tuning_cost(row.specs, row.disclosures)
    return {
        "rank": row.rank,
        "algorithm": row.name,
        "kind": row.kind,
        "submitted_by": model.submitter_text(row) if row.submitters or row.imported else "",
        **_interval("score_iqm", result.iqm),
        **_interval("score_iqm_likely", result.iqm_likely),
        **_interval("score_mean", result.mean),
        "score_worst": None if result.worst is None else result.worst.score,
        "worst_environment": None if result.worst is None else result.worst.environment,
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
        "tuning_core_hours": tuning.core_hours,
        "package_versions": ", ".join(package_versions((*row.runs, *row.failures))),
        "values_chosen": values_text(row),
    }


def _interval(name: str, value: Interval | None) -> dict[str, float | None]:
    point, low, high = (value.point, value.low, value.high) if value else (None, None, None)
    return {name: point, f"{name}_low": low, f"{name}_high": high}


def _rewards(row: RewardBoardRow) -> dict[str, Any]:
    return {
        "env": row.environment,
        "algorithm": row.algorithm,
        "optimizer": row.optimizer,
        "tested_in": row.tested_in,
        "rewards": row.rewards,
        **_intervals(NUMBERS, row.scores),
    }


def _summary(summary: RewardSummary) -> dict[str, Any]:
    return {
        "algorithm": summary.algorithm,
        "optimizer": summary.optimizer,
        "environments": summary.environments,
        "rewards": summary.rewards,
        **_intervals(SUMMARY_NUMBERS, summary.scores),
    }


def _intervals(names: Iterable[str], scores: Mapping[str, Interval]) -> dict[str, float | None]:
    return {key: end for name in names for key, end in _interval(name, scores.get(name)).items()}


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
        "score_likely_mean": cell.score_likely,
        "mean_length": cell.mean_length,
        **_measured("success_rate", cell.success_rate),
    }


def _measured(name: str, value: float | None) -> dict[str, float]:
    """Returns an entry of what is measured in some environments only."""
    return {} if value is None else {name: value}


def _runs(row: BoardRow) -> list[dict[str, Any]]:
    if row.imported is not None:
        return [run.model_dump(exclude_none=True) for run in row.imported.runs]
    return [
        {
            "run_id": run.run.spec.run_id,
            "spec_digest": run.run.spec.digest,
            "submitted_by": run.submitter,
            **_columns(run.row, "env", "seed", "raw_return", "score", "score_deterministic",
                       "score_likely", "mean_length", "env_steps", "wall_s", "finished_at"),
            **_measured("success_rate", run.row.success_rate),
            "episodes": run.episodes,
            "isolated": run.run.isolated,
        }
        for run in row.runs
    ]  # fmt: skip


def _columns(row: RunRow, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


_QUIET = "Mean score of the same policies taking their most likely actions."
_OVERALL = (
    "Tier", "Algorithm", "Submitted by", "Values", "Mean score", "Worst task", "IQM score",
    LIKELY[0], "Steps", "Demonstrations", "Environments", "Seeds", "Failed runs",
)  # fmt: skip


def render_markdown(board: Board) -> str:
    """Writes every table of a board as GitHub-flavoured Markdown, in which names are escaped."""
    blocks = [f"# {escape(board.title)}"]
    if not board.sections:
        blocks.append(text.EMPTY)
    for part in board.sections:
        blocks += render_section(part, board)
    for comparison in board.regimes:
        blocks.append(f"## {escape(f'Score by regime: {comparison.title}')}")
        for regime_table in regime_tables(comparison, board.method.level):
            blocks += _under(regime_table.title.removeprefix(f"{comparison.title}, "), regime_table)
    return "\n\n".join(blocks) + "\n"


def _under(heading: str, given: Table) -> list[str]:
    return [f"### {escape(heading)}", *laid_out(given)]


def render_section(part: BoardSection, board: Board) -> list[str]:
    """Returns the blocks of one section of a board, its heading first."""
    section = part.section
    conditions = escape(text.conditions(section, Report(board.method, (), ())))
    overall = [_overall(row, part) for row in part.rows]
    names = _names(part.rows)
    single = [
        (name, *(_markdown_cell(cell, row) for cell in row.result.cells))
        for name, row in zip(names, part.rows, strict=True)
    ]
    quiet = [
        (name, *(text.score(cell.score_deterministic) for cell in row.result.cells))
        for name, row in zip(names, part.rows, strict=True)
        if row.kind == "run"
    ]
    environments = [escape(env) for env in section.environments]
    success = success_table([row.result for row in part.rows], board.method.episodes)
    return [
        f"## {escape(part.title)}",
        "\n".join(f"- {escape(sentence)}" for sentence in answer_of(part, board.method).sentences),
        table(_OVERALL, overall, names=4),
        f"Seeds are per environment. {': '.join(LIKELY)} {conditions}",
        table(("Algorithm", *environments), single, names=1),
        "Mean return (mean score) of each environment.",
        *([table(("Algorithm", *environments), quiet, names=1), _QUIET] if quiet else []),
        *(_under("Success", success) if success.rows else []),
        *(laid_out(summary_table(section.reward_summaries)) if section.reward_summaries else []),
        *(laid_out(reward_table(section.rewards)) if section.rewards else []),
        *(["\n".join(f"- {escape(note)}" for note in section.notes)] if section.notes else []),
    ]


def _overall(row: BoardRow, part: BoardSection) -> tuple[str, ...]:
    result = row.result
    return (
        model.tier_text(row),
        _name(row),
        escape(model.submitter_text(row)),
        values_text(row),
        text.score(None if result.mean is None else result.mean.point),
        escape(model.worst_task(row)),
        model.interval(result.iqm, row),
        text.NOTHING if result.iqm_likely is None else model.interval(result.iqm_likely, row),
        model.amount(row.env_steps),
        ", ".join(map(str, row.n_demos)) or text.NOTHING,
        f"{len(result.covered)} of {len(part.section.environments)}",
        model.seeds(row),
        str(result.failures),
    )


def _name(row: BoardRow) -> str:
    name = escape(text.marked_name(replace(row.result, algorithm=row.name)))
    if row.isolated is False and not row.result.uses_reward:
        name += " (not isolated)"
    if row.raced:
        name += " (registered race)"
    if not row.checked:
        name += " (checks failed)"
    return name if row.kind in ("run", "missing") else f"{name} ({row.kind})"


def _names(rows: Sequence[BoardRow]) -> list[str]:
    """Returns the names of rows, with the submitter if several rows have the same name."""
    shared = Counter((row.name, row.kind) for row in rows)
    return [
        f"{_name(row)}, {escape(model.submitter_text(row))}"
        if shared[row.name, row.kind] > 1
        else _name(row)
        for row in rows
    ]


def _markdown_cell(cell: CellResult, row: BoardRow) -> str:
    if cell.raw_mean is None and cell.score is None:
        return text.NOTHING if row.kind != "missing" else text.raw_spread(cell)
    return f"{text.raw(cell.raw_mean)} ({text.score(cell.score)})"
