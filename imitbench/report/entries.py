"""Runs as far as a comparison needs them, whoever made them: own ones and imported ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from imitbench.report.model import ANCHORS, Group
from imitbench.store.external import ExternalRun, ExternalScoreRow
from imitbench.store.records import FailureRow, RunRow, ScoreRow

CONFIG_DIGITS = 8


@dataclass(frozen=True)
class Setting:
    """Under which conditions a run was made.

    Attributes:
        suite: Its suite.
        group: Budget, demonstrations and their source.
    """

    suite: str | None
    group: Group

    def compatible(self, other: Setting) -> bool:
        """Whether nothing keeps the two apart.

        What is `None` was not used or is not known, and keeps nothing apart.
        """
        pairs = zip(self._parts, other._parts, strict=True)
        return all(None in pair or pair[0] == pair[1] for pair in pairs)

    def merged(self, other: Setting) -> Setting:
        """What is known of either; they must be compatible."""
        suite, budget, n_demos, source = (
            one if one is not None else another
            for one, another in zip(self._parts, other._parts, strict=True)
        )
        return Setting(suite, Group(budget, n_demos, source))  # type: ignore[arg-type]

    @property
    def known(self) -> int:
        """How much is known."""
        return sum(part is not None for part in self._parts)

    @property
    def _parts(self) -> tuple[str | int | None, ...]:
        return self.suite, self.group.budget, self.group.n_demos, self.group.source


@dataclass(frozen=True)
class Entry:
    """A run that completed or failed.

    Attributes:
        setting: The conditions of the run.
        score: Normalized score; `None` for a failed run.
        raw_return: Mean raw return; `None` where it is not known.
        imported: Whether another tool made it, so that it takes part only when asked for.
    """

    setting: Setting
    env: str
    algo: str
    score: float | None
    raw_return: float | None = None
    imported: bool = False


def group_of(row: RunRow | ExternalRun | ExternalScoreRow) -> Group:
    """What runs must share with a run to be averaged with it."""
    return Group(row.budget, "all" if row.all_demos else row.n_demos, row.source)


def own_entries(scores: Sequence[ScoreRow], failures: Sequence[FailureRow]) -> list[Entry]:
    """Own runs. Anchors do not train: runs under two budgets with one seed count as one."""
    latest = {}
    for row in sorted(scores, key=lambda row: (row.finished_at, row.run_id)):
        setting = _own_setting(row)
        key = (setting, row.env, row.algo, row.seed)
        latest[key] = Entry(setting, row.env, row.algo, row.score, row.raw_return)
    failed = [Entry(_own_setting(row), row.env, row.algo, None) for row in failures]
    return [*latest.values(), *failed]


def _own_setting(row: RunRow) -> Setting:
    group = group_of(row)
    return Setting(row.suite, replace(group, budget=None) if row.algo in ANCHORS else group)


def imported_entries(rows: Sequence[ExternalScoreRow]) -> list[Entry]:
    """Imported runs that have a score, named as `external_labels` says."""
    labels = external_labels(rows)
    return [
        Entry(Setting(row.suite, group_of(row)), row.env, label, row.score, row.raw_return, True)
        for row, label in zip(rows, labels, strict=True)
        if row.score is not None
    ]


def table_entries(runs: Iterable[ExternalRun]) -> list[Entry]:
    """Runs of a table that was not imported, under the names that it gives."""
    found = []
    for run in runs:
        if run.algo is None or run.env is None:
            continue
        score = run.any_score if run.status == "completed" else None
        if score is not None or run.status == "failed":
            setting = Setting(run.suite, group_of(run))
            found.append(Entry(setting, run.env, run.algo, score, run.raw_return))
    return found


def external_labels(rows: Sequence[ExternalScoreRow]) -> list[str]:
    """What imported algorithms are called beside own ones: `<import>:<algorithm>`.

    Where the runs of one were made with several settings, their digest tells them apart.
    """
    configs: dict[tuple[str, str], set[str | None]] = {}
    for row in rows:
        configs.setdefault((row.name, row.algo), set()).add(row.config)
    labels = []
    for row in rows:
        several = len(configs[row.name, row.algo]) > 1
        variant = f"[{row.config[:CONFIG_DIGITS]}]" if row.config and several else ""
        labels.append(f"{row.name}:{row.algo}{variant}")
    return labels
