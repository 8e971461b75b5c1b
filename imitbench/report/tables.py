"""Builds the report's model from database rows: groups, averages and sorts them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from imitbench.cards.algorithm import Role
from imitbench.cards.budgets import budget_order
from imitbench.records.bundled_cards import bundled_suite, likely_score, measured_references
from imitbench.records.reward_scores import RewardScoreRow
from imitbench.records.runs import FailureRow, MeasureRow, Protocol, ReferenceRow, RunRow, ScoreRow
from imitbench.records.selection import Acting, ActingChoice
from imitbench.report.comparison_runs import ways_of_acting
from imitbench.report.measures import summarize_measures
from imitbench.report.model import (
    ANCHORS,
    DEMONSTRATIONS,
    EXPERT,
    RANDOM,
    AlgorithmResult,
    CellResult,
    Report,
    RunCost,
    Section,
    StatisticsSettings,
    plain_name,
)
from imitbench.report.notes import section_notes
from imitbench.report.report_tables import extra_tables, spanning_tables
from imitbench.report.reward_board import reward_board, reward_summaries
from imitbench.stats.aggregates import (
    Statistic,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
)
from imitbench.stats.bootstrap import Interval, ReferenceErrors, stratified_bootstraps
from imitbench.stats.coverage import FailurePolicy, count_failures
from imitbench.stats.normalization import has_scale, normalize
from imitbench.stats.strata import FloatArray
from imitbench.store.comparability import Conditions, whole_conditions
from imitbench.store.external_results import ExternalScoreRow

LEVEL = 0.95
SECONDS_PER_HOUR = 3600.0

Aggregate = Literal["mean", "iqm", "median", "gap"]
AGGREGATES: tuple[Aggregate, ...] = ("mean", "iqm", "median", "gap")
_STATISTICS: dict[Aggregate, Statistic] = {
    "mean": mean, "iqm": interquartile_mean, "median": median, "gap": optimality_gap
}  # fmt: skip


def build_report(
    scores: Sequence[ScoreRow],
    failures: Sequence[FailureRow],
    references: Sequence[ReferenceRow],
    measures: Sequence[MeasureRow] = (),
    *,
    imported: Sequence[ExternalScoreRow] = (),
    failed_runs: FailurePolicy = FailurePolicy.EXCLUDE,
    replicates: int = 50_000,
    seed: int = 0,
    episodes: int | None = Protocol().episodes,
    aggregates: Sequence[Aggregate] = AGGREGATES,
    acting: ActingChoice | None = None,
    rewards: Sequence[RewardScoreRow] = (),
    defining: Collection[str] | None = None,
) -> Report:
    """Builds the report; the order of the rows does not matter.

    Runs are averaged only if they share suite, budget, number of demonstrations and source; each
    such group is a section. The reference policies `random` and `expert` (anchors) do not train, so
    they are in every section of their suite (the expert only with runs of its own source). Where
    an anchor was not run, its reference replaces it: 0 and 1 by definition. Without an expert, the
    demonstrators' own return is shown instead. Methods that use no demonstrations are in all
    sections of their budget and source.

    Args:
        scores: Completed runs.
        failures: Failed runs.
        references: References of the environments.
        measures: Further measurements of the completed runs.
        imported: Completed runs of other tools, which are shown in separate tables.
        failed_runs: How failed runs count.
        replicates: Number of bootstrap replicates of each interval.
        seed: Seed of the bootstrap. The bootstrap of every algorithm starts from it, so that its
            interval does not depend on the other algorithms in the report.
        episodes: Evaluation episodes per run, as far as the caller knows.
        aggregates: Aggregates to compute, `mean` and `iqm` among them; others are `None`. The
            numbers do not depend on the choice.
        acting: Ways of acting to show; `None` for both where the scores of both are known.
        rewards: Numbers about learned rewards of the completed runs.
        defining: Ids of the runs whose environments a section has; runs on others are left out of
            it. `None` for all runs, which are also those of a section without any of these. Other
            runs of an anchor are left out on environments where it has some of these.

    Returns:
        The report; it has no sections if there are neither completed nor failed runs.

    Raises:
        InputError: Scores of most likely actions are required and not known.
        ValueError: `replicates` is not positive.
    """
    method = StatisticsSettings(episodes, replicates, seed, LEVEL, failed_runs, acting)
    rows = sorted(scores, key=lambda row: (row.suite, row.env, row.algo, row.seed, row.run_id))
    failed = sorted(failures, key=lambda row: (
        row.suite, row.env, row.algo, row.seed, row.run_id, row.phase, row.error_type, row.message
    ))  # fmt: skip
    needless = _needless_anchors([*rows, *failed], defining)
    rows = [row for row in rows if row.run_id not in needless]
    failed = [row for row in failed if row.run_id not in needless]
    sections = [
        section
        for suite in sorted({row.suite for row in rows} | {row.suite for row in failed})
        for section in _suite_sections(
            suite,
            [row for row in rows if row.suite == suite],
            [row for row in failed if row.suite == suite],
            [row for row in references if row.suite == suite],
            [row for row in measures if row.suite == suite],
            [row for row in rewards if row.suite == suite],
            imported,
            method,
            tuple(aggregates),
            defining,
        )
    ]
    rest = [row for row in imported if not any(_fits(row, one.conditions) for one in sections)]
    return Report(method, tuple(sections), tuple(failed), spanning_tables(rest))


def _needless_anchors(rows: Sequence[RunRow], defining: Collection[str] | None) -> set[str]:
    """Returns the ids of runs of anchors that are left out, see `build_report`.

    All submitters share the row of an anchor, so results that can have no rank must not change it.
    """
    if defining is None:
        return set()

    def cell(row: RunRow) -> tuple[str, str, str, str | None]:
        return row.suite, row.env, row.algo, row.source

    anchors = [row for row in rows if row.algo in ANCHORS]
    filled = {cell(row) for row in anchors if row.run_id in defining}
    return {row.run_id for row in anchors if row.run_id not in defining and cell(row) in filled}


def _suite_sections(
    suite: str,
    rows: list[ScoreRow],
    failures: list[FailureRow],
    references: list[ReferenceRow],
    measures: list[MeasureRow],
    rewards: list[RewardScoreRow],
    imported: Sequence[ExternalScoreRow],
    method: StatisticsSettings,
    aggregates: tuple[Aggregate, ...],
    defining: Collection[str] | None,
) -> list[Section]:
    """Returns a section for each set of conditions under which runs may be averaged."""
    roles: dict[str, Role] = {row.algo: row.role for row in [*failures, *rows]}
    roles |= dict.fromkeys((*ANCHORS, DEMONSTRATIONS), "anchor")
    card = bundled_suite(suite)
    order = (*(card.controls if card else ()), EXPERT, DEMONSTRATIONS, RANDOM)
    sections = []
    for conditions in _conditions(suite, [*rows, *failures]):
        anchors = _anchor_runs(rows, conditions)
        runs = [row for row in rows if row.algo not in ANCHORS and is_in_group(row, conditions)]
        failing = section_failures(failures, anchors, conditions)
        environments = _environments([*runs, *anchors, *failing], conditions, defining)
        runs = [row for row in runs if row.env in environments]
        failed = Counter((row.algo, row.env) for row in failing if row.env in environments)
        inside = _references_of(environments, references)
        shown = [*runs, *anchors]
        ran = {row.algo for row in shown} | {algo for algo, _ in failed}
        fixed = _reference_rows(inside)
        names = ran | fixed
        errors = {
            acting: reference_errors(inside, acting, method.seed) for acting in get_args(Acting)
        }
        results = [
            _algorithm_result(
                name,
                roles[name],
                environments,
                [row for row in shown if row.algo == name],
                failed,
                {row.env: row for row in inside} if name in fixed else {},
                errors,
                method,
                aggregates,
            )
            for name in names
        ]
        ranked = tuple(sorted(results, key=lambda result: _rank(result, order)))
        unknown = (row for row in runs or shown if not math.isfinite(row.score_likely))
        lacking = next(((row.algo, row.env) for row in unknown), None)
        ways, why = ways_of_acting(lacking, method.acting)
        counted = _ordered(ranked, shown, environments)
        ids = {row.run_id for row in counted}
        sampled_only = [f"Only sampled actions are compared: {why}."] if why else []
        learned = [row for row in rewards if is_in_group(row, conditions)]
        sections.append(
            Section(
                conditions=conditions,
                environments=environments,
                algorithms=ranked,
                references=tuple(inside),
                notes=(*section_notes(ranked, shown, inside), *sampled_only),
                measured=summarize_measures([row for row in measures if row.run_id in ids]),
                runs=counted,
                extra=extra_tables(
                    ranked,
                    inside,
                    [row for row in imported if _fits(row, conditions)],
                    method.episodes,
                ),
                acting=ways,
                rewards=reward_board(learned),
                reward_summaries=reward_summaries(learned),
            )
        )
    return sections


def _references_of(
    environments: Collection[str], references: Iterable[ReferenceRow]
) -> list[ReferenceRow]:
    """Returns the different references of environments, in the same order for the same rows."""
    found = {row for row in references if row.env in environments}
    return sorted(
        found,
        key=lambda row: (
            row.env, _natural(row.version), row.random, row.expert, row.model_dump_json()
        ),
    )  # fmt: skip


def _reference_rows(references: Sequence[ReferenceRow]) -> set[str]:
    """Returns the names of the rows that references fill where there are no runs."""
    names = set()
    # Where success is the score, references state none: a row would be empty without a run.
    if not references or any(row.score_one != "success" for row in references):
        names.add(RANDOM)
    if not references or any(row.score_one == "expert" for row in references):
        names.add(EXPERT)
    if any(row.demonstrations is not None for row in references):
        names.add(DEMONSTRATIONS)
    return names


def _fits(row: ExternalScoreRow, conditions: Conditions) -> bool:
    """Whether a run of another tool may be shown with runs under these conditions."""
    return Conditions.of(row).compatible(conditions)


def _ordered(
    results: Sequence[AlgorithmResult], rows: Sequence[ScoreRow], environments: Sequence[str]
) -> tuple[ScoreRow, ...]:
    """Returns the runs behind the cells, in the order of the cells."""
    ranks = {result.algorithm: rank for rank, result in enumerate(results)}
    shown = [row for row in rows if row.env in environments]
    return tuple(sorted(shown, key=lambda row: (row.env, ranks[row.algo], row.seed, row.run_id)))


def is_in_group(row: RunRow, conditions: Conditions) -> bool:
    """Whether a run belongs to the section of these conditions; anchors belong to all."""
    return row.algo in ANCHORS or Conditions.of(row).is_part_of(conditions)


def _conditions(suite: str, rows: Sequence[ScoreRow | FailureRow]) -> list[Conditions]:
    """Returns the conditions of trained or failed runs; without any, one per source of experts."""
    whole = whole_conditions(Conditions.of(row) for row in rows if row.algo not in ANCHORS)
    experts = {Conditions(suite, None, None, row.source) for row in rows if row.algo == EXPERT}
    return sorted(whole or experts or {Conditions(suite, None, None, None)}, key=conditions_order)


def conditions_order(
    conditions: Conditions,
) -> tuple[tuple[int, int], str, float, int, bool, str, str]:
    """Returns a key that sorts by budget and regime, from small to large ones, then by source."""
    budget, n_demos = conditions.budget, conditions.n_demos
    demos = math.inf if n_demos == "all" else n_demos or -1
    hidden = conditions.demo_actions == "hidden"
    every, mixture = -(conditions.demo_every or 1), conditions.mixture or ""
    return (
        budget_order(budget),
        budget or "",
        demos,
        every,
        hidden,
        mixture,
        conditions.source or "",
    )


def _environments(
    rows: Sequence[ScoreRow | FailureRow], conditions: Conditions, defining: Collection[str] | None
) -> tuple[str, ...]:
    """Returns the environments of a section, see `build_report`.

    Anchors, which are in every section, add one only if they ran under the section's budget.
    """
    native = [
        row for row in rows if row.algo not in ANCHORS or conditions.budget in (None, row.budget)
    ]
    due = [row for row in native if defining is None or row.run_id in defining]
    return tuple(sorted({row.env for row in due or native}))


def section_failures(
    failures: Sequence[FailureRow], completed: Sequence[ScoreRow], conditions: Conditions
) -> list[FailureRow]:
    """Returns the failed runs of a section.

    Those of an anchor count like completed ones, see `_anchor_runs`: once per environment and
    seed, and not at all where the seed completed under another budget.

    Args:
        failures: Failed runs of its suite.
        completed: Completed runs of the section, or those of its anchors.
        conditions: Its conditions.
    """
    anchors = [row for row in failures if _is_anchor_of(row, conditions)]
    anchors.sort(key=lambda row: (row.budget == conditions.budget, row.run_id))
    chosen = {(row.env, row.algo, row.seed): row for row in anchors}
    done = {(row.env, row.algo, row.seed) for row in completed}
    trained = [row for row in failures if row.algo not in ANCHORS and is_in_group(row, conditions)]
    return [*trained, *(chosen[key] for key in sorted(chosen.keys() - done))]


def _is_anchor_of(row: RunRow, conditions: Conditions) -> bool:
    """Whether a run is of an anchor of a section: the expert is that of the section's source."""
    return row.algo == RANDOM or (row.algo == EXPERT and row.source in (None, conditions.source))


def _anchor_runs(rows: list[ScoreRow], conditions: Conditions) -> list[ScoreRow]:
    """Returns the anchor runs to show in a section, one per environment and seed.

    An anchor does not train: under two budgets a seed gives the same run twice, which must not
    count as two. This takes the run under the section's budget, else the one that finished last.
    """
    fitting = [row for row in rows if _is_anchor_of(row, conditions)]
    fitting.sort(key=lambda row: (row.budget == conditions.budget, row.finished_at, row.run_id))
    chosen = {(row.env, row.algo, row.seed): row for row in fitting}
    return [chosen[key] for key in sorted(chosen)]


def _algorithm_result(
    name: str,
    role: Role,
    environments: Sequence[str],
    rows: list[ScoreRow],
    failed: Mapping[tuple[str, str], int],
    references: Mapping[str, ReferenceRow],
    errors: Mapping[Acting, ReferenceErrors],
    method: StatisticsSettings,
    aggregates: tuple[Aggregate, ...],
) -> AlgorithmResult:
    """Returns cells and aggregates of one algorithm; `references` replace missing runs."""
    by_environment: dict[str, list[ScoreRow]] = {env: [] for env in environments}
    for row in rows:
        if row.env in by_environment:  # an anchor may have runs on other environments
            by_environment[row.env].append(row)
    failures = {env: failed.get((name, env), 0) for env in environments}
    cells = tuple(
        _cell(name, env, runs, failures[env], references.get(env), method)
        for env, runs in by_environment.items()
    )
    scores = _counted(by_environment, failures, method, "sampled")
    uses_reward = any(row.uses_reward for row in rows)
    defined = [cell.score for cell in cells if cell.kind == "reference" and cell.score is not None]
    if not scores and defined:
        by_definition = Interval(float(np.mean(defined)), math.nan, math.nan, method.level)
        likely = by_definition if _are_likely(cells, method) else None
        return AlgorithmResult(name, cells, by_definition, by_definition, role, iqm_likely=likely)
    if not scores or not all(math.isfinite(score) for runs in scores.values() for score in runs):
        return AlgorithmResult(name, cells, None, None, role, uses_reward)
    found = _intervals(_key(scores), errors["sampled"], method, aggregates)
    likely = None
    if _are_likely(cells, method):
        quiet = _key(_counted(by_environment, failures, method, "likely"))
        likely = _intervals(quiet, errors["likely"], method, ("iqm",))["iqm"]
    return AlgorithmResult(
        algorithm=name,
        cells=cells,
        mean=found["mean"],
        iqm=found["iqm"],
        role=role,
        uses_reward=uses_reward,
        median=found.get("median"),
        gap=found.get("gap"),
        cost=_cost([row for runs in by_environment.values() for row in runs]),
        iqm_likely=likely,
    )


_Key = tuple[tuple[str, tuple[float, ...]], ...]


def _key(scores: Mapping[str, FloatArray]) -> _Key:
    return tuple((env, tuple(runs)) for env, runs in scores.items())


def _counted(
    runs: Mapping[str, Sequence[ScoreRow]],
    failures: Mapping[str, int],
    method: StatisticsSettings,
    acting: Acting,
) -> dict[str, FloatArray]:
    """Returns scores by environment, with failed runs counted."""
    scores = {env: [row.score_by(acting) for row in own] for env, own in runs.items() if own}
    return count_failures(scores, failures, method.failed_runs)


def _are_likely(cells: Sequence[CellResult], method: StatisticsSettings) -> bool:
    """Whether scores of most likely actions are wanted, and known on the covered environments."""
    kinds = {cell.kind for cell in cells}
    covered = [cell for cell in cells if cell.kind == ("run" if "run" in kinds else "reference")]
    return method.acting != "sampled" and all(cell.score_likely is not None for cell in covered)


def _cost(rows: Sequence[ScoreRow]) -> RunCost | None:
    """Returns the mean cost of one algorithm's completed runs; `None` without completed runs."""
    by_environment: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        demos = math.nan if row.n_demos is None else float(row.n_demos)
        costs = (row.train_s / SECONDS_PER_HOUR, float(row.env_steps), demos)
        by_environment.setdefault(row.env, []).append(costs)
    if not by_environment:
        return None
    means = [np.mean(by_environment[env], axis=0) for env in sorted(by_environment)]
    hours, steps, demos = (float(value) for value in np.mean(means, axis=0))
    return RunCost(hours, steps, None if math.isnan(demos) else demos)


@lru_cache(maxsize=8)
def _intervals(
    scores: _Key,
    errors: ReferenceErrors,
    method: StatisticsSettings,
    aggregates: tuple[Aggregate, ...],
) -> dict[str, Interval]:
    """Returns aggregates of scores by environment; cached, as anchors are in many sections."""
    return stratified_bootstraps(
        dict(scores),
        {name: _STATISTICS[name] for name in aggregates},
        replicates=method.replicates,
        level=method.level,
        rng=np.random.default_rng(method.seed),
        errors=errors,
    )


def reference_errors(
    references: Sequence[ReferenceRow], acting: Acting, seed: int
) -> ReferenceErrors:
    """Returns the standard errors of references that are on bundled cards.

    Args:
        references: References of a section.
        acting: Way of acting of the policies, and of the expert that has score 1.
        seed: Seed of the bootstrap.
    """
    found = []
    for row in references:
        known = measured_references(row.suite, row.env, row)
        if known is None:
            continue
        one = known.expert if acting == "sampled" else known.expert_likely
        if one is not None and has_scale(row.random, one.mean):
            span = one.mean - row.random
            error = (known.random.standard_error / span, one.standard_error / span)
            found.append((row.env, *error))
    return ReferenceErrors(tuple(found), seed)


def _cell(
    name: str,
    env: str,
    runs: list[ScoreRow],
    failures: int,
    reference: ReferenceRow | None,
    method: StatisticsSettings,
) -> CellResult:
    """Returns the cell of an algorithm on an environment: from runs, else from its reference."""
    counted = failures if method.failed_runs is FailurePolicy.COUNT_AS_RANDOM else 0
    if not runs and counted:
        return CellResult(env, "run", failures=failures, score=0.0)
    if not runs:
        raw = _reference_return(name, reference) if reference else None
        if reference is None or raw is None:
            return CellResult(env, "missing", failures=failures)
        score = normalize(raw, reference.random, reference.expert)
        known = None if math.isnan(score) else score
        second = likely_score(reference.suite, env, reference, score)
        likely = known if name in ANCHORS and math.isfinite(second) else None
        return CellResult(
            env, "reference", failures=failures, raw_mean=raw, score=known, score_likely=likely
        )
    success = tuple(row.success_rate for row in runs if row.success_rate is not None)
    columns = np.array([
        (row.raw_return, row.score, row.score_deterministic, row.mean_length, row.termination_rate,
         row.score_likely)
        for row in runs
    ])  # fmt: skip
    raw_mean, score_mean, deterministic, length, ended, likely = map(float, columns.mean(axis=0))
    return CellResult(
        environment=env,
        kind="run",
        seeds=len({row.seed for row in runs}),
        runs=len(runs),
        failures=failures,
        raw_mean=raw_mean,
        raw_std=float(columns[:, 0].std(ddof=1)) if len(runs) > 1 else None,
        score=score_mean * len(runs) / (len(runs) + counted),
        score_deterministic=deterministic * len(runs) / (len(runs) + counted),
        score_likely=likely * len(runs) / (len(runs) + counted) if math.isfinite(likely) else None,
        mean_length=length,
        termination_rate=ended,
        success=success if len(success) == len(runs) else None,
    )


def _reference_return(name: str, reference: ReferenceRow) -> float | None:
    """Returns the return that a reference states for a row; `None` if it states none."""
    if reference.score_one == "success":
        return None
    if name == RANDOM:
        return reference.random
    if name == DEMONSTRATIONS:
        return reference.demonstrations
    return reference.expert if reference.score_one == "expert" else None


def _rank(result: AlgorithmResult, order: Sequence[str]) -> tuple[int, int, float, float, str]:
    """Returns the sort key: by role; methods by IQM, then mean, best first; without IQM last.

    Args:
        result: Result to sort.
        order: Order of the names of algorithms that are not methods; other names follow.
    """
    name = plain_name(result.algorithm)
    position = order.index(name) if result.role != "method" and name in order else len(order)
    iqm = -result.iqm.point if result.iqm else math.inf
    average = -result.mean.point if result.mean else math.inf
    return get_args(Role).index(result.role), position, iqm, average, result.algorithm


def _natural(version: str) -> tuple[tuple[int, str], ...]:
    """Returns a sort key that puts version 10 after version 9."""
    parts = version.replace("-", ".").split(".")
    return tuple(
        (int(part), "") if part.isdecimal() and len(part) < 20 else (-1, part) for part in parts
    )
