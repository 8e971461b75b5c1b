"""Checks that no run is missing: the same seeds everywhere, whatever became of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from imitbench.cards.fit import mismatch
from imitbench.published.findings import Findings
from imitbench.published.submission import LocatedRun
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.records.runs import RunSpec
from imitbench.store.comparability import Conditions
from imitbench.util.text_line import one_line

_FIX = "publish every run, failed ones included, or run what is missing"
_MOST_RUNS = 5_000_000


@dataclass(frozen=True)
class _Row:
    """What must have the same seeds on every environment."""

    label: str
    conditions: Conditions

    @classmethod
    def of(cls, spec: RunSpec) -> _Row:
        # The name alone: an earlier amount of one environment's budget is no other budget.
        return cls(spec.algo_label, replace(Conditions.of_spec(spec), budget=spec.budget.name))

    def __str__(self) -> str:
        count = self.conditions.n_demos
        demos = "" if count is None else f", {count} demonstrations"
        return one_line(f"{self.label} (budget {self.conditions.budget}{demos})")


def check_seeds(runs: Sequence[LocatedRun], findings: Findings) -> None:
    """Checks that every algorithm has the same seeds on every environment of its suite.

    Environments of the suite that no run of the submission is on are told, and no fault.

    Args:
        runs: The runs, with their places.
        findings: Told about problems.
    """
    suites: dict[str, list[RunSpec]] = defaultdict(list)
    for each in runs:
        suites[each.run.spec.suite].append(each.run.spec)
    for suite, specs in sorted(suites.items()):
        _check_suite(suite, specs, findings)


def _check_suite(suite: str, specs: Sequence[RunSpec], findings: Findings) -> None:
    where = one_line(suite, 60)
    algorithms = {_Row.of(spec): spec.algo for spec in specs}
    cells = Counter((_Row.of(spec), spec.environment.id, spec.seed) for spec in specs)
    for (row, env, seed), runs in cells.items():
        if runs > 1:
            what = f"{row} on {one_line(env, 60)}: {runs} runs of seed {seed}"
            findings.fail("seeds", where, what, "publish one of them")
    everywhere = {spec.environment.id for spec in specs}
    seeds = {spec.seed for spec in specs}
    if len(algorithms) * len(everywhere) * len(seeds) > _MOST_RUNS:
        findings.fail("seeds", where, f"more than {_MOST_RUNS} runs would be due", _FIX)
        return
    for row, algo in sorted(algorithms.items(), key=str):
        for env in sorted(everywhere):
            lacking = sorted(seed for seed in seeds if (row, env, seed) not in cells)
            if lacking and _applies(suite, algo, env):
                named = ", ".join(str(seed) for seed in lacking[:10])
                more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
                plural = "s" * (len(lacking) > 1)
                what = f"{row} on {one_line(env, 60)}: no run of seed{plural} {named}{more}"
                findings.fail("seeds", where, what, _FIX)
    unused = next(seed for seed in count() if seed not in seeds)
    if unused < max(seeds):
        findings.tell("seeds", where, f"seeds are not counted from 0: {unused} is not among them")
    card = bundled_suite(suite)
    absent = sorted(card.environments.keys() - everywhere) if card else []
    if absent:
        findings.tell("seeds", where, f"nothing was run on {', '.join(absent)}")


def _applies(suite: str, algo: str, env: str) -> bool:
    """Whether an algorithm can be asked for on an environment; yes where nothing is known."""
    card, algorithm = bundled_suite(suite), bundled_algorithm(algo)
    environment = card.environments.get(env) if card else None
    return algorithm is None or environment is None or mismatch(algorithm, environment) is None
