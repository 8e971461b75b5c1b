"""Writes the numbers of the report for programs: as one CSV table, and as one JSON document."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

from imitbench.report.model import (
    AlgorithmResult,
    CellResult,
    MeasureSummary,
    Report,
    ReportedRace,
    Section,
    StatisticsSettings,
)
from imitbench.report.race_tables import race_document, verdicts_of
from imitbench.report.regimes import change_rows, regime_document
from imitbench.stats.bootstrap import Interval
from imitbench.untrusted.csv_text import csv_text
from imitbench.util.quantities import json_value
from imitbench.version import __version__

COLUMNS = (
    "suite", "budget", "n_demos", "source", "row", "algorithm", "environment", "kind", "seeds_min",
    "seeds_max", "runs", "failed", "environments_covered", "environments_total", "raw_return_mean",
    "raw_return_std", "score_mean", "score_mean_low", "score_mean_high", "score_iqm",
    "score_iqm_low", "score_iqm_high", "score_median", "score_median_low", "score_median_high",
    "optimality_gap", "optimality_gap_low", "optimality_gap_high", "core_hours", "env_steps",
    "demos", "failed_runs", "score_deterministic_mean", "mean_length", "termination_rate",
    "uses_reward", "role", "measure", "measure_mean", "measure_std", "reference_random",
    "reference_expert", "reference_version", "episodes", "replicates", "bootstrap_seed", "level",
    "score_one", "baseline", "verdict", "difference", "difference_low", "difference_high",
    "score_iqm_likely", "score_iqm_likely_low", "score_iqm_likely_high", "score_likely_mean",
    "demo_every", "demo_actions", "mixture", "success_rate",
    "regime", "other_regime", "rank", "other_rank", "other_difference", "kendall_tau", "p_value",
    "p_interaction",
)  # fmt: skip
"""The header line; `render_csv` explains the columns."""

FORMAT = "imitbench-report"
VERSION = 1

Value: TypeAlias = str | int | float | None


def render_csv(report: Report) -> str:
    """Writes the report as CSV with the header `COLUMNS`.

    `row` is `cell` for one algorithm on one environment, `aggregate` for one algorithm over the
    environments it covers (`environment` is empty then), and `measure` for a further measurement,
    which has only the columns of that name. `race` rows have the verdict of a registered race on an
    algorithm and its `baseline`, on one environment or overall, with the difference of mean scores
    and its repeated interval; `seeds_max` is the number of seeds that it took. Three kinds of rows
    are on two regimes of a suite, see `imitbench.stats.rank_changes`: `regimes` has Kendall's tau
    of the order of methods and the p-values of both tests, `rank` the ranks of an algorithm, and
    `order` an algorithm that scores below its `baseline` in the first regime and above it in the
    other, with the differences of their IQM scores and p, corrected for all pairs. `kind` says
    whether the numbers come from completed runs (`run`), from the suite's references (`reference`),
    or do not exist (`missing`). `score_mean` is over seeds in cells and over environments in
    aggregates; the intervals `_low` to `_high` and the IQM are given for aggregates.
    `raw_return_std` is the sample standard deviation over runs. `failed` is the number of failed
    runs, and `failed_runs` says how they count. `core_hours` (of training), `env_steps` and `demos`
    are means over environments of means over completed runs. `termination_rate` is the share of
    episodes that ended before a time limit, and `success_rate` of those that succeeded, where that
    is measured. `role` is method, reference, control or anchor.
    `score_one` says whose return is score 1: expert, demonstrations, or card for a number on the
    suite's card; with success, scores are shares of successful episodes. `score_iqm_likely` and
    `score_likely_mean` are of the same policies' most likely actions, with those of the expert as
    score 1.

    Lines end in single newlines. Numbers have ten significant digits; missing values are empty.
    """
    sections = (row for section in report.sections for row in _section_rows(section, report.method))
    races = (row for race in report.races for row in _race(race))
    regimes = (row for comparison in report.regimes for row in change_rows(comparison))
    return csv_text(COLUMNS, itertools.chain(sections, regimes, races))


def render_json(report: Report) -> str:
    """Writes a report as JSON.

    Each entry of `sections` has comparable runs: `rows` with the columns of `render_csv`, without
    empty fields; `notes` in whole sentences; `runs` with the completed runs behind the numbers, as
    in the view `scores` of the database. `failures` has every failed run. `regimes` compares the
    methods of sections that differ in the demonstrations only. Numbers that JSON lacks are null.
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
                    for row in _section_rows(section, report.method)
                ],
                "runs": [row.model_dump(mode="json") for row in section.runs],
            }
            for section in report.sections
        ],
        "failures": [row.model_dump(mode="json") for row in report.failures],
    }
    if report.regimes:
        level = report.method.level
        document["regimes"] = [regime_document(one, level) for one in report.regimes]
    if report.races:
        document["races"] = [race_document(race.design, race.found) for race in report.races]
    return json.dumps(json_value(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _race(race: ReportedRace) -> Iterator[dict[str, Value]]:
    for verdict in verdicts_of(race.design, race.found):
        yield {
            "suite": race.design.suite,
            "row": "race",
            "algorithm": verdict.method,
            "environment": verdict.environment,
            "baseline": verdict.baseline,
            "verdict": verdict.verdict,
            "seeds_max": verdict.seeds,
            "difference": verdict.difference,
            "difference_low": verdict.low,
            "difference_high": verdict.high,
        }


def _section_rows(section: Section, method: StatisticsSettings) -> Iterator[dict[str, Value]]:
    """Yields the rows of a section for `render_csv`, by column; empty fields may be absent."""
    shared: dict[str, Value] = {
        **asdict(section.conditions),
        "episodes": method.episodes,
        "replicates": method.replicates,
        "bootstrap_seed": method.seed,
        "level": method.level,
        "failed_runs": method.failed_runs.value,
    }
    references = {row.env: row for row in section.references}
    kinds = sorted(section.score_one)
    for result in section.algorithms:
        yield {**shared, "score_one": "+".join(kinds) or None, **_aggregate(result)}
    for index, environment in enumerate(section.environments):
        anchors: dict[str, Value] = {}
        if (reference := references.get(environment)) is not None:
            anchors = {
                "reference_random": reference.random,
                "reference_expert": reference.expert,
                "reference_version": reference.version,
                "score_one": reference.score_one,
            }
        for result in section.algorithms:
            yield {**shared, **anchors, **_cell(result, result.cells[index])}
    for measured in section.measured:
        yield {**shared, **_measured(measured)}


def _aggregate(result: AlgorithmResult) -> dict[str, Value]:
    fewest, most = result.seeds
    return {
        "row": "aggregate",
        "algorithm": result.algorithm,
        "kind": result.kind,
        "seeds_min": fewest,
        "seeds_max": most,
        "runs": sum(cell.runs for cell in result.covered),
        "failed": result.failures,
        "environments_covered": len(result.covered),
        "environments_total": len(result.cells),
        "uses_reward": result.uses_reward,
        "role": result.role,
        **_interval("score_mean", result.mean),
        **_interval("score_iqm", result.iqm),
        **_interval("score_iqm_likely", result.iqm_likely),
        **_interval("score_median", result.median),
        **_interval("optimality_gap", result.gap),
        **(asdict(result.cost) if result.cost else {}),
    }


def _interval(column: str, interval: Interval | None) -> dict[str, Value]:
    if interval is None:
        return {}
    ends = {f"{column}_low": interval.low, f"{column}_high": interval.high}
    return {column: interval.point, **(ends if interval.known else {})}


def _measured(measured: MeasureSummary) -> dict[str, Value]:
    return {
        "row": "measure",
        "algorithm": measured.algorithm,
        "environment": measured.environment,
        "runs": measured.runs,
        "measure": measured.measure,
        "measure_mean": measured.mean,
        "measure_std": measured.std,
    }


def _cell(result: AlgorithmResult, cell: CellResult) -> dict[str, Value]:
    return {
        "row": "cell",
        "algorithm": result.algorithm,
        "environment": cell.environment,
        "kind": cell.kind,
        "seeds_min": cell.seeds,
        "seeds_max": cell.seeds,
        "runs": cell.runs,
        "failed": cell.failures,
        "raw_return_mean": cell.raw_mean,
        "raw_return_std": cell.raw_std,
        "score_mean": cell.score,
        "score_deterministic_mean": cell.score_deterministic,
        "score_likely_mean": cell.score_likely,
        "mean_length": cell.mean_length,
        "termination_rate": cell.termination_rate,
        "success_rate": cell.success_rate,
        "uses_reward": result.uses_reward,
        "role": result.role,
    }
