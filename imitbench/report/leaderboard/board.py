"""Builds the board from results: assigns runs to tables, and ranks and sorts rows.

Runs of a table share their suite, the version of its card, and the references of every environment;
runs of different submitters have rows of their own. The version of this package does not separate
runs: a run's specification has everything that determines its numbers, and whatever changes them (a
default, an implementation, demonstrations) changes the specification. Rows show the versions that
made them.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from imitbench.published.claim_outcomes import compare_claims
from imitbench.published.claims import Claim
from imitbench.published.results_sources import ExternalResults, LoadedResults, ResultsSource
from imitbench.records.bundled_cards import bundled_suite, likely_score, role_of
from imitbench.records.published import PublishedRun
from imitbench.records.reward_scores import RewardScoreRow
from imitbench.records.runs import (
    FailureRow,
    ReferenceRow,
    ReferenceScores,
    RunRow,
    RunSpec,
    ScoreRow,
)
from imitbench.report.leaderboard.model import (
    Board,
    BoardFailure,
    BoardRow,
    BoardRun,
    BoardSection,
    ImportSource,
    episodes_folder,
    external_page,
    page_of,
    section_anchor,
)
from imitbench.report.leaderboard.regimes import board_regimes
from imitbench.report.leaderboard.row_facts import trained_again_of_row
from imitbench.report.leaderboard.standings import (
    headline_first,
    shared_notes,
    with_tiers,
)
from imitbench.report.model import (
    ANCHORS,
    AlgorithmResult,
    CellResult,
    Report,
    Section,
    StatisticsSettings,
    method_colors,
    plain_name,
)
from imitbench.report.tables import LEVEL, build_report, is_in_group, section_failures
from imitbench.stats.coverage import FailurePolicy
from imitbench.store.comparability import Conditions, current_run_ids, run_row
from imitbench.store.external_results import ExternalRun


def external_rows(
    section: Section, method: StatisticsSettings, imports: Sequence[ExternalResults], *, anchor: str
) -> list[BoardRow]:
    """Returns rows of the imported results that fit a section, by label and algorithm.

    A completed run fits if it is on one of the section's environments, and does not name another
    suite or number of demonstrations. Its budget and its source of demonstrations are not
    compared; the row's page shows them.
    """
    made = []
    for results in imports:
        for (algo, config), runs in sorted(_fitting(section, results.runs).items()):
            header = results.header
            variant = f" [{config[:8]}]" if config else ""
            key = f"{header.name}: {algo}{variant}"
            rows = list(_score_rows(section, key, runs))
            report = build_report(
                rows,
                [],
                [],
                replicates=method.replicates,
                seed=method.seed,
                aggregates=("mean", "iqm"),
            )
            [built] = report.sections
            [result] = [algorithm for algorithm in built.algorithms if algorithm.algorithm == key]
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
    """Returns the result with a cell for every environment of the section."""
    cells = {cell.environment: cell for cell in result.cells}
    everywhere = (cells.get(env, CellResult(env, "missing")) for env in section.environments)
    return replace(result, cells=tuple(everywhere))


def _fitting(
    section: Section, runs: Sequence[ExternalRun]
) -> dict[tuple[str, str], list[ExternalRun]]:
    """Returns runs by algorithm and settings; settings are named only if there are several."""
    fitting: dict[str, list[ExternalRun]] = defaultdict(list)
    for run in runs:
        named = replace(Conditions.of(run), budget=None, source=None)
        fits = run.env in section.environments and named.compatible(section.conditions)
        if run.status == "completed" and run.algo is not None and fits:
            fitting[run.algo].append(run)
    found: dict[tuple[str, str], list[ExternalRun]] = defaultdict(list)
    for algo, own in fitting.items():
        several = any(
            len({run.config for run in own if run.env == env}) > 1 for env in section.environments
        )
        for run in own:
            found[algo, (run.config or "") if several else ""].append(run)
    return found


def _score_rows(section: Section, key: str, runs: Sequence[ExternalRun]) -> Iterator[ScoreRow]:
    """Yields rows in the form of own runs; runs without a seed are numbered."""
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


def build_board(
    found: LoadedResults,
    *,
    title: str,
    replicates: int,
    failed_runs: FailurePolicy = FailurePolicy.COUNT_AS_RANDOM,
    submit_to: str | None = None,
    claims: Sequence[Claim] = (),
) -> Board:
    """Builds the board; the same results give the same board.

    Rows are those of `imitbench.report.tables.build_report`. Ranks are by IQM, and only among
    algorithms that have runs on every environment of their table. Results that have no rank add no
    environment, so that they take the rank of no others. External results, if there are any, are
    shown in the same tables, but neither ranked nor averaged with the others.

    Args:
        found: Results by submitter, and imports.
        title: Title of the board.
        replicates: Number of bootstrap replicates of each interval.
        failed_runs: How failed runs count.
        submit_to: Address of the repository that takes submissions, if there is one.
        claims: Figures of papers to show beside the runs.
    """
    every = make_rows(found.sources)
    method = StatisticsSettings(every.episodes, replicates, 0, LEVEL, failed_runs)
    colors = _colors(every)
    defining = _defining(every, found.sources)
    sections = []
    for version, rows in separate(every):
        report = build_report(
            rows.scores,
            rows.failures,
            rows.references,
            failed_runs=failed_runs,
            replicates=replicates,
            seed=method.seed,
            episodes=every.episodes,
            aggregates=("mean", "iqm"),
            rewards=rows.rewards,
            defining=defining,
        )
        for section in report.sections:
            anchor = section_anchor(section, version)
            found_rows = _own_rows(section, anchor, rows, report, found.sources, colors)
            standings = with_tiers(found_rows, method)
            own = standings.rows
            others = external_rows(section, method, found.external, anchor=anchor)
            last = [row for row in own if row.result.role != "method"]
            contenders = [row for row in own if row.result.role == "method"]
            shown = (*contenders, *others, *last)
            left_out = _left_out_notes(section, rows, found.sources)
            noted = replace(section, notes=(*section.notes, *shared_notes(own), *left_out))
            sections.append(
                BoardSection(
                    noted, shown, anchor, version,
                    standings.pairs, standings.likely_pairs, standings.decided,
                )
            )  # fmt: skip
    suites = dict.fromkeys(part.section.suite for part in sections)
    ordered = [
        part
        for suite in suites
        for part in headline_first([part for part in sections if part.section.suite == suite])
    ]
    regimes = board_regimes(sections, method)
    sound = [run for source in found.sources if source.sound for run in source.runs]
    compared = tuple(compare_claims(claims, sound))
    return Board(title, method, found.sources, tuple(ordered), submit_to, regimes, compared)


def _defining(rows: ReportRows, sources: Sequence[ResultsSource]) -> set[str]:
    """Returns the ids of the rows whose environments tables have: those that can have a rank."""
    return {
        run_id
        for run_id, entry in rows.entries.items()
        if sources[entry.source].sound and _may_be_on_card(entry.run)
    }


def _may_be_on_card(run: PublishedRun) -> bool:
    """Whether its suite has the environment; true if the card of that version is unknown."""
    card = bundled_suite(run.spec.suite)
    version, _, _ = run.outcome.references.version.partition("+")
    return card is None or version != card.version or run.spec.environment.id in card.environments


def _left_out_notes(
    section: Section, rows: ReportRows, sources: Sequence[ResultsSource]
) -> list[str]:
    """Returns whose runs are on environments that the section does not have."""
    shown: list[ScoreRow | FailureRow] = [*rows.scores, *rows.failures]
    counts = Counter(
        (row.env, sources[rows.entries[row.run_id].source].name or "own runs")
        for row in shown
        if row.env not in section.environments and row.algo not in ANCHORS
        if is_in_group(row, section.conditions)
    )
    return [
        f"Left out: {count} run{'s' * (count > 1)} of {name} on {env}, where no results have runs "
        "that can have a rank."
        for (env, name), count in sorted(counts.items())
    ]


def _colors(rows: ReportRows) -> dict[str, tuple[int, int]]:
    """Returns the numbers of the color of each row, and of its method.

    Those of several submitters are the same. A row of other values than the default has a color of
    its own, by which both can be told apart in one drawing.
    """
    shown: list[RunRow] = [*rows.scores, *rows.failures]
    names = {row.algo: rows.names.get(row.algo, row.algo) for row in shown if row.role == "method"}
    whole = {name: plain_name(name) for name in names.values()}
    numbers = method_colors({*whole, *whole.values()})
    return {key: (numbers[name], numbers[whole[name]]) for key, name in names.items()}


def _own_rows(
    section: Section,
    anchor: str,
    rows: ReportRows,
    report: Report,
    sources: Sequence[ResultsSource],
    colors: Mapping[str, tuple[int, int]],
) -> list[BoardRow]:
    runs: dict[str, list[BoardRun]] = defaultdict(list)
    for row in section.runs:
        runs[row.algo].append(_run(row, rows, sources))
    failures: dict[str, list[BoardFailure]] = defaultdict(list)
    of_suite = [failure for failure in report.failures if failure.suite == section.suite]
    for failure in section_failures(of_suite, section.runs, section.conditions):
        if failure.env in section.environments:
            entry = rows.entries[failure.run_id]
            failed = BoardFailure(failure, entry.run, sources[entry.source].name)
            failures[failure.algo].append(failed)
    made = []
    unchecked = {source.name for source in sources if source.failed}
    refuted = {source.name for source in sources if source.refuted}
    later = {source.name: source.superseded_by for source in sources if source.superseded_by}
    unranked = {source.name for source in sources if not source.sound}

    def whose(name: str) -> list[str]:
        names = [run.submitter for run in runs[name]]
        return list(dict.fromkeys(names + [failure.submitter for failure in failures[name]]))

    def eligible(result: AlgorithmResult) -> bool:
        complete = result.kind == "run" and not result.partial and result.iqm is not None
        return complete and unranked.isdisjoint(whose(result.algorithm))

    complete = [result for result in section.algorithms if eligible(result)]
    others = [result for result in section.algorithms if not eligible(result)]
    methods = [result.algorithm for result in complete if result.role == "method"]
    ranks = {name: rank for rank, name in enumerate(methods, start=1)}
    for result in (*complete, *others):
        name = result.algorithm
        has_page = bool(runs[name] or failures[name])
        color, method_color = colors.get(name, (None, None))
        made.append(
            BoardRow(
                rank=ranks.get(name),
                name=rows.names.get(name, name),
                kind=result.kind,
                submitters=tuple(whose(name)),
                result=result,
                runs=tuple(runs[name]),
                failures=tuple(failures[name]),
                page=page_of(section.suite, name) if has_page else None,
                anchor=anchor,
                color=color,
                method_color=method_color,
                checked=unchecked.isdisjoint(whose(name)),
                refuted=not refuted.isdisjoint(whose(name)),
                superseded_by=tuple(
                    later[submitter] for submitter in whose(name) if submitter in later
                ),
                trained_again=trained_again_of_row(runs[name], sources),
                raced=_all_raced((*runs[name], *failures[name]), sources),
                disclosures=tuple(
                    stated
                    for source in sources
                    if source.name in whose(name)
                    for stated in source.disclosures
                    if stated.row == (section.suite, rows.names.get(name, name))
                ),
            )
        )
    return made


def _all_raced(runs: Sequence[BoardRun | BoardFailure], sources: Sequence[ResultsSource]) -> bool:
    """Whether each run belongs to a registered race of its submitter."""
    designs = {source.name: [race.design for race in source.races] for source in sources}
    return bool(runs) and all(
        any(design.has(run.run) for design in designs[run.submitter]) for run in runs
    )


def _run(row: ScoreRow, rows: ReportRows, sources: Sequence[ResultsSource]) -> BoardRun:
    entry = rows.entries[row.run_id]
    name = sources[entry.source].name
    folder = episodes_folder(name, row.suite)
    return BoardRun(row, entry.run, name, f"{folder}/{entry.run.spec.run_id}.csv")


_MEASURED = {"raw_return", "termination_rate", "success_rate", "mean_length", "env_steps",
             "train_s", "wall_s", "finished_at"}  # fmt: skip
_Scale = tuple[str, str, int]
_Reference = tuple[str, float, float]


@dataclass(frozen=True)
class SubmittedRun:
    """A run and its source.

    Attributes:
        source: Index of its source in the list of sources.
        run: The published run.
    """

    source: int
    run: PublishedRun


@dataclass
class ReportRows:
    """Input of a report.

    Attributes:
        scores: The latest run of every cell and seed of each submitter, if it completed. Row ids
            start with the index of the source; names of algorithms have the submitter if needed.
        failures: The same for latest runs that failed.
        references: References of all runs.
        rewards: Numbers about the learned rewards of the completed runs, of submissions that may
            have a rank.
        entries: The runs, by the id of their row.
        names: Name of the algorithm in its runs, by the name in rows.
    """

    scores: list[ScoreRow] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    references: list[ReferenceRow] = field(default_factory=list)
    rewards: list[RewardScoreRow] = field(default_factory=list)
    entries: dict[str, SubmittedRun] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def episodes(self) -> int | None:
        """Number of evaluation episodes of each completed run; `None` if it differs."""
        shown = (self.entries[row.run_id].run.spec.protocol.episodes for row in self.scores)
        counts = set(shown)
        return counts.pop() if len(counts) == 1 else None


def make_rows(sources: Sequence[ResultsSource]) -> ReportRows:
    """Makes report rows of the runs of all submitters.

    An algorithm that several submitters ran on a suite has one entry per submitter. The reference
    policies `random` and `expert` have one entry for all submitters, if the runs used this
    package's implementation.
    """
    rows = ReportRows()
    keys = _keys(sources)
    references: dict[str, ReferenceRow] = {}
    for index, source in enumerate(sources):
        current = current_run_ids((run.spec, run.ended_at) for run in source.runs)
        for run in source.runs:
            if run.spec.run_id not in current:
                continue
            spec, references_of_run = run.spec, run.outcome.references
            run_id = f"{index}-{spec.run_id}"
            key = keys[index, spec.suite, spec.algo_label, _is_anchor(spec)]
            columns = {
                **run_row(spec).model_dump(),
                "run_id": run_id,
                "algo": key,
                "source": spec.source or _source_of_scale(references_of_run.version),
            }
            rows.entries[run_id] = SubmittedRun(index, run)
            rows.names[key] = spec.algo_label
            row = ReferenceRow(suite=spec.suite, env=spec.environment.id, **dict(references_of_run))
            known = row.model_dump_json(exclude={"expert_likely"})
            if row.expert_likely is not None or known not in references:
                references[known] = row
            if run.failure is not None:
                columns |= run.failure.model_dump(include={"phase", "error_type", "message"})
                rows.failures.append(FailureRow.model_validate(columns))
            else:
                shown = _score_row(run, columns)
                rows.scores.append(shown)
                if run.rewards is not None and source.sound:
                    rows.rewards += [RewardScoreRow.of(shown, one) for one in run.rewards.scores]
    rows.references = sorted(references.values(), key=lambda row: (row.suite, row.env, row.version,
                                                          row.random, row.expert))  # fmt: skip
    return rows


def _score_row(run: PublishedRun, columns: dict[str, object]) -> ScoreRow:
    result = run.result
    assert result is not None
    deterministic = result.score("likely")
    return ScoreRow.model_validate(
        {
            **columns,
            **result.model_dump(include=_MEASURED),
            "score": result.score(),
            "score_deterministic": deterministic,
            "score_likely": likely_score(
                run.spec.suite, run.spec.environment.id, result.references, deterministic
            ),
            "score_one": result.references.score_one,
        }
    )


def _source_of_scale(version: str) -> str | None:
    """Returns the source of the expert that scores refer to; `None` for the suite's expert.

    Runs without demonstrations, of a control for example, are shown with the runs that learned
    from that source.
    """
    _, foreign, expert = version.partition("+")
    return re.sub(r":[0-9a-f]{8}$", "", expert) if foreign else None


def _is_anchor(spec: RunSpec) -> bool:
    """Whether a run is of an anchor, and not of another algorithm with that name."""
    return role_of(spec) == "anchor" and spec.algo_label in ANCHORS


def _keys(sources: Sequence[ResultsSource]) -> dict[tuple[int, str, str, bool], str]:
    """Returns a unique name for each algorithm of each submitter on a suite."""
    wanted = sorted(
        {
            (index, run.spec.suite, run.spec.algo_label, _is_anchor(run.spec))
            for index, source in enumerate(sources)
            for run in source.runs
        }
    )
    shared = Counter((suite, label) for _, suite, label, _ in wanted)
    keys: dict[tuple[int, str, str, bool], str] = {}
    taken = {label for _, _, label, _ in wanted}
    for index, suite, label, anchor in wanted:
        if anchor or (shared[suite, label] == 1 and label not in ANCHORS):
            keys[index, suite, label, anchor] = label
            continue
        key = f"{label} ({sources[index].name or 'own runs'})"
        while key in taken:
            key += "*"
        keys[index, suite, label, anchor] = key
    return keys


def separate(rows: ReportRows) -> list[tuple[str, ReportRows]]:
    """Separates rows by suite and by the references that scored them.

    Returns:
        Text that tells apart the groups of a suite, empty if it has one group; and the rows of
        each group. Groups are sorted by suite, those of the newest version first.
    """
    scales = _scales(rows)
    grouped: dict[_Scale, ReportRows] = {}
    for scale in sorted(set(scales.values()), key=_order):
        grouped[scale] = replace(rows, scores=[], failures=[], references=[], rewards=[])
    known: dict[_Scale, set[tuple[str, _Reference]]] = defaultdict(set)
    shown: list[ScoreRow | FailureRow] = [*rows.scores, *rows.failures]
    for row in shown:
        scale = scales[row.run_id]
        known[scale].add((row.env, _references(rows, row)))
        if isinstance(row, ScoreRow):
            grouped[scale].scores.append(row)
        else:
            grouped[scale].failures.append(row)
    for reward in rows.rewards:
        grouped[scales[reward.run_id]].rewards.append(reward)
    for scale, found in known.items():
        grouped[scale].references = [
            reference
            for reference in rows.references
            if reference.suite == scale[0]
            and (reference.env, _identity(reference.suite, reference)) in found
        ]
    return [(_version_text(scale, grouped), own) for scale, own in grouped.items()]


def _references(rows: ReportRows, row: ScoreRow | FailureRow) -> _Reference:
    return _identity(row.suite, rows.entries[row.run_id].run.outcome.references)


def _identity(suite: str, references: ReferenceScores | ReferenceRow) -> _Reference:
    """Returns what identifies references: of a suite of this package, their version alone.

    Other values of such a version fail the check `references`, and have no rank.
    """
    if bundled_suite(suite) is not None:
        return references.version, 0.0, 1.0
    return references.version, references.random, references.expert


def _scales(rows: ReportRows) -> dict[str, _Scale]:
    """Returns suite, version of its card, and number of the scale, by the id of the row.

    Two experts of one source have the same version of the card. Where an environment has several,
    the scales of that environment are numbered.
    """
    shown: list[ScoreRow | FailureRow] = [*rows.scores, *rows.failures]
    several: dict[tuple[str, str, str, str], dict[_Reference, None]] = defaultdict(dict)
    keys = {}
    for row in sorted(shown, key=lambda row: row.run_id):
        own = _references(rows, row)
        base, _, expert = own[0].partition("+")
        keys[row.run_id] = (row.suite, base, row.source or expert, row.env), own
        several[keys[row.run_id][0]].setdefault(own)
    ordered: Mapping[tuple[str, str, str, str], list[_Reference]] = {
        key: sorted(found) for key, found in several.items()
    }
    return {
        run_id: (key[0], key[1], ordered[key].index(own)) for run_id, (key, own) in keys.items()
    }


def _order(scale: _Scale) -> tuple[str, int, str, int]:
    suite, version, number = scale
    return suite, -int(version) if version.isdecimal() and len(version) < 10 else 0, version, number


def _version_text(scale: _Scale, grouped: Mapping[_Scale, ReportRows]) -> str:
    suite, version, number = scale
    alike = [other for other in grouped if other[0] == suite]
    if len(alike) == 1:
        return ""
    numbered = sum(other[1] == version for other in alike) > 1
    return f"version {version}" + f", scale {number + 1}" * numbered
