"""Rows of other tools' results: beside own ones, and never among them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from imitbench.published.results_sources import ExternalResults
from imitbench.records.runs import ScoreRow
from imitbench.report.leaderboard.model import BoardRow, ImportSource
from imitbench.report.leaderboard.names import external_page
from imitbench.report.model import AlgorithmResult, CellResult, Section, StatisticsSettings
from imitbench.report.tables import build_report
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalRun


def external_rows(
    section: Section, method: StatisticsSettings, imports: Sequence[ExternalResults], *, anchor: str
) -> list[BoardRow]:
    """Rows of the imported results that fit a section, by label and algorithm.

    A completed run fits if it is on one of the section's environments, and names no other suite
    and no other number of demonstrations. Whatever its budget and the source of its
    demonstrations were is not compared: the row's page says it.

    Args:
        section: The section.
        method: How intervals are made.
        imports: The imports.
        anchor: Where on their pages the section's runs are.
    """
    made = []
    for results in imports:
        for (algo, config), runs in sorted(_fitting(section, results.runs).items()):
            header = results.header
            variant = f" [{config[:8]}]" if config else ""
            key = f"{header.name}: {algo}{variant}"
            rows = list(_score_rows(section, key, runs))
            report = build_report(rows, [], [], replicates=method.replicates, seed=method.seed)
            [built] = report.sections
            [result] = [each for each in built.algorithms if each.algorithm == key]
            made.append(
                BoardRow(
                    rank=None,
                    name=f"{algo}{variant}",
                    kind="external",
                    submitters=(),
                    result=_over(section, result),
                    page=external_page(header.name, section.suite, algo + variant),
                    anchor=anchor,
                    imported=ImportSource(header.name, header.tool, header.source, tuple(runs)),
                )
            )
    return made


def _over(section: Section, result: AlgorithmResult) -> AlgorithmResult:
    """The same with a cell for every environment of the section."""
    cells = {cell.environment: cell for cell in result.cells}
    everywhere = (cells.get(env, CellResult(env, "missing")) for env in section.environments)
    return replace(result, cells=tuple(everywhere))


def _fitting(
    section: Section, runs: Sequence[ExternalRun]
) -> dict[tuple[str, str], list[ExternalRun]]:
    """Runs by algorithm and settings; settings are named only where there are several."""
    fitting: dict[str, list[ExternalRun]] = defaultdict(list)
    for run in runs:
        if run.status == "completed" and run.algo is not None and _fits(section, run):
            fitting[run.algo].append(run)
    found: dict[tuple[str, str], list[ExternalRun]] = defaultdict(list)
    for algo, own in fitting.items():
        several = any(
            len({run.config for run in own if run.env == env}) > 1 for env in section.environments
        )
        for run in own:
            found[algo, (run.config or "") if several else ""].append(run)
    return found


def _fits(section: Section, run: ExternalRun) -> bool:
    named = replace(Conditions.of(run), budget=None, source=None)
    return run.env in section.environments and named.compatible(section.conditions)


def _score_rows(section: Section, key: str, runs: Sequence[ExternalRun]) -> Iterator[ScoreRow]:
    """Rows as own runs have them; runs without a seed are numbered."""
    for number, run in enumerate(runs):
        score = run.any_score
        deterministic = run.score_deterministic
        yield ScoreRow(
            run_id=str(number),
            suite=section.suite,
            env=run.env or "",
            algo=key,
            seed=number,
            budget=section.conditions.budget or "",
            n_demos=None,
            all_demos=None,
            source=None,
            uses_reward=False,
            role="method",
            raw_return=math.nan if run.raw_return is None else run.raw_return,
            score=math.nan if score is None else score,
            score_deterministic=math.nan if deterministic is None else deterministic,
            termination_rate=math.nan,
            mean_length=math.nan if run.mean_length is None else run.mean_length,
            env_steps=run.env_steps or 0,
            train_s=math.nan,
            wall_s=run.wall_s or 0.0,
            finished_at=run.finished_at or "",
        )
