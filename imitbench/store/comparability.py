"""Defines which runs are comparable, and which of several runs are current."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Literal

from imitbench.cards.demonstrations import Regime, in_words, mixture_text
from imitbench.records.bundled_cards import budget_label, role_of
from imitbench.records.runs import RunRow, RunSpec
from imitbench.store.external_results import ExternalRun, ExternalScoreRow

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Conditions:
    """Properties that runs must share to be compared and averaged, as well as algorithm and env.

    Attributes:
        suite: Name of the suite; `None` if unknown.
        budget: Name of the training budget; `None` if nothing was trained, or if unknown.
        n_demos: Number of demonstrations, or `all` that the source has for each environment;
            `None` if none were used, or if unknown.
        source: Where experts and demonstrations came from; `None` if none were used, or if
            unknown.
        demo_every: One step was used out of so many of each demonstration, so 1 for all steps;
            `None` if none were used, or if unknown.
        demo_actions: `shown` or `hidden`; `None` as for `demo_every`.
        mixture: Trajectories besides the demonstrations, such as `medium:10,random:10`; empty for
            none; `None` as for `demo_every`.
    """

    suite: str | None
    budget: str | None
    n_demos: int | Literal["all"] | None
    source: str | None
    demo_every: int | None = None
    demo_actions: str | None = None
    mixture: str | None = None

    @classmethod
    def of(cls, run: RunRow | ExternalRun | ExternalScoreRow) -> Conditions:
        """Returns the conditions of a run."""
        n_demos: int | Literal["all"] | None = "all" if run.all_demos else run.n_demos
        parts = run.demo_every, run.demo_actions, run.mixture
        return cls.recorded(run.suite, run.budget, n_demos, run.source, *parts)

    @classmethod
    def recorded(
        cls,
        suite: str | None,
        budget: str | None,
        n_demos: int | Literal["all"] | None,
        source: str | None,
        demo_every: int | None = None,
        demo_actions: str | None = None,
        mixture: str | None = None,
    ) -> Conditions:
        """Returns conditions as records state them, which leave out what is as usual."""
        if n_demos is None:
            return cls(suite, budget, None, source)
        parts = demo_every or 1, demo_actions or "shown", mixture or ""
        return cls(suite, budget, n_demos, source, *parts)

    @classmethod
    def in_regime(
        cls, suite: str | None, budget: str | None, source: str | None, regime: Regime
    ) -> Conditions:
        """Returns the conditions of methods with demonstrations in a regime."""
        parts = regime.demo_every, regime.actions, mixture_text(regime.mixture)
        return cls.recorded(suite, budget, regime.n_demos or "all", source, *parts)

    @classmethod
    def of_spec(cls, spec: RunSpec) -> Conditions:
        """Returns the conditions of a run of this package."""
        return cls.of(run_row(spec))

    @classmethod
    def sql(cls) -> str:
        """Returns the conditions as SQL expressions over a table of runs; `all` is -1."""
        expressions = {
            "n_demos": "CASE WHEN all_demos THEN -1 ELSE n_demos END",
        }
        usual = {"demo_every": "1", "demo_actions": "'shown'", "mixture": "''"}
        expressions |= {
            name: f"CASE WHEN n_demos IS NOT NULL THEN coalesce({name}, {value}) END"
            for name, value in usual.items()
        }
        return ", ".join(expressions.get(field.name, field.name) for field in fields(cls))

    def is_part_of(self, whole: Conditions) -> bool:
        """Whether runs under these conditions may be averaged with, or shown next to, others.

        A method that uses no demonstrations is the same for any number of them; if it also uses
        no expert, it is the same for any source.
        """
        return (
            (self.suite, self.budget) == (whole.suite, whole.budget)
            and self.n_demos in (None, whole.n_demos)
            and self.source in (None, whole.source)
            and self.demo_every in (None, whole.demo_every)
            and self.demo_actions in (None, whole.demo_actions)
            and self.mixture in (None, whole.mixture)
        )

    def compatible(self, other: Conditions) -> bool:
        """Whether no field that both have differs."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(None in pair or pair[0] == pair[1] for pair in pairs)

    def merged(self, other: Conditions) -> Conditions:
        """Combines the known fields of both, which must be compatible."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Conditions(*(another if one is None else one for one, another in pairs))

    @property
    def known(self) -> int:
        """Number of fields that are known."""
        return sum(part is not None for part in astuple(self))

    @property
    def demonstrations(self) -> str:
        """What is known of the demonstrations, such as `1 demonstration, one step in 20`."""
        if self.n_demos is None:
            return ""
        return in_words(self.n_demos, self.demo_every, self.demo_actions, self.mixture)

    @property
    def regime(self) -> str:
        """The same in fewer words, such as `1, one step in 20`; empty without demonstrations."""
        return re.sub(" demonstrations?", "", self.demonstrations)

    @property
    def across_regimes(self) -> Conditions:
        """What runs of all regimes share: suite, budget and source."""
        return Conditions.recorded(self.suite, self.budget, None, self.source)

    @property
    def title(self) -> str:
        """The suite and what is known of the rest, such as `seals: budget quick`."""
        return ": ".join(part for part in (self.suite or "unnamed suite", self.within) if part)

    @property
    def within(self) -> str:
        """What is known but for the suite, such as `budget quick, source bundled`."""
        shared = [
            f"budget {self.budget}" if self.budget else "",
            self.demonstrations,
            f"source {self.source}" if self.source else "",
        ]
        return ", ".join(part for part in shared if part)


def whole_conditions(found: Iterable[Conditions]) -> set[Conditions]:
    """Leaves out conditions that are part of others, whose runs are shown next to them."""
    every = set(found)
    return {one for one in every if not any(one.is_part_of(o) for o in every if o != one)}


def run_row(spec: RunSpec) -> RunRow:
    """Returns the columns that identify a run in the database."""
    demos = spec.demos
    return RunRow(
        run_id=spec.run_id,
        suite=spec.suite,
        env=spec.environment.id,
        algo=spec.algo_label,
        seed=spec.seed,
        budget=budget_label(spec),
        n_demos=demos.count if demos else None,
        all_demos=demos.count == demos.available if demos else None,
        demo_every=demos.every if demos else None,
        demo_actions=demos.actions if demos else None,
        mixture=(mixture_text(demos.mixture) or None) if demos else None,
        source=spec.source,
        uses_reward=spec.uses_reward,
        role=role_of(spec),
    )


def current_runs_query(attempts: str) -> str:
    """Returns SQL for the ids of the current runs, completed and failed ones.

    Any run, including a failed one, supersedes runs of its algorithm from before the source of a
    plug-in was edited, runs in its environment from before the source of a suite was edited, and
    runs of its algorithm on its environment under the same conditions with other settings, for
    example other values on a card or other demonstrations. Of two runs that ended at the same
    time, the one with the smaller id counts as the newer one.

    Args:
        attempts: A table or view. It has the columns of `RunRow`, and `setting`
            (`RunSpec.setting`), `method` and `world` (digests of the sources of algorithm and
            suite; empty for those of this package) and `ended_at` (ISO 8601 time in UTC).
    """
    newest_first = "ORDER BY ended_at DESC, run_id"
    return f"""
        WITH current AS (
            SELECT * FROM {attempts}
            QUALIFY method = first_value(method) OVER (PARTITION BY suite, algo {newest_first})
            AND world = first_value(world) OVER (PARTITION BY suite, env {newest_first})
        )
        SELECT run_id FROM current
        QUALIFY setting = first_value(setting) OVER (
            PARTITION BY {Conditions.sql()}, env, algo {newest_first}
        )
    """


def current_run_ids(attempts: Iterable[tuple[RunSpec, str]]) -> set[str]:
    """Returns the ids of the current runs, see `current_runs_query`.

    Args:
        attempts: Completed and failed runs of one submitter, with the ISO 8601 time in UTC at
            which each ended.
    """
    from imitbench.store.arrow_columns import arrow_rows

    rows = [
        {
            **run_row(spec).model_dump(),
            "setting": spec.setting,
            "method": spec.implementation_digest or "",
            "world": spec.environment.module_digest or "",
            "ended_at": ended_at,
        }
        for spec, ended_at in attempts
    ]
    if not rows:
        return set()
    with _memory().cursor() as connection:
        connection.register("attempts", arrow_rows(rows))
        return {run_id for (run_id,) in connection.sql(current_runs_query("attempts")).fetchall()}


@cache
def _memory() -> duckdb.DuckDBPyConnection:
    """Returns an empty database, which takes longer to create than to use."""
    import duckdb

    return duckdb.connect(config={"threads": 1})
